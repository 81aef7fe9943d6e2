/**
 * The shared traversal of JSON Schemas for checks, validators, formats, forms and commands: where subschemas are, what
 * a reference points to, and readers for unchecked keywords. Never throws for a malformed schema, and never fetches
 * anything.
 */

/** A JSON Schema document (2020-12 unless `$schema` says draft-07). */
export type JsonSchema = boolean | JsonSchemaObject;
/** A JSON Schema that is not a boolean. */
export interface JsonSchemaObject {
  readonly [keyword: string]: unknown;
}

export type JsonType = "string" | "number" | "integer" | "boolean" | "null" | "object" | "array";

/** The path from a schema to a direct subschema: a keyword, and a name or index. */
export type SchemaSteps = readonly [keyword: string, member?: string | number];

/** How a keyword holds schemas: one, a list, by name, or (`items` of older drafts) one or a list. */
type Arrangement = "schema" | "list" | "map" | "schema-or-list";

const keywordsOfArrangement: readonly [Arrangement, string][] = [
  ["schema", "additionalItems additionalProperties contains contentSchema else if not propertyNames then"],
  ["schema", "unevaluatedItems unevaluatedProperties"],
  ["schema-or-list", "items"],
  ["list", "allOf anyOf oneOf prefixItems"],
  // `dependencies`, until draft 7, may also hold lists of names, which visitors skip.
  ["map", "$defs definitions dependencies dependentSchemas patternProperties properties"],
];

const arrangements = new Map(
  keywordsOfArrangement.flatMap(([arrangement, keywords]) =>
    keywords.split(" ").map((keyword) => [keyword, arrangement] as const),
  ),
);

export const schemaKeywords: readonly string[] = [...arrangements.keys()];

/** Undefined for a keyword that holds no schemas. */
export function arrangementOf(keyword: string): Arrangement | undefined {
  return arrangements.get(keyword);
}

/**
 * Keywords whose subschemas apply to the same value as their parent; those of all other keywords apply to a
 * part of it.
 */
export const sameValueKeywords: readonly string[] =
  "allOf anyOf oneOf not if then else dependentSchemas dependencies".split(" ");
export const referenceKeywords: readonly string[] = ["$ref", "$dynamicRef", "$recursiveRef"];

/** Calls `see` with every value in the place of a direct subschema, in written order. */
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
 * Copies a schema with each direct subschema replaced. Leaves values that only look like schemas (`default`, `enum`,
 * `const`, `examples`) and malformed ones unchanged.
 */
export function mapSchemas(
  schema: JsonSchemaObject,
  replace: (subschema: JsonSchema, steps: SchemaSteps) => unknown,
): Record<string, unknown> {
  const copy: Record<string, unknown> = { ...schema };
  visitMembers(schema, (member, steps) => {
    if (!isSchema(member)) return;
    const [keyword, name] = steps;
    const part = replace(member, steps);
    if (name === undefined) {
      copy[keyword] = part;
      return;
    }
    const given = schema[keyword] as Record<string | number, unknown>; // Members have a name or an index.
    if (copy[keyword] === given) copy[keyword] = Array.isArray(given) ? [...given] : { ...given };
    (copy[keyword] as typeof given)[name] = part; // The copy has the form of what was given.
  });
  return copy;
}

/** A schema and its position below the root. */
export interface SchemaPlace {
  readonly schema: JsonSchemaObject;
  /** Undefined for the root. */
  readonly parent: SchemaPlace | undefined;
  readonly steps: SchemaSteps | readonly [];
  readonly depth: number;
}

/**
 * Walks through all schemas inside a schema, in written order. `enter` gets each schema and returns whether
 * to walk through the schemas inside it; if the same object may occur twice, or inside itself, `enter` must
 * return false the second time. `other` gets values in the place of a schema that are not objects.
 */
