import { expect, it } from "vitest";
import { isExact, parseJson } from "./parse-json.ts";

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
