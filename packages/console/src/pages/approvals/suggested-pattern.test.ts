import { expect, it } from "vitest";
import { suggestedPattern } from "./suggested-pattern.ts";

it("opens paths up to their folder and leaves the rest as it is", () => {
  expect(
    suggestedPattern({
      path: "drafts/old/a.md",
      name: "x",
      count: 3,
      url: "https://a.example/b",
      token: "***",
    }),
  ).toEqual({
    path: "drafts/old/*",
    name: "x",
    url: "https://a.example/b",
  });
});