export function walkSchemas(
  root: JsonSchemaObject,
  enter: (place: SchemaPlace) => boolean,
  other?: (member: unknown, steps: SchemaSteps, holder: SchemaPlace) => void,
): void {
  // Uses its own stack: schemas may nest deeper than the call stack.
  const waiting: SchemaPlace[] = [];
  const enterAll = (place: SchemaPlace) => {
    if (!enter(place)) return;
    const start = waiting.length;
    visitMembers(place.schema, (schema, steps) => {
      if (isRecord(schema)) waiting.push({ schema, parent: place, steps, depth: place.depth + 1 });
      else other?.(schema, steps, place);
    });
    // Reversed, so that the first subschema is popped first.
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

/** Resolves a reference inside a document: a pointer, an anchor, or the document's own `$id`. */
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
 * The schema and all others that may describe the same value: the targets of its references, its parts
 * (`allOf`) and its alternatives (`anyOf`, `oneOf`). A circular reference is followed once.
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

/** Whether type, required keys, and constants of a schema allow an object or array. */
export function mayDescribe(schema: unknown, value: object, root: JsonSchemaObject): boolean {
  let part = schema;
  for (let step = 0; step < 10 && isRecord(part) && typeof part.$ref === "string"; step++)
    part = resolveReference(root, part.$ref);
  if (!isRecord(part)) return part !== false;
  if (typesOf(part)?.includes(typeOfValue(value)) === false) return false;
  if (!isRecord(value)) return true;
  if (namesIn(part.required).some((name) => !Object.hasOwn(value, name))) return false;
  return Object.entries(part.properties ?? {}).every(
    ([name, property]) => !Object.hasOwn(value, name) || allowsScalar(property, value[name], root, []),
  );
}

/**
 * Whether `const` and `enum`, also behind references and branches, allow the value. True for a value that is
 * not a scalar.
 */
function allowsScalar(schema: unknown, value: unknown, root: JsonSchemaObject, seen: string[]): boolean {
  if (!isRecord(schema) || typeof value === "object" || value === undefined) return true;
  if ("const" in schema && schema.const !== value) return false;
  if (Array.isArray(schema.enum) && !schema.enum.includes(value)) return false;
  const { $ref, anyOf, oneOf } = schema;
  if (typeof $ref === "string" && !seen.includes($ref)) {
    if (!allowsScalar(resolveReference(root, $ref), value, root, [...seen, $ref])) return false;
  }
  const branches = listOf(anyOf ?? oneOf);
  return branches.length === 0 || branches.some((branch) => allowsScalar(branch, value, root, seen));
}

/** The schemas that apply to the item at an index. Until 2020-12, `items` could be a list. */
export function itemSchemas(schema: JsonSchemaObject, index: number): unknown[] {
  const listed = listOf(schema.prefixItems ?? schema.items);
  if (index < listed.length) return [listed[index]];
  const others = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
  return [others, schema.unevaluatedItems].filter((other) => other !== undefined);
}

/**
 * Splits a JSON pointer: `#/a/0/b~1c` becomes `["a", "0", "b/c"]`. A URI fragment may also be
 * percent-encoded.
 */
export function pointerSteps(reference: string): string[] {
  const [, ...steps] = reference.replace(/^#/, "").split("/");
  return steps.map((step) => decoded(step).replaceAll("~1", "/").replaceAll("~0", "~"));
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step; // A stray percent sign is taken literally.
  }
}

/** Appends steps to a JSON pointer. */
export function pointer(path: string, ...steps: readonly (string | number | undefined)[]): string {
  const known = steps.filter((step) => step !== undefined);
  return path + known.map((step) => `/${String(step).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** The part of a value at a path, or `undefined` where there is none. Inherited members do not count. */
export function memberAt(value: unknown, path: readonly unknown[]): unknown {
  let place = value;
  for (const step of path) {
    if (typeof place !== "object" || place === null) return undefined;
    const key = step as PropertyKey; // Other values become strings, which are not found.
    if (!Object.hasOwn(place, key)) return undefined;
    place = (place as Record<PropertyKey, unknown>)[key]; // Arrays and objects are both read by key.
  }
  return place;
}

// Readers for unchecked values: a wrong shape reads as empty.

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The message of anything that was thrown. */
export function reasonOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? thrown.message : String(thrown);
  } catch {
    return "something that cannot be printed"; // An object without a usable `toString`.
  }
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

/** The value if it is a schema; otherwise `true`, which accepts anything. */
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

/** Keywords that imply a type, for schemas without `type`. */
const keywordsOfType = (
  [
    ["object", "properties patternProperties additionalProperties required propertyNames"],
    ["object", "minProperties maxProperties"],
    ["array", "items prefixItems minItems maxItems uniqueItems contains"],
    ["string", "pattern format minLength maxLength contentEncoding contentMediaType"],
    ["number", "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"],
  ] as const
).map(([type, keywords]): [JsonType, string[]] => [type, keywords.split(" ")]);

/** The type to which a keyword applies; the keyword accepts all values of other types. */
export function subjectOf(keyword: string): JsonType | undefined {
  return keywordsOfType.find(([, keywords]) => keywords.includes(keyword))?.[0];
}

/** The types that a schema names or implies; undefined when it accepts any value. */
export function typesOf(schema: JsonSchemaObject): JsonType[] | undefined {
  if (isJsonType(schema.type)) return [schema.type];
  if (Array.isArray(schema.type)) return schema.type.filter(isJsonType);
  if ("const" in schema) return [typeOfValue(schema.const)];
  if (Array.isArray(schema.enum)) return [...new Set(schema.enum.map(typeOfValue))];
  const found = keywordsOfType.find(([, keywords]) => keywords.some((keyword) => keyword in schema));
  return found && [found[0]];
}
