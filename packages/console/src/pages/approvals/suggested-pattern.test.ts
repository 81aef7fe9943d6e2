import { expect, it } from "vitest";
import { maskedPlaces, suggestedPattern } from "./suggested-pattern.ts";

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
