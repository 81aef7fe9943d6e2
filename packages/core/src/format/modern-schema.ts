import { cloneJson } from "../schema/json.ts";
import { renameLimit, renameTuple } from "../schema/keywords.ts";
import {
  isJsonType,
  isRecord,
  isSchema,
  type JsonSchema,
  type JsonSchemaObject,
  mapSchemas,
  pointer,
  typesOf,
} from "../schema/visit.ts";
import type { TakeNote } from "./notes.ts";

/**
 * Rewrites a schema to 2020-12, against which providers check schemas: tuples, exclusive bounds, dependencies and
 * `nullable` of older dialects are translated, invalid keywords removed. Does not change the original. Throws for
 * values that are not JSON, such as a circular object.
 */
export function toModernSchema(schema: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  const modern = modernise(cloneJson(schema), "", note);
  return isRecord(modern) ? modern : {};
}

function modernise(node: JsonSchema, path: string, note: TakeNote): JsonSchema {
  if (!isRecord(node)) return node;
  const schema = mapSchemas(node, (child, steps) => modernise(child, pointer(path, ...steps), note));
  delete schema.$schema;
  takeOutInvalid(schema, path, note);
  translate(schema, (keyword, by) => note(path, keyword, "rewritten", `Said with \`${by}\`.`));
  takeOutImpossible(schema, path, note);
  return isNever(schema) ? false : schema;
}

const isString = (value: unknown) => typeof value === "string";
const isFilledList = (value: unknown): value is unknown[] => Array.isArray(value) && value.length > 0;

const validValues: Readonly<Record<string, (value: unknown) => boolean>> = {
  type: (value) => isJsonType(value) || (isFilledList(value) && value.every(isJsonType)),
  description: isString,
  title: isString,
  $ref: isString,
  pattern: isString,
  format: isString,
  properties: isRecord,
  patternProperties: isRecord,
  $defs: isRecord,
  definitions: isRecord,
  anyOf: isFilledList,
  oneOf: isFilledList,
  allOf: isFilledList,
  enum: isFilledList,
  prefixItems: isFilledList,
  required: (value) => Array.isArray(value) && value.every(isString),
};
const schemaLists = ["anyOf", "oneOf", "allOf", "prefixItems"];
const schemaMaps = ["properties", "patternProperties", "$defs", "definitions"];

/** A provider refuses the whole request for one invalid keyword. */
function takeOutInvalid(schema: Record<string, unknown>, path: string, note: TakeNote): void {
  for (const [keyword, isValid] of Object.entries(validValues)) {
    if (schema[keyword] === undefined || isValid(schema[keyword])) continue;
    delete schema[keyword];
    note(path, keyword, "dropped", "Its value is not valid JSON Schema.");
  }
  for (const keyword of [...schemaLists, ...schemaMaps]) {
    const members = schema[keyword];
    if (typeof members !== "object" || members === null || Object.values(members).every(isSchema)) continue;
    const entries = Object.entries(members).map(([key, member]): [string, JsonSchema] => {
      if (isSchema(member)) return [key, member];
      note(
        pointer(path, keyword, key),
        keyword,
        "rewritten",
        "Not a schema; sent as one that takes anything.",
      );
      return [key, {}];
    });
    schema[keyword] = Array.isArray(members)
      ? entries.map(([, member]) => member)
      : Object.fromEntries(entries);
  }
}

const exclusiveLimits = [
  ["exclusiveMinimum", "minimum"],
  ["exclusiveMaximum", "maximum"],
] as const;

type Replaced = (keyword: string, by: string) => void;

function translate(schema: Record<string, unknown>, replaced: Replaced): void {
  if (renameTuple(schema)) {
    if (!isFilledList(schema.prefixItems)) delete schema.prefixItems;
    replaced("items", "prefixItems");
  }
  delete schema.additionalItems;
  for (const [exclusive, inclusive] of exclusiveLimits) {
    if (renameLimit(schema, exclusive, inclusive)) replaced(inclusive, exclusive);
  }
  if (isRecord(schema.dependencies)) {
    const entries = Object.entries(schema.dependencies);
    const lists = entries.filter(([, value]) => Array.isArray(value));
    const schemas = entries.filter(([, value]) => isSchema(value));
    if (lists.length > 0) schema.dependentRequired ??= Object.fromEntries(lists);
    if (schemas.length > 0) schema.dependentSchemas ??= Object.fromEntries(schemas);
    replaced("dependencies", "dependentRequired and dependentSchemas");
  }
  delete schema.dependencies;
  if (schema.nullable === true && schema.type !== undefined) {
    schema.type = [...new Set([...(typesOf(schema) ?? []), "null"])];
    replaced("nullable", "type");
  }
  delete schema.nullable;
}

function takeOutImpossible(schema: Record<string, unknown>, path: string, note: TakeNote): void {
  for (const keyword of ["anyOf", "oneOf"]) {
    const branches = schema[keyword];
    if (!Array.isArray(branches)) continue;
    const possible = branches.filter((branch) => branch !== false);
    if (possible.length === branches.length || possible.length === 0) continue;
    schema[keyword] = possible;
    note(path, keyword, "rewritten", "A branch that accepts nothing is left out.");
  }
}

/** `{ "not": {} }` is how generators write a schema that accepts nothing. */
function isNever({ not, ...rest }: JsonSchemaObject): boolean {
  const isEverything = not === true || (isRecord(not) && Object.keys(not).length === 0);
  return isEverything && Object.keys(rest).length === 0;
}
