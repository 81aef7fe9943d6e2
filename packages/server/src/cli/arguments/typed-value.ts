import type { JsonSchemaObject } from "@toolrack/core";
import { alternativesOf, follow, typesOf, valuesOf } from "./schema-parts.ts";

const yes = new Set(["true", "yes", "on", "1"]);
const no = new Set(["false", "no", "off", "0"]);

/**
 * The value that a word of the command line means for a schema. Where the schema allows text, the word is text.
 * A word that fits no type stays text, so that the schema's own message says what is wrong with it.
 */
export function typedValue(text: string, schema: JsonSchemaObject, root: JsonSchemaObject): unknown {
  const listed = alternativesOf(schema, root).flatMap(valuesOf);
  if (listed.length > 0) {
    const meant =
      listed.find((value) => value === text) ?? listed.find((value) => JSON.stringify(value) === text);
    if (meant !== undefined) return meant;
  }
  const types = typesOf(schema, root);
  if (types.size === 0) return listed.length > 0 ? text : guess(text);
  const structure = /^\s*[[{]/.test(text) ? jsonOr(text, undefined) : undefined;
  if (Array.isArray(structure) && types.has("array")) return structure;
  if (structure !== undefined && !Array.isArray(structure) && types.has("object")) return structure;
  if (types.has("string")) return text;
  if (types.has("number") || types.has("integer")) {
    const number = numberOf(text);
    if (number !== undefined) return number;
  }
  if (types.has("boolean")) {
    const word = text.toLowerCase();
    if (yes.has(word) || no.has(word)) return yes.has(word);
  }
  if (types.has("null") && text === "null") return null;
  if (types.has("array")) return [typedValue(text, itemsOf(schema, root), root)];
  return text;
}

function itemsOf(schema: JsonSchemaObject, root: JsonSchemaObject): JsonSchemaObject {
  const items = alternativesOf(schema, root).find((one) => one.items !== undefined)?.items;
  return follow(items, root);
}

/** Only what JSON would call a number, so that `1e` or an empty word is not taken for one. */
function numberOf(text: string): number | undefined {
  if (!/^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/.test(text.trim())) return undefined;
  const number = Number(text);
  return Number.isFinite(number) ? number : undefined;
}

/** Nothing is known about the value: JSON when it is JSON, text otherwise. */
function guess(text: string): unknown {
  return jsonOr(text, text);
}

function jsonOr<Otherwise>(text: string, otherwise: Otherwise): unknown | Otherwise {
  try {
    return JSON.parse(text);
  } catch {
    return otherwise;
  }
}
