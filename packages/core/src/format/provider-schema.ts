import { cloneJson, distinctJson, sameJson } from "../schema/json.ts";
import { renameLimit, renameTuple } from "../schema/keywords.ts";
import {
  isJsonType,
  isRecord,
  isSchema,
  type JsonSchema,
  type JsonSchemaObject,
  mapSchemas,
  pointer,
  propertiesOf,
  requiredOf,
  resolveReference,
  schemasIn,
  typesOf,
} from "../schema/visit.ts";
import { describeConstraint, type TakeNote, withRemarks } from "./format-notes.ts";
import { maxDepth, mergeAllOf, mergeSchemas } from "./schema-merge.ts";

/**
 * Prepares a schema for any provider: the keywords of 2020-12, one object at its root, every reference resolvable.
 * Changes nothing else. Throws when the arguments are not an object or not JSON.
 */
export function prepareSchema(schema: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  const modern = toModernSchema(schema, note);
  const isFlat = ["$ref", "allOf", "anyOf", "oneOf"].every((keyword) => modern[keyword] === undefined);
  // References must not point into a root that is about to be rewritten.
  const isSafe = (reference: string) => isFlat || /^#(\/?$|\/\$defs\/|\/definitions\/)/.test(reference);
  return flattenRoot(keepReferences(modern, schema, note, isSafe), note);
}

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
  for (const keyword of ["anyOf", "oneOf"]) {
    const possible = schemasIn(schema[keyword]).filter((branch) => branch !== false);
    if (possible.length === 0 || possible.length === schemasIn(schema[keyword]).length) continue;
    schema[keyword] = possible;
    note(path, keyword, "rewritten", "A branch that accepts nothing is left out.");
  }
  return isNever(schema) ? false : schema;
}

const isString = (value: unknown) => typeof value === "string";
const isFilledList = (value: unknown): value is unknown[] => Array.isArray(value) && value.length > 0;
const schemaLists = ["anyOf", "oneOf", "allOf", "prefixItems"];
const schemaMaps = ["properties", "patternProperties", "$defs", "definitions"];

const validValues: readonly [keywords: readonly string[], isValid: (value: unknown) => boolean][] = [
  [["type"], (value) => isJsonType(value) || (isFilledList(value) && value.every(isJsonType))],
  [["description", "title", "$ref", "pattern", "format"], isString],
  [schemaMaps, isRecord],
  [[...schemaLists, "enum"], isFilledList],
  [["required"], (value) => Array.isArray(value) && value.every(isString)],
];

/** Removes invalid keywords, because a provider refuses the whole request for one of them. */
function takeOutInvalid(schema: Record<string, unknown>, path: string, note: TakeNote): void {
  for (const [keywords, isValid] of validValues) {
    for (const keyword of keywords) {
      if (schema[keyword] === undefined || isValid(schema[keyword])) continue;
      delete schema[keyword];
      note(path, keyword, "dropped", "Its value is not valid JSON Schema.");
    }
  }
  for (const keyword of [...schemaLists, ...schemaMaps]) {
    const members = schema[keyword];
    if (typeof members !== "object" || members === null || Object.values(members).every(isSchema)) continue;
    const entries = Object.entries(members).map(([key, member]): [string, JsonSchema] => {
      if (isSchema(member)) return [key, member];
      const at = pointer(path, keyword, key);
      note(at, keyword, "rewritten", "Not a schema; sent as one that takes anything.");
      return [key, {}];
    });
    const isList = Array.isArray(members);
    schema[keyword] = isList ? entries.map(([, member]) => member) : Object.fromEntries(entries);
  }
}

