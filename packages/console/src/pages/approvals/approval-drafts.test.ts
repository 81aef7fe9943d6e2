import { expect, it } from "vitest";
import { draftOf, forgetDraft } from "./approval-drafts.ts";

const question = (id: string) => ({ id, input: { path: "a.md" } });

it("keeps what was made of a question until it is forgotten", () => {
  const draft = draftOf(question("one"));
  draft.value.value = { path: "b.md" };
  draft.reason.value = "half a sentence";
  expect(draftOf(question("one")).value.value).toEqual({ path: "b.md" });
  expect(draftOf(question("one")).reason.value).toBe("half a sentence");
  expect(draftOf(question("two")).value.value).toEqual({ path: "a.md" });
  forgetDraft("one");
  expect(draftOf(question("one")).value.value).toEqual({ path: "a.md" });
  expect(draftOf(question("one")).reason.value).toBe("");
});

it("keeps no more than so many, and lets the oldest go first", () => {
  draftOf(question("first")).reason.value = "old";
  for (let index = 0; index < 199; index++) draftOf(question(`more-${index}`)).reason.value = String(index);
  expect(draftOf(question("more-198")).reason.value).toBe("198");
  draftOf(question("another"));
  expect(draftOf(question("first")).reason.value).toBe("");
});
