/**
 * Characters that a person does not see and a model reads: controls, blanks without width, direction marks, tags, and
 * the selectors of variants, of which only the one that emoji need is left.
 */
const invisible = /(?![\t\n\r])(?:\p{Cc}|\p{Cf}|[\uFE00-\uFE0E]|[\u{E0100}-\u{E01EF}])/gu;
const comment = /<!--[\s\S]*?(?:-->|$)/g;

/** The text as a person would see it: what is hidden in a description is meant for the model alone. */
export function cleanText(text: string): string {
  return text.replace(invisible, "").replace(comment, "").trim();
}

/** The same for every description and title inside a schema. What validation goes by is left as it is. */
export function cleanSchema(schema: unknown, depth = 0): unknown {
  if (depth > 40 || typeof schema !== "object" || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map((item) => cleanSchema(item, depth + 1));
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [
      key,
      (key === "description" || key === "title" || key === "$comment") && typeof value === "string"
        ? cleanText(value)
        : cleanSchema(value, depth + 1),
    ]),
  );
}
