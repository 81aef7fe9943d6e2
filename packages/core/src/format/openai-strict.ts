import { distinctJson } from "../schema/json.ts";
import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  type JsonType,
  pointer,
  propertiesOf,
  requiredOf,
  resolveReference,
  schemaFrom,
  walkSchemas,
} from "../schema/visit.ts";
import { annotationKeywords, mergeSchemas } from "./flatten.ts";
import { isOfType, type ProviderKeywords, SchemaLowering } from "./lowering.ts";
import type { TakeNote } from "./notes.ts";
import { acceptsNull } from "./references.ts";

type StrictSchema =
  | { readonly ok: true; readonly schema: JsonSchemaObject }
  | { readonly ok: false; readonly path: string; readonly keyword: string; readonly reason: string };

/** A schema with more nodes has references that multiply each other. */
const maxNodes = 20_000;

/** Thrown where strict mode would change what a tool accepts. */
class NotStrict extends Error {
  readonly path: string;
  readonly keyword: string;
  constructor(path: string, keyword: string, reason: string) {
    super(reason);
    this.path = path;
    this.keyword = keyword;
  }
}

/**
 * Rewrites a schema for OpenAI's strict mode: every object closed, every property required (optional ones accept
 * `null`, which `fromStrictArguments` removes again). Unknown constraints go into the description. Returns a reason if
 * the rules would change what the tool accepts. Expects a schema in modern form whose root is an object.
 */
export function toStrictSchema(root: JsonSchemaObject, note: TakeNote): StrictSchema {
  try {
    const schema = new StrictLowering(root, note, maxNodes).lowerRoot();
    const exceeded = checkStrictLimits(schema);
    if (exceeded !== undefined) throw new NotStrict("", "schema", exceeded);
    return { ok: true, schema };
  } catch (error) {
    if (!(error instanceof NotStrict)) throw error;
    return { ok: false, path: error.path, keyword: error.keyword, reason: error.message };
  }
}

const numberKeywords = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];

const strictKeywords: ProviderKeywords = {
  kept: {
    string: ["pattern", "format"],
    number: numberKeywords,
    integer: numberKeywords,
    array: ["minItems", "maxItems"],
    object: [],
    boolean: [],
    null: [],
  },
  handled: [
    ...["type", "title", "description", "const", "enum", "properties", "required", "additionalProperties"],
    ...["items", "prefixItems", "unevaluatedProperties", "unevaluatedItems", "$defs", "definitions", "$id"],
    ...["$anchor", "$dynamicAnchor", "$comment", "deprecated", "readOnly", "writeOnly"],
  ],
  notKept: "Not known to strict mode.",
};
const keptFormats = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

class StrictLowering extends SchemaLowering {
  protected readonly keywords = strictKeywords;
  readonly #definitions = new StrictDefinitions(this.root);

  lowerRoot(): JsonSchemaObject {
    const schema = this.#lowerObject(this.root, "", true);
    const definitions: [string, JsonSchemaObject][] = [];
    for (const { name, path, target } of this.#definitions.drain()) {
      definitions.push([name, this.lower(target, path)]);
    }
    return { ...schema, ...(definitions.length > 0 && { $defs: Object.fromEntries(definitions) }) };
  }

  protected tooLarge(path: string): Error {
    return new NotStrict(path, "$ref", "the schema is too large");
  }

  protected lowerAnyValue(node: JsonSchema, path: string): JsonSchemaObject {
    throw new NotStrict(path, "type", node === false ? "no value is accepted" : "any value is accepted");
  }

