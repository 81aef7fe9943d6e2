import { distinctJson } from "../schema/json.ts";
import {
  describingSchemas,
  isRecord,
  itemSchemas,
  type JsonSchema,
  type JsonSchemaObject,
  type JsonType,
  keysOf,
  listOf,
  mayDescribe,
  pointer,
  propertiesOf,
  requiredOf,
  resolveReference,
  schemaFrom,
  typesOf,
  valuesOf,
  walkSchemas,
} from "../schema/visit.ts";
import type { TakeNote } from "./format-notes.ts";
import { freeName, parseObject, prepareSchema, toModernSchema } from "./provider-schema.ts";
import { annotationKeywords, mergeSchemas } from "./schema-merge.ts";
import { isOfType, type ProviderRules, SchemaLowering } from "./schema-rewriter.ts";
import type { ToolDefinition } from "./tools.ts";

/** A schema with more nodes has references that multiply each other. */
const maxNodes = 20_000;

/** Thrown where strict mode would change what a tool accepts. */
class NotStrict extends Error {
  readonly path: string;
  readonly keyword: string;
  constructor(path: string, keyword: string, reason: string) {
    super(`Strict mode would change what the tool accepts: ${reason}.`);
    this.path = path;
    this.keyword = keyword;
  }
}

/**
 * Rewrites a tool's schema for OpenAI's strict mode: every object closed, every property required (optional
 * ones accept `null`, which `fromStrictArguments` removes again). Constraints that strict mode does not know
 * go into the description. Undefined, with a note, if strict mode would change what the tool accepts.
 */
export function toStrictSchema(schema: JsonSchemaObject, note: TakeNote): JsonSchemaObject | undefined {
  const alternative = shapedAlternative(toModernSchema(schema, () => {}));
  if (alternative !== undefined) {
    const reason = "Its branches are different objects, which the root of a strict schema cannot be.";
    note("", alternative, "not_strict", reason);
    return undefined;
  }
  // The notes are kept only if the strict schema is sent.
  const taken: Parameters<TakeNote>[] = [];
  const take: TakeNote = (...entry) => taken.push(entry);
  try {
    const strict = new StrictLowering(prepareSchema(schema, take), take, maxNodes).lowerRoot();
    const exceeded = exceededLimit(strict);
    if (exceeded !== undefined) throw new NotStrict("", "schema", exceeded);
    for (const entry of taken) note(...entry);
    return strict;
  } catch (error) {
    if (!(error instanceof NotStrict)) throw error;
    note(error.path, error.keyword, "not_strict", error.message);
    return undefined;
  }
}

/** `anyOf` or `oneOf`, if its branches differ in more than their required keys; otherwise undefined. */
function shapedAlternative(root: JsonSchemaObject): string | undefined {
  const harmless = ["required", "title", "description", "type"];
  const isRequirement = (branch: unknown) =>
    isRecord(branch) && Object.keys(branch).every((keyword) => harmless.includes(keyword));
  return ["anyOf", "oneOf"].find((keyword) => !listOf(root[keyword]).every(isRequirement));
}

const numberKeywords = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const keptFormats = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

