import { expect, test } from "vitest";
import { bestFit, isUsableTemplate, matchUriTemplate } from "./uri-templates.ts";

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
  ["weather://{city}{?units}", "weather://paris?units=c", { city: "paris", units: "c" }],
  ["weather://{city}{?units}", "weather://paris", { city: "paris" }],
  ["weather://{city}{?units}", "weather://?units=c", undefined],
  ["find://items{?q,limit}", "find://items?q=a%20b&limit=5", { q: "a b", limit: "5" }],
  ["find://items{?q,limit}", "find://items?limit=5&q=a", { q: "a", limit: "5" }],
  ["find://items{?q,limit}", "find://items?q=a/b?c", { q: "a/b?c" }],
  ["find://items{?q,limit}", "find://items?q", { q: "" }],
  ["find://items{?q,limit}", "find://items", {}],
  ["find://items{?q,limit}", "find://items?owner=me", undefined],
  ["find://items{?q,limit}", "find://items?q=a&owner=me", undefined],
  ["find://items{?q,limit}", "find://items/7", undefined],
  ["find://items{?q,limit}", "find://item?q=a", undefined],
  ["find://items{?q}{#part}", "find://items?q=a#b/c", { q: "a", part: "b/c" }],
  ["find://items{?q}{#part}", "find://items#b", { part: "b" }],
  ["find://all/{id}/z{?q*}", "find://all/1/z?q=1&q=2", { id: "1", q: "1,2" }],
  ["find://all{?filter*}", "find://all?color=red&size=s", {}],
  ["find://all?fixed=1{&a,b}", "find://all?fixed=1&b=2", { b: "2" }],
  ["find://all?fixed=1{&a,b}", "find://all?fixed=1", {}],
  ["find://all?fixed=1{&a,b}", "find://all?fixed=12", undefined],
  ["note://{+path}{?version}", "note://a/b?version=2", { path: "a/b", version: "2" }],
  ["note://{+path}{?version}", "note://a/b?c=2", { path: "a/b?c=2" }],
  ["note://{+path}{#part}", "note://a#b#c", { path: "a", part: "b#c" }],
  ["repo://files{/path*}", "repo://files/a/b/c", { path: "a/b/c" }],
  ["repo://files{/path*}", "repo://files", {}],
  ["repo://files{/path*}", "repo://filesa", undefined],
  ["repo://files{/path*}{?ref}", "repo://files/a/b?ref=main", { path: "a/b", ref: "main" }],
  ["repo://e{/p,q}", "repo://e/1/2", { p: "1", q: "2" }],
  ["repo://e{/p,q}", "repo://e/1", { p: "1" }],
  ["repo://e{/p,q}", "repo://e/1/2/3", undefined],
  ["repo://e{/p,q}/end", "repo://e/1/end", { p: "1" }],
  ["repo://c/{path*}", "repo://c/x/y", { path: "x/y" }],
  ["repo://c/{path*}", "repo://c/", undefined],
  ["repo://c/{x,y}", "repo://c/1,2,3", { x: "1", y: "2,3" }],
  ["repo://c/{id:3}", "repo://c/abc", { id: "abc" }],
  ["file://a{.type}", "file://a.tar.gz", { type: "tar.gz" }],
  ["file://a{.one,two}", "file://a.tar.gz", { one: "tar", two: "gz" }],
  ["file://a{.type}", "file://a", {}],
  ["file://a{.type}", "file://ab", undefined],
  ["file://a{;x,y}/b", "file://a;y=2;x=1/b", { x: "1", y: "2" }],
  ["file://a{;x,y}/b", "file://a;z=2/b", undefined],
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
  "x://{?}",
  "x://{/a,}",
  "x://{?a}{b}",
  `x://${"{/a,b,c,d,e}".repeat(7)}`,
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
  for (const sign of ["/", "?", "&", ";", ".", "#"]) {
    const signs = Array.from({ length: 32 }, (_, index) => `{${sign}v${index}*}`).join("");
    const long = `zzz://${sign.repeat(8_000)}`;
    expect(matchUriTemplate(`zzz://${signs}`, long)).toBeDefined();
    expect(matchUriTemplate(`zzz://${signs}!`, long)).toBeUndefined();
  }
});

test("of a list of templates that is made to be slow, only so many are tried", () => {
  const slow = Array.from({ length: 10_000 }, (_, index) => `zzz:${"{+a}a".repeat(20)}${index}!`);
  const long = `zzz:${"a".repeat(8_000)}`;
  expect(bestFit(["zzz:{+all}", ...slow.slice(0, 10)], long)).toBe(4);
  expect(bestFit(["zzz:{+all}", ...slow], long)).toBeUndefined();
  expect(bestFit(["zzz:{+all}", ...slow], "zzz:7")).toBe(4);
});
