import { redact } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import { MaskedValues } from "./secrets.ts";

const value = 'hunter2 "very"\nsecret/密+码';
const mask = (text: string) => redact(text, { values: new MaskedValues(() => [value]).list() });

describe("a secret value", () => {
  it.each<[string, string]>([
    ["plainly", value],
    ["in a URL", encodeURIComponent(value)],
    ["in JSON", JSON.stringify(value).slice(1, -1)],
  ])("is masked where it is written %s", (_, written) => {
    expect(mask(`<${written}>`)).toBe("<[redacted]>");
  });

  it.each(["", "u", "us", "usr", "user:"])("is masked in base64 behind %j", (before) => {
    for (const after of ["", "x", "xy", "xyz"]) {
      for (const encoding of ["base64", "base64url"] as const) {
        const shown = String(mask(Buffer.from(before + value + after).toString(encoding)));
        expect(shown).toContain("[redacted]");
        expect(Buffer.from(shown.replace("[redacted]", ""), "base64").toString()).not.toContain("unter2");
      }
    }
  });
});

it("gives the same list until a value comes or goes", () => {
  const values = ["first-secret"];
  const masked = new MaskedValues(
    () => values,
    () => ["constant-secret"],
  );
  const before = masked.list();
  expect(masked.list()).toBe(before);
  values.push("second-secret");
  expect(masked.list()).toContain("second-secret");
  expect(masked.list()).not.toBe(before);
});