function translate(schema: Record<string, unknown>, replaced: (keyword: string, by: string) => void): void {
  if (renameTuple(schema)) {
    if (!isFilledList(schema.prefixItems)) delete schema.prefixItems;
    replaced("items", "prefixItems");
  }
  if (renameLimit(schema, "exclusiveMinimum", "minimum")) replaced("minimum", "exclusiveMinimum");
  if (renameLimit(schema, "exclusiveMaximum", "maximum")) replaced("maximum", "exclusiveMaximum");
  if (isRecord(schema.dependencies)) {
    const entries = Object.entries(schema.dependencies);
    const lists = entries.filter(([, value]) => Array.isArray(value));
    const schemas = entries.filter(([, value]) => isSchema(value));
    if (lists.length > 0) schema.dependentRequired ??= Object.fromEntries(lists);
    if (schemas.length > 0) schema.dependentSchemas ??= Object.fromEntries(schemas);
    replaced("dependencies", "dependentRequired and dependentSchemas");
  }
  if (schema.nullable === true && schema.type !== undefined) {
    schema.type = [...new Set([...(typesOf(schema) ?? []), "null"])];
    replaced("nullable", "type");
  }
  for (const old of ["additionalItems", "dependencies", "nullable"]) delete schema[old];
}

/** `{ "not": {} }` is how generators write a schema that accepts nothing. */
function isNever({ not, ...rest }: JsonSchemaObject): boolean {
  const isEverything = not === true || (isRecord(not) && Object.keys(not).length === 0);
  return isEverything && Object.keys(rest).length === 0;
}

/**
 * Repairs the `$ref`s of a rewritten schema: moved targets are put under `$defs`, and references to other documents,
 * which are never fetched, become remarks. `isSafe` tells which references may stay; by default all that resolve.
 */
export function keepReferences(
  schema: JsonSchemaObject,
  original: JsonSchemaObject,
  note: TakeNote,
  isSafe: (reference: string) => boolean = () => true,
): JsonSchemaObject {
  const moved = new Map<string, string>();
  const added: [string, JsonSchema][] = [];
  const taken = new Set(Object.keys(schema.$defs ?? {}));
  const kept = visit(schema, "");
  if (!isRecord(kept) || added.length === 0) return isRecord(kept) ? kept : {};
  return { ...kept, $defs: { ...(isRecord(kept.$defs) && kept.$defs), ...Object.fromEntries(added) } };

  function visit(node: JsonSchema, path: string): JsonSchema {
    if (!isRecord(node)) return node;
    const copy = mapSchemas(node, (child, steps) => visit(child, pointer(path, ...steps)));
    const reference = node.$ref;
    if (typeof reference !== "string") return copy;
    const home = moved.get(reference);
    if (home !== undefined) return { ...copy, $ref: home };
    if (resolveReference(schema, reference) !== undefined && isSafe(reference)) return copy;
    const target = resolveReference(original, reference);
    if (target !== undefined) return { ...copy, $ref: move(reference, target) };
    note(path, "$ref", "described", `Nothing is found at ${reference}; any value is accepted there.`);
    const { $ref: _gone, ...rest } = copy;
    return { ...rest, description: withRemarks(rest.description, [`schema: ${reference}`]) };
  }

  function move(reference: string, target: JsonSchema): string {
    const stem = reference.replace(/[^A-Za-z0-9]+/g, "_").replace(/^_+|_+$/g, "") || "root";
    const name = freeName(stem, taken);
    const home = `#${pointer("", "$defs", name)}`;
    moved.set(reference, home);
    note("", "$ref", "rewritten", `What stood at ${reference} stands at ${home}.`);
    const modern = isRecord(target) ? toModernSchema(target, () => {}) : target;
    added.push([name, visit(modern, `/$defs/${name}`)]);
    return home;
  }
}

/** Returns the stem, or the stem with a number if it is taken. Adds the returned name to `taken`. */
export function freeName(stem: string, taken: Set<string>): string {
  let name = stem;
  for (let next = 2; taken.has(name); next++) name = `${stem}_${next}`;
  taken.add(name);
  return name;
}

/** Keywords that the providers refuse at the top of a tool's schema, though not below it. */
const describedAtRoot = ["not", "enum", "const"];

