import { expect, test } from "vitest";
import { selectTop } from "./search-document.ts";

const all = () => true;
const byPosition = (left: number, right: number) => left < right;

test("gives what sorting everything would give, for every limit", () => {
  const scores = Float32Array.from({ length: 200 }, (_, position) => (position * 7_919) % 23);
  const sorted = [...scores.keys()]
    .filter((position) => scores[position]! > 0)
    .sort((left, right) => scores[right]! - scores[left]! || left - right);
  for (const limit of [1, 2, 3, 10, 150, 500, Number.POSITIVE_INFINITY]) {
    expect(selectTop(scores, limit, all, byPosition)).toEqual(sorted.slice(0, limit));
  }
});

test("what is not accepted leaves its place to the next", () => {
  const odd = (position: number) => position % 2 === 1;
  expect(selectTop(Float32Array.of(9, 8, 7, 6, 5), 2, odd, byPosition)).toEqual([1, 3]);
});
