import { expect, test } from "vitest";
import { BLOCK_HEADER, PostingLists } from "./tool-index.ts";

test("lists that grow in turn keep their own pairs in order", () => {
  const lists = new PostingLists();
  const terms = [lists.create(), lists.create(), lists.create()];
  const expected: [number, number][][] = [[], [], []];
  for (let document = 0; document < 6_000; document++) {
    const term = document % 7 === 0 ? 1 : 0;
    lists.append(terms[term]!, document, document * 3);
    expected[term]!.push([document, document * 3]);
  }
  expect(terms.map((term) => pairs(lists, term))).toEqual(expected);
});

function pairs(lists: PostingLists, term: number): [number, number][] {
  const found: [number, number][] = [];
  for (let block = lists.first(term); block !== 0; block = lists.words[block]!) {
    for (let pair = 0; pair < lists.words[block + 1]!; pair++) {
      const at = block + BLOCK_HEADER + 2 * pair;
      found.push([lists.words[at]!, lists.words[at + 1]!]);
    }
  }
  return found;
}
