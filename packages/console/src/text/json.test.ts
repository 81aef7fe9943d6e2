import { expect, it } from "vitest";
import { isExact, mendJson, parseJson } from "./json.ts";

it("reads what can be read without a change", () => {
  for (const text of ['{"a":[1,2.50,-0,1e21,9007199254740992]}', "null", '"12345678901234567"'])
    expect(parseJson(text)).toEqual({ ok: true, value: JSON.parse(text) });
});

it("does not take a number for another one", () => {
  expect(parseJson('{"a":{"id":12345678901234567}}')).toEqual({
    ok: false,
    message: "12345678901234567",
    inexact: "12345678901234567",
  });
  expect(parseJson("[1e999]")).toMatchObject({ ok: false, inexact: "1e999" });
  expect(isExact("-12345678901234567")).toBe(false);
  expect(isExact("3.14159265358979323846")).toBe(true);
});

it("says what is wrong with what is no JSON", () => {
  const read = parseJson("{");
  expect(read.ok).toBe(false);
  expect(read).not.toHaveProperty("inexact");
});

it.each([
  ["JSON", '{ "a": [1] }'],
  ["comments", '// mine\n{ /* why */ "a": [1] // and so\n }'],
  ["commas too many", '{ "a": [1,], }'],
  ["single quotes and bare keys", "{ a: [1], }"],
  ["code fences", '```json\n{ "a": [1], }\n```'],
  [
    "code fences with words around them",
    'Put this into the file:\n\n```jsonc\n{ "a": [1] } // here\n```\nThen restart.',
  ],
  ["a fence that is not closed", '```\n{ "a": [1] }'],
  ["an end that is missing", '{ "a": [1'],
])("reads %s", async (_, text) => {
  expect(await mendJson(text)).toEqual({ a: [1] });
});

it("leaves what is in quotes as it is", async () => {
  expect(await mendJson('{ "url": "https://x.example/a,}", "b": "/* no */", }')).toEqual({
    url: "https://x.example/a,}",
    b: "/* no */",
  });
});

it.each(["", "   ", "hello world", "npx -y server", "12 monkeys"])("makes nothing of %j", async (text) => {
  expect(await mendJson(text)).toBeUndefined();
});
