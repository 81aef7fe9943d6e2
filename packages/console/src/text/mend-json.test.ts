import { expect, it } from "vitest";
import { mendJson } from "./mend-json.ts";

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
