// @vitest-environment happy-dom
import { expect, it } from "vitest";
import type { Approval } from "../api/index.ts";
import { setLanguage, t } from "../text/index.ts";
import { draftOf, forgetDraft, maskedPlaces, reasonOf, suggestedPattern } from "./approval-draft.ts";

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

it("suggests the arguments as they are, whatever their types", () => {
  const input = {
    path: "drafts/old/a.md",
    amount: 10,
    force: true,
    nothing: null,
    ids: [1, "two"],
    at: { x: { y: false } },
  };
  expect(suggestedPattern(input)).toEqual(input);
});

it("takes no star of the arguments for one that stands for anything", () => {
  expect(suggestedPattern({ to: "*", ids: ["a*b"], at: { name: "[*]" } })).toEqual({
    to: "[*]",
    ids: ["a[*]b"],
    at: { name: "[[*]]" },
  });
});

it("tells where a mask stands in the place of a secret", () => {
  const pattern = { token: "[redacted]", headers: { authorization: "Bearer [redacted]" }, name: "x" };
  expect(maskedPlaces(pattern)).toEqual(["token", "headers.authorization"]);
  expect(maskedPlaces({ list: ["a", "[redacted]"], none: null })).toEqual(["list.1"]);
});

const because = (reason?: string) =>
  ({ id: "a", callId: "c", toolName: "t", message: "", input: {}, reason }) as unknown as Approval; // The draft reads only these members.

it("says what the rack wrote in the language of the console, and what a person wrote in their words", async () => {
  await setLanguage("zh-CN", { remember: false });
  expect(reasonOf(because("the call ended before anybody answered"))).toBe(t("approvals.callGone"));
  expect(reasonOf(because("the server stopped before anybody answered"))).toBe(t("approvals.serverGone"));
  expect(reasonOf(because("not today"))).toBe("not today");
  expect(reasonOf(because("constructor"))).toBe("constructor");
  expect(reasonOf(because())).toBe("");
});
