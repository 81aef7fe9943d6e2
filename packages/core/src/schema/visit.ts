/**
 * The one way through a JSON Schema. Everything that looks into schemas (checks, validators, formats, forms, commands) is
 * a small rule on top of what stands here: where schemas sit inside a schema, what a reference leads to, and readers
 * for keywords that may hold anything. Nothing here throws for a malformed schema, and nothing is ever fetched.
 */

/** A JSON Schema document (2020-12 unless `$schema` says draft-07). */
export type JsonSchema = boolean | JsonSchemaObject;
/** A JSON Schema that is no boolean. */
export interface JsonSchemaObject {
  readonly [keyword: string]: unknown;
}

export type JsonType = "string" | "number" | "integer" | "boolean" | "null" | "object" | "array";

/** The way from a schema to one directly inside it: a keyword, and the name or number below it. */
export type SchemaSteps = readonly [keyword: string, member?: string | number];

/** How a keyword holds schemas: one, a list, by name, or (`items` of older drafts) one or a list. */
type Arrangement = "schema" | "list" | "map" | "schema-or-list";

const arrangements = new Map<string, Arrangement>([
  ["additionalItems", "schema"],
  ["additionalProperties", "schema"],
  ["contains", "schema"],
  ["contentSchema", "schema"],
  ["else", "schema"],
  ["if", "schema"],
  ["items", "schema-or-list"],
  ["not", "schema"],
  ["propertyNames", "schema"],
  ["then", "schema"],
  ["unevaluatedItems", "schema"],
  ["unevaluatedProperties", "schema"],
  ["allOf", "list"],
  ["anyOf", "list"],
  ["oneOf", "list"],
  ["prefixItems", "list"],
  ["$defs", "map"],
  ["definitions", "map"],
  // Until draft 7. Some of its members are lists of names, which no visitor takes for schemas.
  ["dependencies", "map"],
  ["dependentSchemas", "map"],
  ["patternProperties", "map"],
  ["properties", "map"],
]);

/** The keywords that hold schemas. */
export const schemaKeywords: readonly string[] = [...arrangements.keys()];

/** How a keyword holds schemas; nothing for a keyword that holds none. */
export function arrangementOf(keyword: string): Arrangement | undefined {
  return arrangements.get(keyword);
}

/** These are about the same value as the schema that holds them; all others are about a part of it. */
export const sameValueKeywords: readonly string[] = [
  ...["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"],
];
export const referenceKeywords: readonly string[] = ["$ref", "$dynamicRef", "$recursiveRef"];

/** Calls `see` with whatever stands at each place inside a schema where a schema belongs, in the order it is written. */
export function visitMembers(
  schema: JsonSchemaObject,
  see: (member: unknown, steps: SchemaSteps) => void,
): void {
  for (const keyword of Object.keys(schema)) {
    const arrangement = arrangements.get(keyword);
    if (arrangement === undefined) continue;
    const value = schema[keyword];
    if (arrangement === "map") {
      if (isRecord(value)) for (const name of Object.keys(value)) see(value[name], [keyword, name]);
    } else if (arrangement !== "schema" && Array.isArray(value)) {
      for (let index = 0; index < value.length; index++) see(value[index], [keyword, index]);
    } else if (arrangement !== "list") see(value, [keyword]);
  }
}

/**
 * A copy of a schema with each schema directly inside it replaced. Values that merely look like schemas (`default`,
 * `enum`, `const`, `examples`) are left alone, and so is what is not a schema at all.
 */
export function mapSchemas(
  schema: JsonSchemaObject,
  replace: (subschema: JsonSchema, steps: SchemaSteps) => unknown,
): Record<string, unknown> {
  const copy: Record<string, unknown> = { ...schema };
  const replaced = (part: unknown, ...steps: SchemaSteps) => (isSchema(part) ? replace(part, steps) : part);
  for (const keyword of Object.keys(schema)) {
    const arrangement = arrangements.get(keyword);
    if (arrangement === undefined) continue;
    const value = schema[keyword];
    if (arrangement === "map") {
      if (!isRecord(value)) continue;
      const entries = Object.entries(value).map(([name, part]) => [name, replaced(part, keyword, name)]);
      copy[keyword] = Object.fromEntries(entries);
    } else if (arrangement !== "schema" && Array.isArray(value)) {
      copy[keyword] = value.map((part, index) => replaced(part, keyword, index));
    } else if (arrangement !== "list") copy[keyword] = replaced(value, keyword);
  }
  return copy;
}