  protected lowerReference(reference: string, siblings: JsonSchemaObject, path: string): JsonSchemaObject {
    const target = resolveReference(this.root, reference);
    if (target === undefined) throw new NotStrict(path, "$ref", `nothing is found at ${reference}`);
    if (Object.keys(siblings).length === 0) return { $ref: this.#definitions.refer(reference) };
    // Strict mode refuses keywords beside `$ref`, so the target is inlined if possible.
    if (isRecord(target) && !this.#definitions.isRecursive(reference)) {
      const merged = mergeSchemas([siblings, target], this.root);
      if (merged === undefined)
        throw new NotStrict(path, "$ref", "the keywords beside it do not merge with it");
      return this.lower(merged, path);
    }
    const constraint = Object.keys(siblings).find((keyword) => !annotationKeywords.includes(keyword));
    if (constraint !== undefined)
      throw new NotStrict(path, constraint, "it stands beside a recursive `$ref`");
    const { title: _title, ...words } = this.words(siblings, path);
    return { ...words, anyOf: [{ $ref: this.#definitions.refer(reference) }] };
  }

  protected mergeParts(rest: JsonSchemaObject, parts: readonly JsonSchema[], path: string): JsonSchemaObject {
    const merged = mergeSchemas([rest, ...parts], this.root);
    if (merged === undefined) throw new NotStrict(path, "allOf", "its parts do not merge into one schema");
    this.note(path, "allOf", "rewritten", "Its parts stand as one schema.");
    return merged;
  }

  protected leaveOutOneOf(path: string): never {
    throw new NotStrict(path, "oneOf", "it stands beside `anyOf`");
  }

  protected unmergedBranch(_branch: JsonSchema, keyword: string, path: string): never {
    throw new NotStrict(path, keyword, "a branch does not merge with its parent");
  }

  protected unite(
    branches: readonly JsonSchemaObject[],
    annotations: JsonSchemaObject,
    path: string,
  ): JsonSchemaObject {
    const distinct = distinctJson(branches);
    const said = this.words(annotations, path);
    const { default: _default, examples: _examples, ...only } = distinct[0] ?? {};
    return distinct.length === 1 && !("$ref" in only) ? { ...only, ...said } : { ...said, anyOf: distinct };
  }

  protected keeps(keyword: string, value: unknown): boolean {
    if (keyword === "format") return keptFormats.some((format) => format === value);
    // Strict mode supports no lookaround and no back-references.
    if (keyword === "pattern") return typeof value === "string" && !/\(\?[=!<]|\\[1-9]|\\k</.test(value);
    return typeof value === "number";
  }

  protected isDropped(keyword: string, value: unknown, isTooLong: boolean, path: string): boolean {
    const isExpendable = keyword === "default" || keyword === "examples" || value === false;
    if (!isTooLong || isExpendable) return false;
    throw new NotStrict(path, keyword, "strict mode does not know it and it is too long to describe");
  }

  protected lowerType(node: JsonSchemaObject, type: JsonType, path: string): JsonSchemaObject {
    if (type === "object") return this.#lowerObject(node, path, false);
    if (type === "array") return this.#lowerArray(node, path);
    const framed = this.frame(node, type, path);
    if (type === "null") return framed;
    if ("const" in node) {
      this.note(path, "const", "rewritten", "Sent as an `enum` of one value.");
      return { ...framed, enum: [node.const] };
    }
    if (!Array.isArray(node.enum)) return framed;
    const values = node.enum.filter((value) => value !== null);
    const odd = values.find((value) => !isOfType(value, type));
    if (odd !== undefined) throw new NotStrict(path, "enum", `${JSON.stringify(odd)} is not of type ${type}`);
    return { ...framed, enum: values };
  }

  #lowerObject(node: JsonSchemaObject, path: string, isRoot: boolean): JsonSchemaObject {
    const properties = propertiesOf(node);
    const names = Object.keys(properties);
    const required = requiredOf(node);
    const { additionalProperties: further, patternProperties, unevaluatedProperties } = node;
    const refuse = (keyword: string, reason: string) => {
      throw new NotStrict(path, keyword, reason);
    };
    const unlistedAccepted = "properties that are not listed are accepted";
    if (further !== undefined && further !== false) refuse("additionalProperties", unlistedAccepted);
    if (isRecord(patternProperties) && Object.keys(patternProperties).length > 0)
      refuse("patternProperties", unlistedAccepted);
    if (isRecord(unevaluatedProperties) || unevaluatedProperties === true)
      refuse("unevaluatedProperties", unlistedAccepted);
    if (names.length === 0 && further === undefined && !isRoot)
      refuse("properties", "an object with any properties is accepted");
    const unlisted = required.find((key) => !names.includes(key));
    if (unlisted !== undefined) refuse("required", `${unlisted} is required but not listed`);
    if (Array.isArray(node.enum) || node.const !== undefined)
      refuse("enum", "a fixed object cannot be listed");
    if (further === undefined)
      this.note(path, "additionalProperties", "rewritten", "Not said, so sent as closed.");
    const lowered = Object.entries(properties).map(([key, property]): [string, JsonSchemaObject] => {
      const at = pointer(path, "properties", key);
      const schema = this.lower(property, at);
      if (required.includes(key) || acceptsNull(property, this.root)) return [key, schema];
      this.note(at, "required", "rewritten", "Optional, so sent as required and nullable.");
      return [key, this.toNullable(schema)];
    });
    return {
      ...this.frame(node, "object", path, [], ["patternProperties"]),
      properties: Object.fromEntries(lowered),
      required: names,
      additionalProperties: false,
    };
  }

  #lowerArray(node: JsonSchemaObject, path: string): JsonSchemaObject {
    if (Array.isArray(node.enum) || node.const !== undefined)
      throw new NotStrict(path, "enum", "a fixed list cannot be listed");
    if (Array.isArray(node.prefixItems)) return this.#lowerTuple(node, node.prefixItems, path);
    if (node.items === undefined) throw new NotStrict(path, "items", "items of any kind are accepted");
    return {
      ...this.frame(node, "array", path),
      items: this.lower(schemaFrom(node.items), pointer(path, "items")),
    };
  }

  /** A tuple becomes a list of its item types; the description gives the order. */
  #lowerTuple(node: JsonSchemaObject, prefixItems: readonly unknown[], path: string): JsonSchemaObject {
    if (node.items === true || isRecord(node.items))
      throw new NotStrict(path, "items", "items beyond the listed ones are accepted");
    const { places, order } = this.places(prefixItems, path);
    const distinct = distinctJson(places);
    const count = places.length;
    return {
      ...this.frame(node, "array", path, [order], ["minItems", "maxItems"]),
      items: distinct.length === 1 ? distinct[0] : { anyOf: distinct },
      minItems: typeof node.minItems === "number" ? node.minItems : count,
      maxItems: typeof node.maxItems === "number" ? Math.min(node.maxItems, count) : count,
    };
  }

  protected toNullable(schema: JsonSchemaObject): JsonSchemaObject {
    const nothing = { type: "null" };
    if (Array.isArray(schema.anyOf)) return { ...schema, anyOf: distinctJson([...schema.anyOf, nothing]) };
    if (schema.type === "null" || Array.isArray(schema.type)) return schema;
    if (typeof schema.$ref === "string" || schema.type === "object" || schema.type === "array") {
      const { title, description, ...rest } = schema;
      return {
        ...(title !== undefined && { title }),
        ...(description !== undefined && { description }),
        anyOf: [rest, nothing],
      };
    }
    return {
      ...schema,
      type: [schema.type, "null"],
      ...(Array.isArray(schema.enum) && { enum: [...schema.enum, null] }),
    };
  }
}

interface Definition {
  readonly name: string;
  readonly path: string;
  readonly target: JsonSchema;
}

/** The `$defs` of a rewritten schema: all referenced schemas, wherever they were. */
class StrictDefinitions {
  readonly #root: JsonSchemaObject;
  readonly #names = new Map<string, string>();
  readonly #used = new Set<string>();
  readonly #recursive = new Map<string, boolean>();
  readonly #targets = new Map<string, readonly string[]>();

  constructor(root: JsonSchemaObject) {
    this.#root = root;
  }

  /** Translates a `$ref` of the original. */
  refer(reference: string): string {
    if (reference === "#" || reference === "#/") return "#";
    this.#used.add(reference);
    return `#/$defs/${this.#nameOf(reference)}`;
  }

  /** Each definition in use, once, including those that come into use meanwhile. */
  *drain(): Generator<Definition> {
    for (const reference of this.#used) {
      const target = resolveReference(this.#root, reference);
      if (target !== undefined) yield { name: this.#nameOf(reference), path: reference.slice(1), target };
    }
  }

  isRecursive(reference: string): boolean {
    let known = this.#recursive.get(reference);
    if (known === undefined) {
      known = this.#reaches(reference, reference, new Set());
      this.#recursive.set(reference, known);
    }
    return known;
  }

  #reaches(from: string, goal: string, seen: Set<string>): boolean {
    for (const next of this.#referencesIn(from)) {
      if (next === goal) return true;
      if (seen.has(next)) continue;
      seen.add(next);
      if (this.#reaches(next, goal, seen)) return true;
    }
    return false;
  }

  #referencesIn(reference: string): readonly string[] {
    const known = this.#targets.get(reference);
    if (known !== undefined) return known;
    const found = new Set<string>();
    const target = resolveReference(this.#root, reference);
    if (isRecord(target)) {
      walkSchemas(target, ({ schema }) => {
        if (typeof schema.$ref === "string") found.add(schema.$ref);
        return true;
      });
    }
    const list = [...found];
    this.#targets.set(reference, list);
    return list;
  }

  #nameOf(reference: string): string {
    const known = this.#names.get(reference);
    if (known !== undefined) return known;
    const last = reference.split("/").at(-1) ?? "";
    const stem = last.replace(/[^A-Za-z0-9_-]+/g, "_").replace(/^_+|_+$/g, "") || "schema";
    const taken = new Set(this.#names.values());
    let name = stem;
    for (let next = 2; taken.has(name); next++) name = `${stem}_${next}`;
    this.#names.set(reference, name);
    return name;
  }
}

/** The provider's documented limits of a strict schema. */
const limits = {
  properties: 5_000,
  depth: 10,
  enumValues: 1_000,
  textLength: 120_000,
  largeEnum: 250,
  largeEnumLength: 15_000,
};

/** Says which limit a strict schema exceeds, or undefined. */
function checkStrictLimits(root: JsonSchemaObject): string | undefined {
  let properties = 0;
  let enumValues = 0;
  let textLength = 0;
  let problem: string | undefined;
  visit(root, 0, []);
  const definitions = isRecord(root.$defs) ? root.$defs : {};
  for (const [name, definition] of Object.entries(definitions)) {
    textLength += name.length;
    // Depth was measured along the references; this counts sizes.
    if (isRecord(definition)) visit(definition, 0, undefined);
  }
  if (properties > limits.properties) problem ??= `more than ${limits.properties} properties`;
  if (enumValues > limits.enumValues) problem ??= `more than ${limits.enumValues} values in enums`;
  if (textLength > limits.textLength)
    problem ??= `more than ${limits.textLength} characters of names and values`;
  return problem;

  /** With `references`, measures depth along `$ref`; without, counts sizes. The root counts for both. */
  function visit(schema: JsonSchemaObject, depth: number, references: readonly string[] | undefined): void {
    if (depth > limits.depth) problem ??= `more than ${limits.depth} levels of nesting`;
    if (problem !== undefined) return;
    const isCounted = references === undefined || references.length === 0;
    if (isCounted && Array.isArray(schema.enum)) countValues(schema.enum);
    if (references !== undefined && typeof schema.$ref === "string" && !references.includes(schema.$ref)) {
      const target = resolveReference(root, schema.$ref);
      if (isRecord(target) && references.length < limits.depth)
        visit(target, depth, [...references, schema.$ref]);
    }
    if (Array.isArray(schema.anyOf)) for (const branch of schema.anyOf) visit(branch, depth, references);
    if (isRecord(schema.items)) visit(schema.items, depth + 1, references);
    for (const [name, property] of Object.entries(isRecord(schema.properties) ? schema.properties : {})) {
      if (isCounted) properties++;
      if (isCounted) textLength += name.length;
      if (isRecord(property)) visit(property, depth + 1, references);
    }
  }

  function countValues(values: readonly unknown[]): void {
    enumValues += values.length;
    const length = values.reduce<number>((sum, value) => sum + String(value).length, 0);
    textLength += length;
    if (values.length > limits.largeEnum && length > limits.largeEnumLength) {
      problem ??= `an enum of more than ${limits.largeEnum} values and ${limits.largeEnumLength} characters`;
    }
  }
}
