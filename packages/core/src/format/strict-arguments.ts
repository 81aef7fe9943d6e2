import {
  describingSchemas,
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  type JsonType,
  propertiesOf,
  resolveReference,
  typeOfValue,
  typesOf,
  walkSchemas,
} from "../schema/visit.ts";
import { describeConstraint, type TakeNote, withRemarks } from "./modern-schema.ts";
import { acceptsNull, parseObject } from "./references.ts";
import { distinctJson, type ToolDefinition } from "./tools.ts";

/**
 * Arguments of a strict call in the shape of the tool's own schema: a `null` that only says "not given" is
 * taken out, a `null` that the tool's schema allows stays. Text that is not a JSON object comes back as it is.
 */
export function fromStrictArguments(args: unknown, definition: Pick<ToolDefinition, "inputSchema">): unknown {
  const parsed = typeof args === "string" ? (parseObject(args) ?? args) : args;
  return restore(parsed, [definition.inputSchema], definition.inputSchema);
}

/** `schemas`: everything that may describe the value. */
function restore(value: unknown, schemas: readonly JsonSchema[], root: JsonSchemaObject): unknown {
  if (typeof value !== "object" || value === null) return value;
  const possible = schemas
    .flatMap((schema) => describingSchemas(schema, root))
    .filter((schema) => fits(value, schema, root));
  if (Array.isArray(value)) {
    return value.map((item, index) =>
      restore(
        item,
        possible.flatMap((schema) => itemSchemas(schema, index)),
        root,
      ),
    );
  }
  const entries = Object.entries(value).flatMap(([key, member]): [string, unknown][] => {
    const described = possible.filter(
      (schema) => isRecord(schema.properties) && Object.hasOwn(schema.properties, key),
    );
    const members = described.map((schema) => propertiesOf(schema)[key]!);
    if (member !== null) return [[key, restore(member, members, root)]];
    const isMeant = members.length === 0 || members.some((schema) => acceptsNull(schema, root));
    const isOptional = described.some(
      (schema) => !(Array.isArray(schema.required) && schema.required.includes(key)),
    );
    return !isMeant && isOptional ? [] : [[key, null]];
  });
  return Object.fromEntries(entries);
}

/** Whether the value can be meant by the schema, judged by its type and by the values that tell branches apart. */
function fits(value: object, schema: JsonSchemaObject, root: JsonSchemaObject): boolean {
  const types = typesOf(schema);
  if (types !== undefined && !types.includes(typeOfValue(value))) return false;
  if (!isRecord(value) || !isRecord(schema.properties)) return true;
  return Object.entries(schema.properties).every(([key, property]) => {
    const member = value[key];
    if (member === undefined || member === null || typeof member === "object") return true;
    return allows(property, member, root, []);
  });
}

/** Whether `const` and `enum`, here or behind references and branches, leave room for the value. */
function allows(schema: unknown, value: unknown, root: JsonSchemaObject, seen: readonly string[]): boolean {
  if (!isRecord(schema)) return true;
  if (schema.const !== undefined && schema.const !== value) return false;
  if (Array.isArray(schema.enum) && !schema.enum.includes(value)) return false;
  const reference = schema.$ref;
  if (typeof reference === "string" && !seen.includes(reference)) {
    if (!allows(resolveReference(root, reference), value, root, [...seen, reference])) return false;
  }
  const branches = schema.anyOf ?? schema.oneOf;
  return !Array.isArray(branches) || branches.some((branch) => allows(branch, value, root, seen));
}

function itemSchemas(schema: JsonSchemaObject, index: number): JsonSchema[] {
  // Before 2020-12, a list under `items` was a tuple.
  const places = schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : undefined);
  const place: unknown = Array.isArray(places) ? places[index] : undefined;
  const item = place ?? (Array.isArray(schema.items) ? schema.additionalItems : schema.items);
  return isRecord(item) ? [item] : [];
}

interface Definition {
  readonly name: string;
  readonly path: string;
  readonly target: JsonSchema;
}

/** The `$defs` of a rewritten schema: those that are referred to, wherever their originals stood. */
export class StrictDefinitions {
  readonly #root: JsonSchemaObject;
  readonly #names = new Map<string, string>();
  readonly #uses = new Map<string, number>();
  readonly #recursive = new Map<string, boolean>();
  readonly #targets = new Map<string, readonly string[]>();

  constructor(root: JsonSchemaObject) {
    this.#root = root;
  }

  /** The `$ref` to write for a `$ref` of the original. */
  refer(reference: string): string {
    if (reference === "#" || reference === "#/") return "#";
    this.#uses.set(reference, (this.#uses.get(reference) ?? 0) + 1);
    return `#/$defs/${this.#nameOf(reference)}`;
  }

