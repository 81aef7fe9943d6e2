import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import { pointer, type TakeNote, toModernSchema, withRemarks } from "./modern-schema.ts";
import { isRecord } from "./tools.ts";

/**
 * Makes every `$ref` of a rewritten schema point to something again: what moved is put under `$defs`, and a
 * reference out of the document, which nobody may fetch, gives way to a remark. `isSafe` tells which references
 * may stay as they are; by default, all that lead somewhere.
 */
export function keepReferences(
  schema: JsonSchemaObject,
  original: JsonSchemaObject,
  note: TakeNote,
  isSafe: (reference: string) => boolean = () => true,
): JsonSchemaObject {
  const moved = new Map<string, string>();
  const added: [string, JsonSchema][] = [];
  const taken = new Set(Object.keys(isRecord(schema.$defs) ? schema.$defs : {}));
  const kept = visit(schema, "");
  if (!isRecord(kept) || added.length === 0) return isRecord(kept) ? kept : {};
  return { ...kept, $defs: { ...(isRecord(kept.$defs) ? kept.$defs : {}), ...Object.fromEntries(added) } };

  function visit(node: JsonSchema, path: string): JsonSchema {
    if (!isRecord(node)) return node;
    const copy = mapSubschemas(node, path, visit);
    const reference = node.$ref;
    if (typeof reference !== "string") return copy;
    const home = moved.get(reference);
    if (home !== undefined) return { ...copy, $ref: home };
    const found = resolveReference(schema, reference);
    if (found !== undefined && isSafe(reference)) return copy;
    const target = resolveReference(original, reference);
    if (target !== undefined) return { ...copy, $ref: move(reference, target) };
    note(path, "$ref", "described", `Nothing is found at ${reference}; any value is accepted there.`);
    const { $ref: _gone, ...rest } = copy;
    return { ...rest, description: withRemarks(rest.description, [`schema: ${reference}`]) };
  }

  function move(reference: string, target: JsonSchema): string {
    const stem = reference.replace(/[^A-Za-z0-9]+/g, "_").replace(/^_+|_+$/g, "") || "root";
    let name = stem;
    for (let next = 2; taken.has(name); next++) name = `${stem}_${next}`;
    taken.add(name);
    const home = `#${pointer("", "$defs", name)}`;
    moved.set(reference, home);
    note("", "$ref", "rewritten", `What stood at ${reference} stands at ${home}.`);
    added.push([
      name,
      isRecord(target)
        ? visit(
            toModernSchema(target, () => {}),
            `/$defs/${name}`,
          )
        : target,
    ]);
    return home;
  }
}

/** What a `$ref` inside a document points to. Nothing outside the document is ever fetched. */
export function resolveReference(root: JsonSchemaObject, reference: string): JsonSchema | undefined {
  if (reference === "#" || reference === "#/") return root;
  if (reference.startsWith("#/")) return resolvePointer(root, reference.slice(2));
  if (reference.startsWith("#")) return findAnchored(root, reference.slice(1));
  if (typeof root.$id === "string" && reference.startsWith(`${root.$id}#`)) {
    return resolveReference(root, reference.slice(root.$id.length));
  }
  return reference === root.$id ? root : undefined;
}

function resolvePointer(root: JsonSchemaObject, path: string): JsonSchema | undefined {
  let current: unknown = root;
  for (const token of path.split("/")) {
    const key = decodeToken(token);
    if (Array.isArray(current)) current = current[Number(key)];
    else if (isRecord(current) && Object.hasOwn(current, key)) current = current[key];
    else return undefined;
  }
  return isSchema(current) ? current : undefined;
}

function decodeToken(token: string): string {
  let decoded = token;
  try {
    decoded = decodeURIComponent(token);
  } catch {
    // A stray percent sign: the token is meant as it stands.
  }
  return decoded.replaceAll("~1", "/").replaceAll("~0", "~");
}

