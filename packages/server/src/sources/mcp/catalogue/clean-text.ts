/**
 * Characters that a person does not see and a model reads: controls, blanks without width, direction marks, tags, and
 * the selectors of variants, of which only the one that emoji need is left.
 */
const invisible = /(?![\t\n\r])(?:\p{Cc}|\p{Cf}|[\uFE00-\uFE0E]|[\u{E0100}-\u{E01EF}])/gu;
const comment = /<!--[\s\S]*?(?:-->|$)/g;
/** Comments around comments are made to outlast the cleaning; who goes deeper loses the rest of the text. */
const MOST_ROUNDS = 8;

/** The text as a person would see it: what is hidden in a description is meant for the model alone. */
export function cleanText(text: string): string {
  let clean = text.replace(invisible, "");
  for (let round = 0; round < MOST_ROUNDS && clean.includes("<!--"); round++) {
    clean = clean.replace(comment, "");
  }
  const rest = clean.indexOf("<!--");
  return (rest === -1 ? clean : clean.slice(0, rest)).trim();
}

/** Keywords whose values are read and not gone by. */
const said: ReadonlySet<string> = new Set([
  "description",
  "title",
  "$comment",
  "default",
  "examples",
  "example",
]);
/** Keywords whose members are named by the author of the schema. */
const named: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "dependentSchemas",
  "$defs",
  "definitions",
]);
/** Deeper ones are refused where tools are taken in. */
const DEEPEST = 200;

/** The same for everything inside a schema that is only said. What validation goes by is left as it is. */
export function cleanSchema(schema: unknown, depth = 0): unknown {
  if (depth > DEEPEST || typeof schema !== "object" || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map((item) => cleanSchema(item, depth + 1));
  return mapped(schema, (key, value) => {
    if (said.has(key)) return cleanValue(value, depth + 1);
    if (!named.has(key) || typeof value !== "object" || value === null) return cleanSchema(value, depth + 1);
    return mapped(value, (_, member) => cleanSchema(member, depth + 2));
  });
}

function cleanValue(value: unknown, depth: number): unknown {
  if (typeof value === "string") return cleanText(value);
  if (depth > DEEPEST || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => cleanValue(item, depth + 1));
  return mapped(value, (_, member) => cleanValue(member, depth + 1));
}

function mapped(record: object, change: (key: string, value: unknown) => unknown): object {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(key, value)]));
}