const introductions = {
  anyOf: "at least one of these sets of arguments is needed",
  oneOf: "exactly one of these sets of arguments is needed",
};

/**
 * Rewrites the root as one object: no `$ref`, no `allOf`, no alternatives. Alternatives become one object
 * with the properties of all; the description says which properties go together. Throws when the arguments
 * are not an object.
 */
function flattenRoot(root: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  const flat: Record<string, unknown> = { ...flatten(root, 0) };
  const remarks: string[] = [];
  for (const keyword of describedAtRoot) {
    if (!(keyword in flat)) continue;
    const remark = describeConstraint(keyword, flat[keyword]);
    delete flat[keyword];
    if (remark !== undefined) remarks.push(remark);
    note("", keyword, remark === undefined ? "dropped" : "described", "Not accepted at the top of a schema.");
  }
  const types = typesOf(flat) ?? ["object"];
  if (!types.includes("object"))
    throw new TypeError(`arguments must be an object, not ${types.join(" or ")}`);
  const description = withRemarks(flat.description, remarks);
  const described = description === undefined ? {} : { description };
  return { ...flat, type: "object", ...described, properties: flat.properties ?? {} };

  function flatten(schema: JsonSchemaObject, depth: number): JsonSchemaObject {
    if (depth > maxDepth) throw new TypeError("the arguments refer to themselves without end");
    const { $ref, allOf, ...base } = schema;
    const { anyOf, oneOf, ...bare } = base;
    if (typeof $ref === "string") {
      const target = resolveReference(root, $ref);
      if (target === undefined) throw new TypeError(`nothing is found at ${$ref}`);
      note("", "$ref", "rewritten", "What it refers to stands in its place.");
      return flatten({ ...base, allOf: [target, ...schemasIn(allOf)] }, depth + 1);
    }
    if (allOf !== undefined) {
      const parts = schemasIn(allOf).map((part) => (isRecord(part) ? flatten(part, depth + 1) : part));
      return flatten(mergeAllOf(base, parts, root, "", note), depth + 1);
    }
    if (anyOf !== undefined) {
      const rest = { ...bare, ...(oneOf !== undefined && { oneOf }) };
      return flatten(unite(rest, schemasIn(anyOf), "anyOf", depth), depth + 1);
    }
    return oneOf === undefined ? bare : unite(bare, schemasIn(oneOf), "oneOf", depth);
  }

  /** Makes one object with the properties of all branches. */
  function unite(
    base: JsonSchemaObject,
    branches: readonly JsonSchema[],
    keyword: keyof typeof introductions,
    depth: number,
  ): JsonSchemaObject {
    const objects = branches
      .filter(isRecord)
      .map((branch) => flatten(branch, depth + 1))
      .filter((branch) => typesOf(branch)?.includes("object") ?? true);
    if (objects.length === 0) return base;
    const remark = `${introductions[keyword]}: ${objects.map(summary).join("; ")}`;
    note(
      "",
      keyword,
      "rewritten",
      "Its branches stand as one object; the description says which go together.",
    );
    const maps = objects.map((object) => propertiesOf(mergeSchemas([base, object], root) ?? object));
    const own = propertiesOf(base);
    const keys = new Set([own, ...maps].flatMap((map) => Object.keys(map)));
    const properties = Array.from(keys, (key) => {
      const inBranches = maps.flatMap((map) => (Object.hasOwn(map, key) ? [map[key]!] : []));
      return [key, inBranches.length > 0 ? alternatives(inBranches) : own[key]];
    });
    const [first = [], ...others] = objects.map(requiredOf);
    const common = first.filter((key) => others.every((list) => list.includes(key)));
    const required = [...new Set([...requiredOf(base), ...common])];
    return {
      ...base,
      type: "object",
      description: withRemarks(base.description, [remark]),
      properties: Object.fromEntries(properties),
      ...(required.length > 0 && { required }),
      ...(objects.every((object) => object.additionalProperties === false) && {
        additionalProperties: false,
      }),
    };
  }
}