const strictRules: ProviderRules = {
  kept: {
    string: ["pattern", "format"],
    number: numberKeywords,
    integer: numberKeywords,
    array: ["minItems", "maxItems"],
  },
  keeps(keyword, value) {
    if (keyword === "format") return keptFormats.some((format) => format === value);
    // Strict mode supports no lookaround and no back-references.
    if (keyword === "pattern") return typeof value === "string" && !/\(\?[=!<]|\\[1-9]|\\k</.test(value);
    return typeof value === "number";
  },
  handled: ["additionalProperties", "unevaluatedProperties", "unevaluatedItems"],
  isSilent: () => false,
  notKept: "Not known to strict mode.",
};

class StrictLowering extends SchemaLowering {
  protected readonly rules = strictRules;
  /** For each reference in use, the name that its target gets under `$defs`. */
  readonly #definitions = new Map<string, string>();
  readonly #taken = new Set<string>();

  lowerRoot(): JsonSchemaObject {
    const schema = this.#lowerObject(this.root, "", true);
    const definitions: [string, JsonSchemaObject][] = [];
    // Lowering a definition may bring others into use, which this loop reaches too.
    for (const [reference, name] of this.#definitions) {
      const target = resolveReference(this.root, reference);
      if (target !== undefined) definitions.push([name, this.lower(target, reference.slice(1))]);
    }
    return { ...schema, ...(definitions.length > 0 && { $defs: Object.fromEntries(definitions) }) };
  }

  protected tooLarge(path: string): Error {
    return new NotStrict(path, "$ref", "the schema is too large");
  }

  protected widen(path: string, keyword: string, reason: string): never {
    throw new NotStrict(path, keyword, reason);
  }

  protected lowerAnyValue(node: JsonSchema, path: string): never {
    throw new NotStrict(path, "type", node === false ? "no value is accepted" : "any value is accepted");
  }

  protected lowerReference(reference: string, siblings: JsonSchemaObject, path: string): JsonSchemaObject {
    const target = resolveReference(this.root, reference);
    if (target === undefined) return this.widen(path, "$ref", `nothing is found at ${reference}`);
    if (Object.keys(siblings).length === 0) return { $ref: this.#refer(reference) };
    // Strict mode refuses keywords beside `$ref`, so the target is inlined if possible.
    if (isRecord(target) && !isRecursive(reference, this.root)) {
      const merged = mergeSchemas([siblings, target], this.root);
      return merged === undefined
        ? this.widen(path, "$ref", "the keywords beside it do not merge with it")
        : this.lower(merged, path);
    }
    const constraint = Object.keys(siblings).find((keyword) => !annotationKeywords.includes(keyword));
    if (constraint !== undefined) this.widen(path, constraint, "it stands beside a recursive `$ref`");
    const { title: _title, ...words } = this.words(siblings, path);
    return { ...words, anyOf: [{ $ref: this.#refer(reference) }] };
  }

  #refer(reference: string): string {
    if (reference === "#" || reference === "#/") return "#";
    let name = this.#definitions.get(reference);
    if (name === undefined) {
      const last = reference.split("/").at(-1) ?? "";
      name = freeName(last.replace(/[^A-Za-z0-9_-]+/g, "_").replace(/^_+|_+$/g, "") || "schema", this.#taken);
      this.#definitions.set(reference, name);
    }
    return `#/$defs/${name}`;
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
    if (odd !== undefined) this.widen(path, "enum", `${JSON.stringify(odd)} is not of type ${type}`);
    return { ...framed, enum: values };
  }

  #lowerObject(node: JsonSchemaObject, path: string, isRoot: boolean): JsonSchemaObject {
    const properties = propertiesOf(node);
    const names = Object.keys(properties);
    const required = requiredOf(node);
    const { additionalProperties: further, patternProperties, unevaluatedProperties: rest } = node;
    const open = [
      ["additionalProperties", (further ?? false) !== false],
      ["patternProperties", keysOf(patternProperties).length > 0],
      ["unevaluatedProperties", isRecord(rest) || rest === true],
    ] as const;
    for (const [keyword, isOpen] of open)
      if (isOpen) this.widen(path, keyword, "properties that are not listed are accepted");
    if (names.length === 0 && further === undefined && !isRoot)
      this.widen(path, "properties", "an object with any properties is accepted");
    const unlisted = required.find((key) => !names.includes(key));
    if (unlisted !== undefined) this.widen(path, "required", `${unlisted} is required but not listed`);
    this.#refuseFixed(node, path, "object");
    if (further === undefined)
      this.note(path, "additionalProperties", "rewritten", "Not said, so sent as closed.");
    const lowered = Object.entries(properties).map(([key, property]) => {
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

  /** A tuple becomes a list of its item types; the description gives the order. */
  #lowerArray(node: JsonSchemaObject, path: string): JsonSchemaObject {
    const { items, prefixItems, minItems, maxItems } = node;
    this.#refuseFixed(node, path, "list");
    if (!Array.isArray(prefixItems)) {
      if (items === undefined) this.widen(path, "items", "items of any kind are accepted");
      const lowered = this.lower(schemaFrom(items), pointer(path, "items"));
      return { ...this.frame(node, "array", path), items: lowered };
    }
    if (items === true || isRecord(items))
      this.widen(path, "items", "items beyond the listed ones are accepted");
    const { places, order } = this.places(prefixItems, path);
    const distinct = distinctJson(places);
    return {
      ...this.frame(node, "array", path, [order], ["minItems", "maxItems"]),
      items: distinct.length === 1 ? distinct[0] : { anyOf: distinct },
      minItems: typeof minItems === "number" ? minItems : places.length,
      maxItems: typeof maxItems === "number" ? Math.min(maxItems, places.length) : places.length,
    };
  }

  #refuseFixed(node: JsonSchemaObject, path: string, kind: "object" | "list"): void {
    if (Array.isArray(node.enum) || node.const !== undefined)
      this.widen(path, "enum", `a fixed ${kind} cannot be listed`);
  }

  protected toNullable(schema: JsonSchemaObject): JsonSchemaObject {
    const nothing = { type: "null" };
    if (Array.isArray(schema.anyOf)) return { ...schema, anyOf: distinctJson([...schema.anyOf, nothing]) };
    if (schema.type === "null" || Array.isArray(schema.type)) return schema;
    if (typeof schema.$ref === "string" || schema.type === "object" || schema.type === "array") {
      const { title, description, ...rest } = schema;
      const words = {
        ...(title !== undefined && { title }),
        ...(description !== undefined && { description }),
      };
      return { ...words, anyOf: [rest, nothing] };
    }
    const values = Array.isArray(schema.enum) ? { enum: [...schema.enum, null] } : {};
    return { ...schema, type: [schema.type, "null"], ...values };
  }
}

/** Whether the schema that the reference points to contains the same reference again, directly or through others. */
function isRecursive(reference: string, root: JsonSchemaObject): boolean {
  const reached = new Set<unknown>();
  // The loop also goes through the references that it adds to this list.
  const waiting = [reference];
  for (const next of waiting) {
    const target = resolveReference(root, next);
    if (!isRecord(target)) continue;
    walkSchemas(target, ({ schema: { $ref } }) => {
      if (typeof $ref === "string" && !reached.has($ref)) waiting.push($ref);
      reached.add($ref);
      return true;
    });
  }
  return reached.has(reference);
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
function exceededLimit(root: JsonSchemaObject): string | undefined {
  const counts = { properties: 0, enumValues: 0, textLength: 0 };
  let hasLargeEnum = false;
  walkSchemas(root, ({ schema }) => {
    const values = listOf(schema.enum);
    const length = lengthOf(values);
    counts.properties += keysOf(schema.properties).length;
    counts.enumValues += values.length;
    counts.textLength += length + lengthOf([...keysOf(schema.properties), ...keysOf(schema.$defs)]);
    hasLargeEnum ||= values.length > limits.largeEnum && length > limits.largeEnumLength;
    return true;
  });
  if (hasLargeEnum)
    return `an enum of more than ${limits.largeEnum} values and ${limits.largeEnumLength} characters`;
  if (counts.properties > limits.properties) return `more than ${limits.properties} properties`;
  if (counts.enumValues > limits.enumValues) return `more than ${limits.enumValues} values in enums`;
  if (counts.textLength > limits.textLength)
    return `more than ${limits.textLength} characters of names and values`;
  return levelsOf(root, root, new Map()) > limits.depth
    ? `more than ${limits.depth} levels of nesting`
    : undefined;
}

function lengthOf(values: readonly unknown[]): number {
  return values.reduce<number>((sum, value) => sum + String(value).length, 0);
}

/** The levels of nesting in a schema, its references included; a recursive reference is followed once. */
function levelsOf(schema: unknown, root: JsonSchemaObject, known: Map<unknown, number>): number {
  if (!isRecord(schema)) return 0;
  const { $ref, anyOf, items, properties } = schema;
  if (typeof $ref === "string" && !known.has($ref)) {
    known.set($ref, 0);
    known.set($ref, levelsOf(resolveReference(root, $ref), root, known));
  }
  const inner = [...valuesOf(properties), items].filter(isRecord);
  return Math.max(
    known.get($ref) ?? 0,
    ...listOf(anyOf).map((branch) => levelsOf(branch, root, known)),
    ...inner.map((part) => 1 + levelsOf(part, root, known)),
  );
}

/** Whether the schema accepts `null`. */
function acceptsNull(schema: unknown, root: JsonSchemaObject, seen: readonly string[] = []): boolean {
  if (!isRecord(schema)) return schema !== false;
  const { $ref, allOf, anyOf, oneOf } = schema;
  if ("const" in schema && schema.const !== null) return false;
  if (Array.isArray(schema.enum) && !schema.enum.includes(null)) return false;
  if (schema.nullable !== true && typesOf(schema)?.includes("null") === false) return false;
  if (typeof $ref === "string" && !seen.includes($ref)) {
    if (!acceptsNull(resolveReference(root, $ref), root, [...seen, $ref])) return false;
  }
  const accepts = (branch: unknown) => acceptsNull(branch, root, seen);
  const hasSome = (branches: unknown) => !Array.isArray(branches) || branches.some(accepts);
  return listOf(allOf).every(accepts) && hasSome(anyOf) && hasSome(oneOf);
}

/**
 * Converts arguments of a strict call to the tool's own schema: removes a `null` that means "not given", and keeps one
 * that the tool's schema allows. Returns text that is not a JSON object unchanged.
 */
export function fromStrictArguments(args: unknown, definition: Pick<ToolDefinition, "inputSchema">): unknown {
  const root = definition.inputSchema;
  return restore(parseObject(args) ?? args, [root]);

  /** `schemas`: all schemas that may describe the value. */
  function restore(value: unknown, schemas: readonly unknown[]): unknown {
    if (typeof value !== "object" || value === null) return value;
    const possible = schemas
      .flatMap((schema) => describingSchemas(schema, root))
      .filter((schema) => mayDescribe(schema, value, root));
    if (Array.isArray(value)) {
      return value.map((item, index) =>
        restore(
          item,
          possible.flatMap((schema) => itemSchemas(schema, index)),
        ),
      );
    }
    const entries = Object.entries(value).flatMap(([key, member]) => {
      const described = possible.filter((schema) => Object.hasOwn(propertiesOf(schema), key));
      const members = described.map((schema) => propertiesOf(schema)[key]);
      const isMeant = members.length === 0 || members.some((part) => acceptsNull(part, root));
      const isOptional = described.some((schema) => !requiredOf(schema).includes(key));
      return member === null && !isMeant && isOptional ? [] : [[key, restore(member, members)]];
    });
    return Object.fromEntries(entries);
  }
}