function findAnchored(root: JsonSchemaObject, anchor: string): JsonSchema | undefined {
  let found: JsonSchema | undefined;
  const visit = (schema: JsonSchema): JsonSchema => {
    if (found !== undefined || !isRecord(schema)) return schema;
    if (schema.$anchor === anchor || schema.$dynamicAnchor === anchor) found = schema;
    else mapSubschemas(schema, "", visit);
    return schema;
  };
  visit(root);
  return found;
}

/** A schema whose arguments have names the provider takes, and the way back. */
interface RenamedProperties {
  readonly schema: JsonSchemaObject;
  readonly restore?: (args: unknown) => unknown;
}

/** Renames the arguments (the properties at the root) that the provider does not take. */
export function renameProperties(
  schema: JsonSchemaObject,
  accepts: RegExp,
  note: TakeNote,
): RenamedProperties {
  const properties = isRecord(schema.properties) ? schema.properties : {};
  const refused = Object.keys(properties).filter((key) => !accepts.test(key));
  if (refused.length === 0) return { schema };
  const taken = new Set(Object.keys(properties).filter((key) => accepts.test(key)));
  const toProvider = new Map<string, string>();
  for (const key of refused.sort()) {
    const name = freeKey(key, accepts, taken);
    taken.add(name);
    toProvider.set(key, name);
    note(pointer("", "properties", key), "properties", "rewritten", `The argument is sent as ${name}.`);
  }
  const rename = (key: string) => toProvider.get(key) ?? key;
  const toRack = new Map([...toProvider].map(([key, name]) => [name, key]));
  const renamed = {
    ...schema,
    properties: Object.fromEntries(Object.entries(properties).map(([key, value]) => [rename(key), value])),
    ...(Array.isArray(schema.required) && { required: schema.required.map(rename) }),
  };
  return {
    schema: keepReferences(renamed, schema, note),
    restore: (args) => restoreKeys(args, toRack),
  };
}

function restoreKeys(args: unknown, toRack: ReadonlyMap<string, string>): unknown {
  const parsed = typeof args === "string" ? parseObject(args) : args;
  if (!isRecord(parsed)) return args;
  return Object.fromEntries(Object.entries(parsed).map(([key, value]) => [toRack.get(key) ?? key, value]));
}

/** The object a text holds, or nothing: broken JSON goes to the pipeline as it came. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function freeKey(key: string, accepts: RegExp, taken: ReadonlySet<string>): string {
  const plain =
    key
      .replace(/[^A-Za-z0-9_]+/g, "_")
      .slice(0, 56)
      .replace(/_+$/, "") || "argument";
  const stem = accepts.test(plain) ? plain : `_${plain}`;
  let name = stem;
  for (let next = 2; taken.has(name); next++) name = `${stem}_${next}`;
  return name;
}

const mapKeywords = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const listKeywords = ["allOf", "anyOf", "oneOf", "prefixItems"];
const singleKeywords = [
  "items",
  "additionalItems",
  "additionalProperties",
  "unevaluatedItems",
  "unevaluatedProperties",
  "contains",
  "propertyNames",
  "not",
  "if",
  "then",
  "else",
  "contentSchema",
];

/**
 * A copy of a schema with each schema directly inside it replaced. Values that merely look like schemas
 * (`default`, `enum`, `const`, `examples`) are left alone, and so is what is not a schema at all.
 */
export function mapSubschemas(
  schema: JsonSchemaObject,
  path: string,
  replace: (subschema: JsonSchema, path: string) => JsonSchema,
): Record<string, unknown> {
  const copy: Record<string, unknown> = { ...schema };
  for (const keyword of singleKeywords) {
    const value = schema[keyword];
    if (isSchema(value)) copy[keyword] = replace(value, pointer(path, keyword));
    // Before 2020-12, a list under `items` was a tuple.
    if (keyword === "items" && Array.isArray(value)) copy[keyword] = replaceList(value, keyword);
  }
  for (const keyword of listKeywords) {
    const value = schema[keyword];
    if (Array.isArray(value)) copy[keyword] = replaceList(value, keyword);
  }
  for (const keyword of mapKeywords) {
    const value = schema[keyword];
    if (!isRecord(value)) continue;
    copy[keyword] = Object.fromEntries(
      Object.entries(value).map(([key, subschema]) => [
        key,
        isSchema(subschema) ? replace(subschema, pointer(path, keyword, key)) : subschema,
      ]),
    );
  }
  return copy;

  function replaceList(list: readonly unknown[], keyword: string): unknown[] {
    return list.map((subschema, index) =>
      isSchema(subschema) ? replace(subschema, pointer(path, keyword, index)) : subschema,
    );
  }
}

