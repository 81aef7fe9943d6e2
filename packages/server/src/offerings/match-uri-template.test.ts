import { expect, test } from "vitest";
import { isUsableTemplate, matchUriTemplate } from "./match-uri-template.ts";

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
  ["note://{+path}/x/{id}", "note://p/x/q/x/r", { path: "p/x/q", id: "r" }],
  ["note://{+path}.{type}", "note://a/b.c.d", { path: "a/b.c", type: "d" }],
  ["note://{a}-{b}", "note://1-2-3", { a: "1-2", b: "3" }],
  ["note://{a}-{b}", "note://1-/2", undefined],
  ["note://{id}/", "note:///", undefined],
])("%s and %s", (template, uri, variables) => {
  expect(matchUriTemplate(template, uri)).toEqual(variables);
});

test.each([
  "{+any}",
  "x{+any}://y",
  "//{host}/a",
  "x://{+a}{+b}",
  "x://{a}{b}",
  "x://{",
  "x://{}",
  "x://{+}",
])("%s claims more than can be told apart, and fits nothing", (template) => {
  expect(isUsableTemplate(template)).toBe(false);
  expect(matchUriTemplate(template, "x://y/z")).toBeUndefined();
});

test("a template that is made to be slow is matched like any other", () => {
  const expressions = "abcdefghijk".split("").map((name) => `{+${name}}`);
  const uri = `zzz://${"a".repeat(8_000)}`;
  expect(matchUriTemplate(`zzz://${expressions.join("")}!`, uri)).toBeUndefined();
  expect(matchUriTemplate(`zzz://${expressions.join("a")}!`, uri)).toBeUndefined();
  expect(matchUriTemplate(`zzz://${expressions.join("a")}`, uri)).toMatchObject({ k: "a" });
  expect(matchUriTemplate("zzz://{+all}", `zzz://${"a".repeat(9_000)}`)).toBeUndefined();
});
