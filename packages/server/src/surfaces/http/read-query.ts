import type { JsonSchemaObject } from "@toolrack/core";

/**
 * The query of a URL as an object in which texts that stand for numbers and booleans are such, where the schemas
 * ask for them. What cannot be read stays the text it is, for the validation to name.
 */
export function readQuery(
  search: string,
  schemas: Readonly<Record<string, JsonSchemaObject>>,
): Record<string, unknown> {
  const query: Record<string, unknown> = Object.create(null);
  for (const [name, text] of new URLSearchParams(search)) {
    // A parameter that is given twice is a list, which no schema takes: the validation says so.
    query[name] = name in query ? [query[name], text].flat() : convert(text, schemas[name]?.type);
  }
  return { ...query };
}

function convert(text: string, type: unknown): unknown {
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  if ((type === "integer" || type === "number") && /^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  return text;
}
