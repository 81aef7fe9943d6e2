import { expect, it } from "vitest";
import { Mask } from "./mask.ts";

const many = Array.from({ length: 50 }, (_, index) => `value-${index}-of-many`);

it.each([
  ["few", 2],
  ["many", 50],
])("finds every value wherever it stands, out of %s", (_, count) => {
  const mask = new Mask(many.slice(0, count));
  for (const value of many.slice(0, count)) {
    for (const text of [value, `${value}after`, `before${value}`, `密码${value}🔑`, `valuevalue-${value}`]) {
      expect(mask.inText(text)).toBe(text.replace(value, "[redacted]"));
    }
  }
  const clear = "value-51-of-man and nothing else";
  expect(mask.inText(clear)).toBe(clear);
});

it.each([
  ["few", 2],
  ["many", 50],
])("finds values in any mix of upper and lower case, out of %s", (_, count) => {
  const mask = new Mask(["Hunter2-Very-Secret", "ПАРОЛЬ-ΟΔΟΣ", ...many.slice(0, count)]);
  for (const text of ["hunter2-very-secret", "HUNTER2-VERY-SECRET", "hUNTER2-vERY-sECRET", "пароль-οδος"]) {
    expect(mask.inText(`İİ https://${text}.example/Ünder`)).toBe("İİ https://[redacted].example/Ünder");
    expect(mask.finds(text)).toBe(true);
  }
  expect(mask.inText("ПАРОЛЬ-ΟΔΟΣΑ")).toBe("[redacted]Α");
});

it("leaves no rest where values overlap, and never masks what is too short to be a secret", () => {
  const mask = new Mask(["abc", "secret", "secret-and-more", "", "x1x2", "x2y1y2"]);
  expect(mask.inText("abc secret-and-more secret")).toBe("abc [redacted] [redacted]");
  expect(mask.inText("-x1x2y1y2-secretsecret-")).toBe("-[redacted]-[redacted]-");
  expect(new Mask(["root", "Secret"]).inText("Root root SECRET")).toBe("Root [redacted] [redacted]");
  expect(new Mask(["abc", ""]).isEmpty).toBe(true);
});

it("finds values with characters that mean something in patterns, and values of any length", () => {
  const values = ["a+b(c)*[d]?", "\\\\server\\share$", "line\nbreak^", "pipe|or{2}/x", "k".repeat(60_000)];
  const mask = new Mask(values);
  for (const value of values) expect(mask.inText(`<${value}>`)).toBe("<[redacted]>");
  expect(mask.finds("k".repeat(59_999))).toBe(false);
});