/** One schema on the way down from the root. */
export interface SchemaPlace {
  readonly schema: JsonSchemaObject;
  /** The schema that holds it; nothing for the root. */
  readonly parent: SchemaPlace | undefined;
  readonly steps: SchemaSteps | readonly [];
  readonly depth: number;
}

/**
 * Walks from a schema through all schemas inside it, in the order they are written. `enter` says whether to go on below
 * one; whoever walks a schema that may hold one object twice, or hold itself, says no when it comes again. `other` is
 * told of what is no object at a place where a schema belongs.
 */
export function walkSchemas(
  root: JsonSchemaObject,
  enter: (place: SchemaPlace) => boolean,
  other?: (member: unknown, steps: SchemaSteps, holder: SchemaPlace) => void,
): void {
  // A stack of its own: schemas may nest deeper than the stack of the program.
  const waiting: SchemaPlace[] = [];
  const enterAll = (place: SchemaPlace) => {
    if (!enter(place)) return;
    const start = waiting.length;
    visitMembers(place.schema, (schema, steps) => {
      if (isRecord(schema)) waiting.push({ schema, parent: place, steps, depth: place.depth + 1 });
      else other?.(schema, steps, place);
    });
    // The first of them is the next to be taken.
    if (waiting.length - start > 1) reverseFrom(waiting, start);
  };
  enterAll({ schema: root, parent: undefined, steps: [], depth: 0 });
  for (let place = waiting.pop(); place !== undefined; place = waiting.pop()) enterAll(place);
}

function reverseFrom(places: SchemaPlace[], start: number): void {
  for (let left = start, right = places.length - 1; left < right; left++, right--) {
    const place = places[left]!;
    places[left] = places[right]!;
    places[right] = place;
  }
}

/** What a reference inside a document leads to: a pointer, an anchor, or the document itself by its `$id`. */
export function resolveReference(root: JsonSchemaObject, reference: string): JsonSchema | undefined {
  if (reference === "#" || reference === "#/" || reference === root.$id) return root;
  if (reference.startsWith("#/")) {
    const found = memberAt(root, pointerSteps(reference));
    return isSchema(found) ? found : undefined;
  }
  if (reference.startsWith("#")) return anchored(root, reference.slice(1));
  if (typeof root.$id !== "string" || !reference.startsWith(`${root.$id}#`)) return undefined;
  return resolveReference(root, reference.slice(root.$id.length));
}

function anchored(root: JsonSchemaObject, anchor: string): JsonSchemaObject | undefined {
  const seen = new Set<object>();
  let found: JsonSchemaObject | undefined;
  walkSchemas(root, ({ schema }) => {
    if (found !== undefined || seen.has(schema)) return false;
    seen.add(schema);
    if (schema.$anchor === anchor || schema.$dynamicAnchor === anchor) found = schema;
    return true;
  });
  return found;
}

/**
 * The schema and all others that may describe the same value: what it refers to, its parts and its alternatives.
 * A reference that leads back to where it came from is followed once.
 */
export function describingSchemas(
  schema: unknown,
  root: JsonSchemaObject,
  followed: readonly string[] = [],
): JsonSchemaObject[] {
  if (!isRecord(schema)) return [];
  const { $ref } = schema;
  const parts = [...listOf(schema.allOf), ...listOf(schema.anyOf), ...listOf(schema.oneOf)];
  const isNew = typeof $ref === "string" && !followed.includes($ref);
  if (isNew) parts.unshift(resolveReference(root, $ref));
  const path = isNew ? [...followed, $ref] : followed;
  return [schema, ...parts.flatMap((part) => describingSchemas(part, root, path))];
}