export function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "boolean" || isRecord(value);
}

/** The value as a schema; what is none accepts anything. */
export function schemaFrom(value: unknown): JsonSchema {
  return isSchema(value) ? value : true;
}

/** The schemas of a list keyword such as `anyOf`; none when there is no list. */
export function schemasIn(list: unknown): JsonSchema[] {
  return Array.isArray(list) ? list.map(schemaFrom) : [];
}

export function propertiesOf(schema: JsonSchemaObject): Readonly<Record<string, JsonSchema>> {
  if (!isRecord(schema.properties)) return {};
  return Object.fromEntries(
    Object.entries(schema.properties).map(([key, value]) => [key, schemaFrom(value)]),
  );
}

export function requiredOf(schema: JsonSchemaObject): readonly string[] {
  return Array.isArray(schema.required) ? schema.required : [];
}

export type JsonType = "string" | "number" | "integer" | "boolean" | "null" | "object" | "array";

const jsonTypes: readonly JsonType[] = ["string", "number", "integer", "boolean", "null", "object", "array"];

/** Keywords that speak of one type only, from which an author's forgotten `type` can be told. */
const keywordsOfType: readonly [JsonType, readonly string[]][] = [
  ["object", ["properties", "patternProperties", "additionalProperties", "required", "propertyNames"]],
  ["array", ["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"]],
  ["string", ["pattern", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"]],
  ["number", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]],
];

/** The types a schema names, or lets be told from its other keywords; nothing when it takes any value. */
export function typesOf(schema: JsonSchemaObject): JsonType[] | undefined {
  if (isJsonType(schema.type)) return [schema.type];
  if (Array.isArray(schema.type)) return schema.type.filter(isJsonType);
  if ("const" in schema) return [typeOfValue(schema.const)];
  if (Array.isArray(schema.enum)) return [...new Set(schema.enum.map(typeOfValue))];
  const found = keywordsOfType.find(([, keywords]) => keywords.some((keyword) => keyword in schema));
  return found && [found[0]];
}

export function typeOfValue(value: unknown): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  if (typeof value === "string") return "string";
  if (typeof value === "boolean") return "boolean";
  return "object";
}

export function isJsonType(value: unknown): value is JsonType {
  return jsonTypes.some((type) => type === value);
}

/** Whether `null` is a value its author meant to allow. */
export function acceptsNull(
  schema: JsonSchema | undefined,
  root: JsonSchemaObject,
  seen: readonly string[] = [],
): boolean {
  if (!isRecord(schema)) return schema !== false;
  if ("const" in schema && schema.const !== null) return false;
  if (Array.isArray(schema.enum) && !schema.enum.includes(null)) return false;
  if (schema.nullable !== true && typesOf(schema)?.includes("null") === false) return false;
  if (typeof schema.$ref === "string" && !seen.includes(schema.$ref)) {
    if (!acceptsNull(resolveReference(root, schema.$ref), root, [...seen, schema.$ref])) return false;
  }
  const accepts = (branch: JsonSchema) => acceptsNull(branch, root, seen);
  if (Array.isArray(schema.allOf) && !schema.allOf.every(accepts)) return false;
  if (Array.isArray(schema.anyOf) && !schema.anyOf.some(accepts)) return false;
  return !Array.isArray(schema.oneOf) || schema.oneOf.some(accepts);
}
