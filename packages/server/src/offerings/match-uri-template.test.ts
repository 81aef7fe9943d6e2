import { expect, test } from "vitest";
import { matchUriTemplate } from "./match-uri-template.ts";

test.each([
  ["note://{id}", "note://7", { id: "7" }],
  ["note://{id}", "note://a%20b", { id: "a b" }],
  ["note://{id}", "note://a/b", undefined],
  ["note://{+path}", "note://a/b", { path: "a/b" }],
  ["note://{folder}/{name}.md", "note://x/y.md", { folder: "x", name: "y" }],
  ["note://{folder}/{name}.md", "note://x/ymd", undefined],
  ["note://a.b(c)", "note://a.b(c)", {}],
  ["note://a.b(c)", "note://aXb(c)", undefined],
  ["note://{id}", "note://%E0%A4%A", { id: "%E0%A4%A" }],
])("%s and %s", (template, uri, variables) => {
  expect(matchUriTemplate(template, uri)).toEqual(variables);
});