/** Summarizes a branch: its required keys, and the values that distinguish it. */
function summary(branch: JsonSchemaObject): string {
  const properties = propertiesOf(branch);
  const needs = requiredOf(branch).map((key) => {
    const property = properties[key];
    return isRecord(property) && "const" in property ? `${key}=${JSON.stringify(property.const)}` : key;
  });
  const title = typeof branch.title === "string" ? `${branch.title} ` : "";
  return `${title}{${needs.join(", ")}}`;
}

function alternatives(schemas: readonly JsonSchema[]): JsonSchema {
  const distinct = distinctJson(schemas);
  if (distinct.length === 1) return distinct[0]!;
  if (distinct.includes(true)) return true;
  return fixedValues(distinct) ?? { anyOf: distinct };
}

/**
 * Joins schemas into one `enum`. Undefined unless each schema is an `enum` or a `const`, and all have the
 * same type, title and description and no other keywords.
 */
function fixedValues(schemas: readonly JsonSchema[]): JsonSchemaObject | undefined {
  const values: unknown[] = [];
  const frames: JsonSchemaObject[] = [];
  for (const schema of schemas) {
    if (!isRecord(schema) || (schema.enum === undefined && schema.const === undefined)) return undefined;
    const { const: value, enum: list, ...frame } = schema;
    values.push(...(Array.isArray(list) ? list : [value]));
    frames.push(frame);
  }
  const isPlain = (key: string) => ["type", "title", "description"].includes(key);
  const isShared = frames.every((frame) => sameJson(frame, frames[0]) && Object.keys(frame).every(isPlain));
  return isShared ? { ...frames[0], enum: distinctJson(values) } : undefined;
}

/**
 * A schema in which the provider accepts the names of all arguments. `restore` gives the arguments of a call
 * their original names back; it is absent when no argument was renamed.
 */
interface RenamedProperties {
  readonly schema: JsonSchemaObject;
  readonly restore?: (args: unknown) => unknown;
}

/** Renames the arguments (root properties) whose names the provider refuses. */
export function renameProperties(
  schema: JsonSchemaObject,
  accepts: RegExp,
  note: TakeNote,
): RenamedProperties {
  const properties = propertiesOf(schema);
  const [fine, refused] = [true, false].map((isFine) =>
    Object.keys(properties).filter((key) => accepts.test(key) === isFine),
  );
  if (refused!.length === 0) return { schema };
  const taken = new Set(fine);
  const toRack = new Map<string, string>();
  const toProvider = new Map<string, string>();
  for (const key of refused!.sort()) {
    const plain =
      key
        .replace(/[^A-Za-z0-9_]+/g, "_")
        .slice(0, 56)
        .replace(/_+$/, "") || "argument";
    const name = freeName(accepts.test(plain) ? plain : `_${plain}`, taken);
    toProvider.set(key, name);
    toRack.set(name, key);
    note(pointer("", "properties", key), "properties", "rewritten", `The argument is sent as ${name}.`);
  }
  const renamed = {
    ...schema,
    properties: renameKeys(properties, toProvider),
    ...(Array.isArray(schema.required) && {
      required: schema.required.map((key) => toProvider.get(key) ?? key),
    }),
  };
  const restore = (args: unknown) => {
    const parsed = parseObject(args);
    return parsed === undefined ? args : renameKeys(parsed, toRack);
  };
  return { schema: keepReferences(renamed, schema, note), restore };
}

function renameKeys(object: object, names: ReadonlyMap<string, string>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [names.get(key) ?? key, value]));
}

/**
 * The arguments as an object; undefined for anything else, which the caller of this function passes on
 * unchanged.
 */
export function parseObject(args: unknown): Record<string, unknown> | undefined {
  try {
    const value: unknown = typeof args === "string" ? JSON.parse(args) : args;
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
