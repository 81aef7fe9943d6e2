import type { JsonSchemaObject, ToolInfo } from "@toolrack/core";
import { shellQuote } from "../../helpers/values.ts";
import { alternativesOf, follow, parametersOf, propertiesOf, typesOf, valuesOf } from "./schema-parts.ts";

/** `call NAME key=value…` with a value for everything that the tool requires. */
export function exampleCall(info: ToolInfo): string {
  return callOf(info.name, examplePairs(info));
}

export function callOf(name: string, pairs: readonly string[]): string {
  return ["call", name, ...pairs].map(shellQuote).join(" ");
}

/** Words as `parsePairs` takes them. */
export function examplePairs(info: ToolInfo): string[] {
  const root = parametersOf(info);
  return propertiesOf(follow(root, root), root)
    .filter(({ required }) => required)
    .map(({ name, schema }) => pair(name, exampleValue(schema, root)));
}

function pair(name: string, value: unknown): string {
  return typeof value === "object" && value !== null
    ? `${name}:=${JSON.stringify(value)}`
    : `${name}=${String(value)}`;
}

function exampleValue(schema: JsonSchemaObject, root: JsonSchemaObject, depth = 0): unknown {
  const [one = schema] = alternativesOf(schema, root);
  const [listed] = valuesOf(one);
  const [example] = Array.isArray(one.examples) ? one.examples : [];
  const known = example ?? one.default ?? listed;
  if (known !== undefined) return known;
  switch ([...typesOf(one, root)][0]) {
    case "integer":
    case "number":
      return typeof one.minimum === "number" ? one.minimum : 1;
    case "boolean":
      return true;
    case "null":
      return null;
    case "array":
      return depth > 2 ? [] : [exampleValue(follow(one.items, root), root, depth + 1)];
    case "object":
      return depth > 2 ? {} : exampleObject(one, root, depth);
    default:
      return "…";
  }
}

function exampleObject(schema: JsonSchemaObject, root: JsonSchemaObject, depth: number): unknown {
  const required = propertiesOf(schema, root).filter((property) => property.required);
  return Object.fromEntries(
    required.map(({ name, schema: own }) => [name, exampleValue(own, root, depth + 1)]),
  );
}
