import type { JsonSchema } from "../../schema/types.ts";

/** What the parameters of a tool say in words. */
export interface SchemaText {
  readonly names: readonly string[];
  /** Descriptions and titles, and the values of enumerations. */
  readonly descriptions: readonly string[];
}

/**
 * Collects the names and descriptions of a parameter schema, however deep they are nested. Reads at most
 * `MAX_DEPTH` levels and `MAX_NODES` schemas, so a schema that refers to itself or is huge ends too. Never
 * throws for a malformed schema: what is not understood is left out.
 */
export function schemaText(schema: JsonSchema): SchemaText {
  const names: string[] = [];
  const descriptions: string[] = [];
  let nodes = 0;
  visit(schema, 0);
  return { names, descriptions };

  function visit(node: unknown, depth: number): void {
    if (!isRecord(node) || depth > MAX_DEPTH || ++nodes > MAX_NODES) return;
    for (const text of [node.title, node.description, node.const]) addText(text);
    if (Array.isArray(node.enum)) for (const value of node.enum.slice(0, MAX_ENUM_VALUES)) addText(value);
    visitMap(node.properties, depth, true);
    for (const keyword of MAPS_OF_SCHEMAS) visitMap(node[keyword], depth, false);
    for (const keyword of SCHEMAS) {
      const value = node[keyword];
      for (const child of Array.isArray(value) ? value : [value]) visit(child, depth + 1);
    }
  }

  function visitMap(map: unknown, depth: number, named: boolean): void {
    if (!isRecord(map) || depth >= MAX_DEPTH) return;
    for (const [name, child] of Object.entries(map)) {
      if (nodes >= MAX_NODES) return;
      if (named) names.push(name);
      visit(child, depth + 1);
    }
  }

  function addText(text: unknown): void {
    if (typeof text === "string" && text !== "") descriptions.push(text);
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const MAX_DEPTH = 12;
const MAX_NODES = 1_000;
const MAX_ENUM_VALUES = 50;
const MAPS_OF_SCHEMAS = ["patternProperties", "$defs", "definitions"];
const SCHEMAS = ["items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties", "then", "else"];
