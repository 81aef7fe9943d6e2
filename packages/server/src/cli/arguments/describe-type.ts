import type { JsonSchemaObject } from "@toolrack/core";
import { alternativesOf, follow, typesOf, valuesOf } from "./schema-parts.ts";

const LONGEST = 60;

/** A schema in a few words: `integer ≥ 1`, `"json" | "text"`, `array of string`. */
export function describeType(schema: JsonSchemaObject, root: JsonSchemaObject, depth = 0): string {
  const words = [...new Set(alternativesOf(schema, root).map((one) => describeOne(one, root, depth)))].join(
    " | ",
  );
  return words.length > LONGEST ? `${words.slice(0, LONGEST - 1)}…` : words;
}

function describeOne(schema: JsonSchemaObject, root: JsonSchemaObject, depth: number): string {
  const values = valuesOf(schema);
  if (values.length > 0) return values.map((value) => JSON.stringify(value)).join(" | ");
  const types = [...typesOf(schema, root)];
  if (types.length === 0) return "any";
  return types.map((type) => describeNamed(type, schema, root, depth)).join(" | ");
}

function describeNamed(
  type: string,
  schema: JsonSchemaObject,
  root: JsonSchemaObject,
  depth: number,
): string {
  if (type === "array") {
    // A schema may contain itself, so it is described a few levels deep only.
    return schema.items === undefined || depth > 2
      ? "array"
      : `array of ${describeType(follow(schema.items, root), root, depth + 1)}`;
  }
  if (type === "string") {
    const pattern = typeof schema.pattern === "string" ? `/${schema.pattern}/` : schema.format;
    return [type, pattern, bounds(schema.minLength, schema.maxLength, " characters")]
      .filter(Boolean)
      .join(" ");
  }
  if (type === "number" || type === "integer") {
    return [type, bounds(schema.minimum, schema.maximum, "")].filter(Boolean).join(" ");
  }
  return type;
}

function bounds(least: unknown, most: unknown, unit: string): string {
  const hasLeast = typeof least === "number" && !(unit !== "" && least === 0);
  if (hasLeast && typeof most === "number") return `${least}–${most}${unit}`;
  if (hasLeast) return `≥ ${least}${unit}`;
  return typeof most === "number" ? `≤ ${most}${unit}` : "";
}