  /** Takes back a `refer` whose answer was not written. */
  forget(reference: string): void {
    this.#uses.set(reference, (this.#uses.get(reference) ?? 1) - 1);
  }

  /** Each definition in use, once. Definitions that come into use while it is read follow. */
  *drain(): Generator<Definition> {
    const done = new Set<string>();
    for (;;) {
      const next = [...this.#uses].find(([reference, uses]) => uses > 0 && !done.has(reference));
      if (next === undefined) return;
      const [reference] = next;
      done.add(reference);
      const target = resolveReference(this.#root, reference);
      if (target === undefined) continue;
      yield { name: this.#nameOf(reference), path: reference.slice(1), target };
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

/** Thrown where strict mode would change what a tool accepts. */
export class NotStrict extends Error {
  readonly path: string;
  readonly keyword: string;
  constructor(path: string, keyword: string, reason: string) {
    super(reason);
    this.path = path;
    this.keyword = keyword;
  }
}

/** What strict mode keeps, by type; everything else is said in the description. */
const keptKeywords: Readonly<Record<JsonType, readonly string[]>> = {
  string: ["pattern", "format", "enum"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum"],
  integer: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum"],
  array: ["minItems", "maxItems"],
  object: [],
  boolean: ["enum"],
  null: [],
};
const keptFormats = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/** Keywords worked into the structure, and keywords that tell a model nothing. */
const handledKeywords = [
  ...["type", "title", "description", "const", "properties", "required", "additionalProperties", "items"],
  ...["prefixItems", "unevaluatedProperties", "unevaluatedItems", "$defs", "definitions", "$id", "$anchor"],
  ...["$dynamicAnchor", "$comment", "deprecated", "readOnly", "writeOnly"],
];

/** Keywords whose loss is no loss of meaning when they are too long to describe. */
const expendableKeywords = ["default", "examples"];

/** Type, title, description with remarks, and the keywords strict mode keeps for this type. */
export function strictFrame(
  node: JsonSchemaObject,
  type: JsonType,
  handled: readonly string[],
  path: string,
  note: TakeNote,
): Record<string, unknown> {
  const kept = keptKeywords[type].filter(
    (keyword) => keyword !== "enum" && node[keyword] !== undefined && isKept(keyword, node[keyword]),
  );
  const remarks = strictRemarks(node, [...kept, ...handled, "enum"], path, note);
  const description = withRemarks(node.description, remarks);
  return {
    type,
    ...(typeof node.title === "string" && { title: node.title }),
    ...(description !== undefined && { description }),
    ...Object.fromEntries(kept.map((keyword) => [keyword, node[keyword]])),
  };
}

export function strictRemarks(
  node: JsonSchemaObject,
  kept: readonly string[],
  path: string,
  note: TakeNote,
): string[] {
  const remarks: string[] = [];
  for (const [keyword, value] of Object.entries(node)) {
    if (kept.includes(keyword) || handledKeywords.includes(keyword)) continue;
    const remark = describeConstraint(keyword, value);
    if (remark !== undefined) remarks.push(remark);
    else if (!expendableKeywords.includes(keyword) && value !== false) {
      throw new NotStrict(path, keyword, "strict mode does not know it and it is too long to describe");
    }
    note(path, keyword, remark === undefined ? "dropped" : "described", "Not known to strict mode.");
  }
  return remarks;
}

export function strictValues(
  node: JsonSchemaObject,
  type: JsonType,
  path: string,
  note: TakeNote,
): { enum?: unknown[] } {
  if (type === "null") return {};
  if ("const" in node) {
    note(path, "const", "rewritten", "Sent as an `enum` of one value.");
    return { enum: [node.const] };
  }
  if (!Array.isArray(node.enum)) return {};
  const values = node.enum.filter((value) => value !== null);
  const odd = values.find((value) => !isOfType(value, type));
  if (odd !== undefined) throw new NotStrict(path, "enum", `${JSON.stringify(odd)} is not of type ${type}`);
  return { enum: values };
}

export function toNullable(schema: JsonSchemaObject): JsonSchemaObject {
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

function isKept(keyword: string, value: unknown): boolean {
  if (keyword === "format") return keptFormats.some((format) => format === value);
  // The grammar behind strict mode has no lookaround and no references back.
  if (keyword === "pattern") return typeof value === "string" && !/\(\?[=!<]|\\[1-9]|\\k</.test(value);
  return typeof value === "number";
}

export function isOfType(value: unknown, type: JsonType): boolean {
  const actual = typeOfValue(value);
  return actual === type || (actual === "integer" && type === "number");
}
