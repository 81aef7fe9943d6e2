import { inspect } from "node:util";
import { redact } from "@toolrack/core/internal";
import { describe, expect, it } from "vitest";
import { MaskedValues } from "./secrets.ts";

const value = 'Hunter2 "very"\nsecret/密+码 (<&>)';
const mask = (text: string) => redact(text, { values: new MaskedValues(() => [value]).list });

describe("a secret value", () => {
  it.each<[string, string]>([
    ["plainly", value],
    ["in upper case", value.toUpperCase()],
    ["in lower case", value.toLowerCase()],
    ["in a URL", encodeURIComponent(value)],
    ["in a URL with digits in lower case", encodeURIComponent(value).toLowerCase()],
    ["in a URL by Python", "Hunter2%20%22very%22%0Asecret/%E5%AF%86%2B%E7%A0%81%20%28%3C%26%3E%29"],
    ["as a URL", encodeURI(value)],
    ["in a form", new URLSearchParams({ key: value }).toString().slice(4)],
    ["in JSON", JSON.stringify(value).slice(1, -1)],
    ["in JSON inside of JSON", JSON.stringify(JSON.stringify(value)).slice(3, -3)],
    ["in JSON by Python", String.raw`Hunter2 \"very\"\nsecret/\u5bc6+\u7801 (<&>)`],
    ["in JSON by PHP", String.raw`Hunter2 \"very\"\nsecret\/密+码 (<&>)`],
    ["in JSON by Go", String.raw`Hunter2 \"very\"\nsecret/密+码 (\u003c\u0026\u003e)`],
    ["as Node prints it", inspect(value).slice(1, -1)],
    ["in HTML", "Hunter2 &quot;very&quot;\nsecret/密+码 (&lt;&amp;&gt;)"],
    ["in hexadecimal digits", Buffer.from(value).toString("hex")],
    ["in large hexadecimal digits", Buffer.from(value).toString("hex").toUpperCase()],
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

  it("is masked without the line break that it was piped in with", () => {
    const values = new MaskedValues(() => ["hunter2-secret\n"]).list;
    expect(redact("it is hunter2-secret!", { values })).toBe("it is [redacted]!");
  });
});

it("gives the same list until a value comes or goes", () => {
  const values = ["first-secret"];
  const masked = new MaskedValues(
    () => values,
    () => ["constant-secret"],
  );
  const before = masked.list;
  expect(masked.refresh()).toBe(before);
  values.push("second-secret");
  expect(masked.refresh()).toContain("second-secret");
  expect(masked.list).not.toBe(before);
});