/** `#/a/0/b~1c` as `["a", "0", "b/c"]`. A URI fragment may also be percent-encoded. */
export function pointerSteps(reference: string): string[] {
  const [, ...steps] = reference.replace(/^#/, "").split("/");
  return steps.map((step) => decoded(step).replaceAll("~1", "/").replaceAll("~0", "~"));
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step; // A stray percent sign: the step is meant as it stands.
  }
}

/** A JSON pointer with further steps behind it. */
export function pointer(path: string, ...steps: readonly (string | number | undefined)[]): string {
  const known = steps.filter((step) => step !== undefined);
  return path + known.map((step) => `/${String(step).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** The part of a value at a path, or `undefined` where there is none. Inherited members do not count. */
export function memberAt(value: unknown, path: readonly unknown[]): unknown {
  let place = value;
  for (const step of path) {
    if (typeof place !== "object" || place === null) return undefined;
    const key = step as PropertyKey; // Anything else is turned into a string, and then is not found.
    if (!Object.hasOwn(place, key)) return undefined;
    place = (place as Record<PropertyKey, unknown>)[key]; // Arrays and objects are both read by key.
  }
  return place;
}

// Readers for values of which nothing is known yet: what is not of the right shape reads as empty.

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "boolean" || isRecord(value);
}

export function keysOf(value: unknown): string[] {
  return isRecord(value) ? Object.keys(value) : [];
}

export function valuesOf(value: unknown): unknown[] {
  return isRecord(value) ? Object.values(value) : [];
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function namesIn(value: unknown): string[] {
  return listOf(value).filter((name) => typeof name === "string");
}

/** The value as a schema; what is none accepts anything. */
export function schemaFrom(value: unknown): JsonSchema {
  return isSchema(value) ? value : true;
}

/** The schemas of a list keyword such as `anyOf`; none when there is no list. */
export function schemasIn(list: unknown): JsonSchema[] {
  return listOf(list).map(schemaFrom);
}

export function propertiesOf(schema: JsonSchemaObject): Readonly<Record<string, JsonSchema>> {
  if (!isRecord(schema.properties)) return {};
  const entries = Object.entries(schema.properties).map(([key, value]) => [key, schemaFrom(value)] as const);
  return Object.fromEntries(entries);
}

export function requiredOf(schema: JsonSchemaObject): readonly string[] {
  return namesIn(schema.required);
}

export const jsonTypes: readonly JsonType[] = [
  ...(["string", "number", "integer", "boolean", "object", "array", "null"] as const),
];

export function isJsonType(value: unknown): value is JsonType {
  return jsonTypes.some((type) => type === value);
}

export function typeOfValue(value: unknown): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  if (typeof value === "string") return "string";
  return typeof value === "boolean" ? "boolean" : "object";
}

/** Keywords that speak of one type only, from which an author's forgotten `type` can be told. */
const keywordsOfType: readonly [JsonType, readonly string[]][] = [
  [
    "object",
    [
      "properties",
      "patternProperties",
      "additionalProperties",
      "required",
      "propertyNames",
      "minProperties",
      "maxProperties",
    ],
  ],
  ["array", ["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"]],
  ["string", ["pattern", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"]],
  ["number", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]],
];

/** The type that a keyword speaks about. It lets all values of other types pass. */
export function subjectOf(keyword: string): JsonType | undefined {
  return keywordsOfType.find(([, keywords]) => keywords.includes(keyword))?.[0];
}

/** The types a schema names, or lets be told from its other keywords; nothing when it takes any value. */
export function typesOf(schema: JsonSchemaObject): JsonType[] | undefined {
  if (isJsonType(schema.type)) return [schema.type];
  if (Array.isArray(schema.type)) return schema.type.filter(isJsonType);
  if ("const" in schema) return [typeOfValue(schema.const)];
  if (Array.isArray(schema.enum)) return [...new Set(schema.enum.map(typeOfValue))];
  const found = keywordsOfType.find(([, keywords]) => keywords.some((keyword) => keyword in schema));
  return found && [found[0]];
}
