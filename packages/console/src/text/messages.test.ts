import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { messages, textsOf } from "./i18n.ts";

const english = flatten(textsOf(messages, 0));
const chinese = flatten(textsOf(messages, 1));

it("leaves no Chinese text in English", () => {
  const untranslated = [...chinese].filter(([, text]) => !/\p{Script=Han}/u.test(text));
  expect(untranslated).toEqual([]);
});

it("has no backticks, which would be shown as they are", () => {
  const ticked = [...english, ...chinese].filter(([, text]) => text.includes("`"));
  expect(ticked).toEqual([]);
});

it("names the same values in both languages", () => {
  const names = (text: string) => [...new Set(text.match(/\{\w+\}/g))].sort();
  for (const [key, text] of english) expect([key, names(chinese.get(key) ?? "")]).toEqual([key, names(text)]);
});

it("has every text that the pages ask for, and no other", () => {
  const source = sources(join(import.meta.dirname, ".."));
  const asked = new Set(
    [...source.matchAll(/["'`]([a-z][A-Za-z]*(?:\.[A-Za-z0-9]+)+)["'`]/g)].map(([, key]) => key!),
  );
  // Skills and experts are two lists of one page, whose texts have the same names.
  for (const [, name] of source.matchAll(/`\$\{kind\}\.(\w+)`/g))
    asked.add(`skills.${name}`).add(`experts.${name}`);
  // Texts of values: `status.${status}`, and those of choices.
  const families = [
    ...source.matchAll(/`([a-z][A-Za-z.]*)\.\$\{[^}]*\}(\w*)`/g),
    ...source.matchAll(/\bchoicesOf\(\s*["']([a-zA-Z.]+)["']()/g),
  ].map(([, prefix, end]) => new RegExp(`^${prefix}\\.[^.]+${end}$`));
  const unused = [...english.keys()].filter(
    (key) => !asked.has(key) && !families.some((family) => family.test(key)),
  );
  expect(unused).toEqual([]);
  const missing = [...source.matchAll(/\bt\(\s*["'`]([a-zA-Z]+\.[A-Za-z0-9.]+)["'`]/g)]
    .map(([, key]) => key!)
    .filter((key) => !english.has(key));
  expect(missing).toEqual([]);
});

function flatten(texts: object, prefix = ""): Map<string, string> {
  const entries = Object.entries(texts).flatMap(([key, value]): [string, string][] =>
    typeof value === "string" ? [[prefix + key, value]] : [...flatten(value, `${prefix}${key}.`)],
  );
  return new Map(entries);
}

function sources(directory: string): string {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter(
      (entry) =>
        entry.isFile() && /(?<!\.test)\.(vue|ts)$/.test(entry.name) && !entry.parentPath.endsWith("messages"),
    )
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"))
    .join("\n");
}
