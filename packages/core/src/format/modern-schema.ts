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
import { flattenRoot } from "./flatten.ts";
import { keepReferences } from "./references.ts";
import { cloneJson } from "./tools.ts";

/**
 * The schema in the words of 2020-12, which is what providers check schemas against: tuples, exclusive bounds,
 * dependencies and `nullable` of older dialects are rewritten, and what no dialect knows is taken out.
 * The original is not touched. Throws for what is not JSON, such as a circular object.
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

/** A provider refuses the whole request for one keyword of the wrong kind. */
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

/** A remark longer than this costs more attention than it is worth; it is not made. */
const maxLength = 300;

const phrases: Readonly<Record<string, (value: unknown) => string | undefined>> = {
  minimum: (value) => `minimum ${json(value)}`,
  maximum: (value) => `maximum ${json(value)}`,
  exclusiveMinimum: (value) => `more than ${json(value)}`,
  exclusiveMaximum: (value) => `less than ${json(value)}`,
  multipleOf: (value) => `multiple of ${json(value)}`,
  minLength: (value) => `at least ${count(value, "character")}`,
  maxLength: (value) => `at most ${count(value, "character")}`,
  minItems: (value) => `at least ${count(value, "item")}`,
  maxItems: (value) => `at most ${count(value, "item")}`,
  minProperties: (value) => `at least ${count(value, "property", "properties")}`,
  maxProperties: (value) => `at most ${count(value, "property", "properties")}`,
  uniqueItems: (value) => (value === true ? "no item twice" : undefined),
  pattern: (value) => `pattern: ${String(value)}`,
  format: (value) => `format: ${String(value)}`,
  contentEncoding: (value) => `encoding: ${String(value)}`,
  contentMediaType: (value) => `media type: ${String(value)}`,
  default: (value) => `default: ${json(value)}`,
  const: (value) => `always ${json(value)}`,
  enum: (value) => `one of: ${list(value)}`,
  examples: (value) => `for example: ${list(value)}`,
  required: (value) => `required: ${Array.isArray(value) ? value.join(", ") : json(value)}`,
  additionalProperties: (value) =>
    value === true || (isRecord(value) && Object.keys(value).length === 0)
      ? "any further properties are allowed"
      : `every further property: ${json(value)}`,
  patternProperties: (value) => `properties by pattern of their name: ${json(value)}`,
  propertyNames: (value) => `property names: ${json(value)}`,
  dependentRequired: (value) =>
    isRecord(value)
      ? Object.entries(value)
          .map(([key, needs]) => `${key} needs ${Array.isArray(needs) ? needs.join(", ") : json(needs)}`)
          .join("; ")
      : undefined,
  contains: (value) => `at least one item: ${json(value)}`,
  allOf: (value) => `must also match: ${json(value)}`,
  not: (value) => `must not match: ${json(value)}`,
  if: (value) => `if the value matches: ${json(value)}`,
  // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema; nothing awaits this table.
  then: (value) => `then it must match: ${json(value)}`,
  else: (value) => `otherwise it must match: ${json(value)}`,
};

/** The constraint in words for a model, or nothing when it cannot be said briefly. */
export function describeConstraint(keyword: string, value: unknown): string | undefined {
  const phrase = phrases[keyword];
  const text = phrase === undefined ? `${keyword}: ${json(value)}` : phrase(value);
  return text === undefined || text.length > maxLength ? undefined : text;
}

/** The description followed by remarks in brackets. */
export function withRemarks(description: unknown, remarks: readonly string[]): string | undefined {
  const parts = remarks.map((remark) => `(${remark})`);
  if (typeof description === "string" && description !== "") parts.unshift(description);
  return parts.length === 0 ? undefined : parts.join(" ");
}

function json(value: unknown): string {
  return JSON.stringify(value) ?? "nothing";
}

function list(value: unknown): string {
  return Array.isArray(value) ? value.map(json).join(", ") : json(value);
}

function count(value: unknown, singular: string, plural = `${singular}s`): string {
  return `${json(value)} ${value === 1 ? singular : plural}`;
}

/**
 * What became of a part that a provider does not take.
 * - `described`: said in the description instead
 * - `rewritten`: said in another way, with the same meaning or a wider one
 * - `dropped`: not sent
 * - `shortened`: cut to the provider's limit
 * - `not_strict`: the tool is sent without strict mode
 * - `left_out`: the tool is not sent at all
 */
type FormatAction = "described" | "rewritten" | "dropped" | "shortened" | "not_strict" | "left_out";

/** One thing a provider is told differently from how the tool says it. The rack still checks the original. */
export interface FormatNote {
  /** The tool's name on the rack. */
  readonly tool: string;
  /** JSON pointer into the tool's input schema; empty for its root and for the tool itself. */
  readonly path: string;
  /** The schema keyword, or `name`, `description`, `schema` for the tool itself. */
  readonly keyword: string;
  readonly action: FormatAction;
  readonly message: string;
}

/** Takes down what a lowering step did; the formatter knows which tool it is about. */
export type TakeNote = (path: string, keyword: string, action: FormatAction, message: string) => void;

/** The description cut at a word to the provider's limit. */
export function clipDescription(
  description: string | undefined,
  limit: number,
  note: TakeNote,
): string | undefined {
  if (description === undefined || description.length <= limit) return description;
  note("", "description", "shortened", `${description.length} characters; the provider takes ${limit}.`);
  const head = description.slice(0, limit - 1).replace(/[\uD800-\uDBFF]$/, "");
  const word = head.search(/\s\S*$/);
  return `${word > limit / 2 ? head.slice(0, word) : head}…`;
}

/**
 * The schema as every provider needs it: in the words of 2020-12, one object at its root, every reference
 * pointing to something. Nothing else is changed. Throws when the arguments are not an object or not JSON.
 */
export function prepareSchema(schema: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  const modern = toModernSchema(schema, note);
  const isFlat = ["$ref", "allOf", "anyOf", "oneOf"].every((keyword) => modern[keyword] === undefined);
  // A root that is about to be rewritten must not be pointed into.
  const isSafe = (reference: string) => isFlat || /^#(\/?$|\/\$defs\/|\/definitions\/)/.test(reference);
  return flattenRoot(keepReferences(modern, schema, note, isSafe), note);
}
