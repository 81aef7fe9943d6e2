import {
  isRecord,
  keysOf,
  listOf,
  propertiesOf,
  requiredOf,
  resolveReference,
  typeOfValue,
  typesOf,
  valuesOf,
} from "@toolrack/core/internal/schema";
import { sameJson } from "../text/index.ts";
import type {
  Child,
  Choice,
  FieldFacts,
  FieldNode,
  FieldShape,
  Keywords,
  UnionOption,
} from "./field-node.ts";

/**
 * Turns a JSON Schema of any draft into the tree from which fields are drawn. Parts that it cannot read are edited as
 * JSON.
 */
export function normalise(schema: unknown, root: unknown = schema, key = ""): FieldNode {
  return new Reader(root).read(schema, key);
}

/**
 * The arguments of a tool. One whose schema names no properties takes none, though JSON Schema lets any key through
 * that is not forbidden.
 */
export function readArguments(schema: unknown): FieldNode {
  const node = normalise(schema);
  const { additionalProperties = true, patternProperties } = node.schema;
  if (node.kind !== "map" || additionalProperties !== true || patternProperties !== undefined) return node;
  const { value: _, ...facts } = node;
  return { ...facts, kind: "object", properties: [], extra: undefined };
}

class Reader {
  readonly #root: Keywords;

  constructor(root: unknown) {
    this.#root = isRecord(root) ? root : {};
  }

  read(schema: unknown, key: string): FieldNode {
    const keywords = this.#flatten(schema, 0);
    const { nullable, shape } = this.#shapeOf(keywords, key, 0);
    return { ...factsOf(keywords, nullable), ...shape };
  }

  #child(schema: unknown, key = ""): Child {
    let made: FieldNode | undefined;
    return () => {
      made ??= this.read(schema, key);
      return made;
    };
  }

  /** The schema, with `$ref` and `allOf` replaced by what they stand for. */
  #flatten(schema: unknown, depth: number): Keywords {
    if (!isRecord(schema) || depth > DEEPEST) return {};
    const { $ref, $dynamicRef, allOf, ...own } = schema;
    const reference = $ref ?? $dynamicRef;
    const parts = [
      ...(typeof reference === "string" ? [resolveReference(this.#root, reference)] : []),
      ...listOf(allOf),
    ];
    const flat = parts.map((part) => this.#flatten(part, depth + 1));
    return [...flat, own].reduce(mergeSchemas, {});
  }

  #shapeOf(keywords: Keywords, key: string, depth: number): { nullable: boolean; shape: FieldShape } {
    const fixed = fixedValues(keywords);
    if (fixed !== undefined) return choiceOf(fixed, keywords);
    const branches = branchesOf(keywords);
    if (branches !== undefined && depth < DEEPEST) return this.#unionOf(keywords, branches, key, depth);
    const types = typesIn(keywords);
    const named = types.filter((type) => type !== "null");
    const nullable = types.includes("null");
    if (named.length > 1) {
      const options = named.map((type) => ({ label: type, node: this.#child({ ...keywords, type }, key) }));
      return { nullable, shape: { kind: "union", options } };
    }
    if (named.length === 0 && nullable) return choiceOf([null], keywords);
    return { nullable, shape: this.#plainShape(named[0], keywords, key) };
  }

  #unionOf(
    keywords: Keywords,
    branches: readonly unknown[],
    key: string,
    depth: number,
  ): { nullable: boolean; shape: FieldShape } {
    const { anyOf: _, oneOf: __, ...base } = keywords;
    const flat = branches.map((branch) => this.#flatten(branch, depth + 1));
    const allowed = typesIn(base);
    // A null branch counts only if the rest of the schema allows null.
    const nullable = flat.some(isNullOnly) && (allowed.length === 0 || allowed.includes("null"));
    const merged = flat.filter((branch) => !isNullOnly(branch)).map((branch) => mergeSchemas(base, branch));
    if (merged.length === 0) return choiceOf([null], keywords);
    if (merged.length === 1) {
      const only = this.#shapeOf(merged[0]!, key, depth + 1);
      return { nullable: nullable || only.nullable, shape: only.shape };
    }
    if (merged.every((branch) => fixedValues(branch) !== undefined)) {
      const all = merged.flatMap((branch) => fixedValues(branch)!.map((value) => choiceFor(value, branch)));
      const choices = all.filter(({ value }) => value !== null);
      return { nullable: nullable || choices.length < all.length, shape: { kind: "choice", choices } };
    }
    const options: UnionOption[] = merged.map((branch, index) => ({
      label: labelOf(branch, index),
      node: this.#child(branch, key),
    }));
    return { nullable, shape: { kind: "union", options: distinct(options) } };
  }

  #plainShape(type: string | undefined, keywords: Keywords, key: string): FieldShape {
    switch (type) {
      case "string":
        return textShape(keywords, key);
      case "number":
      case "integer":
        return { kind: "number", integer: type === "integer" };
      case "boolean":
        return { kind: "boolean" };
      case "array":
        return this.#arrayOf(keywords);
      case "object":
        return this.#objectOf(keywords);
      default:
        return { kind: "any" };
    }
  }

  #arrayOf(keywords: Keywords): FieldShape {
    const { prefixItems, items, additionalItems, uniqueItems, maxItems } = keywords;
    // Before draft 2020-12, `items` itself was the list of a tuple's parts.
    const parts = Array.isArray(prefixItems) ? prefixItems : Array.isArray(items) ? items : undefined;
    if (parts !== undefined) {
      const rest = Array.isArray(prefixItems) ? items : additionalItems;
      return {
        kind: "tuple",
        items: parts.map((part) => this.#child(part)),
        rest: rest === false || rest === undefined ? undefined : this.#child(rest),
      };
    }
    const item = this.#child(items ?? {});
    const keywordsOfItem = uniqueItems === true ? this.#flatten(items, 0) : {};
    const fixed = fixedValues(keywordsOfItem);
    if (fixed !== undefined && !fixed.includes(null))
      return { kind: "choices", choices: withNames(fixed, keywordsOfItem) };
    return { kind: "list", item, ...(typeof maxItems === "number" ? { maxItems } : {}) };
  }

  #objectOf(keywords: Keywords): FieldShape {
    const { patternProperties, additionalProperties } = keywords;
    const known = Object.entries(propertiesOf(keywords));
    const required = requiredOf(keywords);
    const [pattern] = valuesOf(patternProperties);
    const isOpen = isRecord(additionalProperties) || additionalProperties === true;
    const more = isOpen ? additionalProperties : pattern;
    if (known.length === 0 && (additionalProperties !== false || pattern !== undefined))
      return { kind: "map", value: this.#child(more ?? {}) };
    return {
      kind: "object",
      properties: known.map(([key, schema]) => {
        return { key, required: required.includes(key), node: this.#child(schema, key) };
      }),
      extra: more === undefined ? undefined : this.#child(more),
    };
  }
}

/** How deep references and branches are followed; deeper schemas count as circular. */
const DEEPEST = 32;

function factsOf(keywords: Keywords, nullable: boolean): FieldFacts {
  const { title, description, examples, example, deprecated } = keywords;
  const shown = example === undefined ? [] : [example];
  return {
    ...(typeof title === "string" ? { title } : {}),
    ...(typeof description === "string" ? { description } : {}),
    ...("default" in keywords ? { default: keywords.default } : {}),
    nullable,
    examples: Array.isArray(examples) ? examples : shown,
    deprecated: deprecated === true,
    schema: keywords,
  };
}

function fixedValues(keywords: Keywords): readonly unknown[] | undefined {
  if ("const" in keywords) return [keywords.const];
  if (!Array.isArray(keywords.enum)) return undefined;
  const types = typesIn(keywords);
  return keywords.enum.filter((value) => types.length === 0 || types.some((type) => isOfType(value, type)));
}

function choiceOf(values: readonly unknown[], keywords: Keywords): { nullable: boolean; shape: FieldShape } {
  const named = values.filter((value) => value !== null);
  return {
    nullable: named.length < values.length,
    shape: { kind: "choice", choices: withNames(named, keywords) },
  };
}

function withNames(values: readonly unknown[], { enumNames, "x-enumNames": more }: Keywords): Choice[] {
  const names = listOf(enumNames ?? more);
  return values.map((value, index) => ({ value, label: String(names[index] ?? shown(value)) }));
}

function choiceFor(value: unknown, { title }: Keywords): Choice {
  return { value, label: typeof title === "string" ? title : shown(value) };
}

function shown(value: unknown): string {
  return typeof value === "string" && value !== "" ? value : JSON.stringify(value);
}

function branchesOf({ anyOf, oneOf }: Keywords): readonly unknown[] | undefined {
  const branches = listOf(anyOf ?? oneOf);
  return branches.length > 0 ? branches : undefined;
}

function isNullOnly(keywords: Keywords): boolean {
  const values = fixedValues(keywords);
  if (values !== undefined) return values.length > 0 && values.every((value) => value === null);
  const types = typesIn(keywords);
  return types.length === 1 && types[0] === "null";
}

/** The types of a schema, or else the type that its keywords imply; `nullable` is the OpenAPI 3.0 form of null. */
function typesIn(keywords: Keywords): readonly string[] {
  const named = typesOf(keywords) ?? [];
  return keywords.nullable === true && named.length > 0 ? [...new Set([...named, "null"])] : named;
}

function isOfType(value: unknown, type: string): boolean {
  return type === typeOfValue(value) || type === typeof value;
}

function labelOf(branch: Keywords, index: number): string {
  if (typeof branch.title === "string") return branch.title;
  const fixed = valuesOf(branch.properties).find((part) => isRecord(part) && "const" in part);
  if (isRecord(fixed)) return shown(fixed.const);
  const [type] = typesIn(branch);
  if (type === "array" && isRecord(branch.items) && typeof branch.items.type === "string")
    return `${branch.items.type}[]`;
  const keys = keysOf(branch.properties);
  if (keys.length > 0) return `{ ${keys.slice(0, 3).join(", ")}${keys.length > 3 ? ", …" : ""} }`;
  const values = fixedValues(branch);
  if (values !== undefined) return values.map(shown).join(" | ");
  return type ?? `#${index + 1}`;
}

function distinct(options: readonly UnionOption[]): UnionOption[] {
  return options.map((option, index) => {
    const twins = options.filter(({ label }) => label === option.label);
    return twins.length === 1 ? option : { ...option, label: `${option.label} (${index + 1})` };
  });
}

/** Combines two schemas as far as a form needs it. Where they contradict each other, `second` wins. */
export function mergeSchemas(first: Keywords, second: Keywords): Keywords {
  const merged: Record<string, unknown> = { ...first, ...second };
  const properties = [first.properties, second.properties].filter(isRecord);
  if (properties.length === 2) merged.properties = mergeProperties(properties[0]!, properties[1]!);
  const required = [first.required, second.required].filter((list) => Array.isArray(list));
  if (required.length === 2) merged.required = [...new Set(required.flat())];
  const { enum: allowed } = second;
  if (Array.isArray(first.enum) && Array.isArray(allowed))
    merged.enum = first.enum.filter((value) => allowed.some((one) => sameJson(one, value)));
  // A field can offer only one union: the second is used, and the server checks the other.
  if ("anyOf" in first && "oneOf" in second) delete merged.anyOf;
  return merged;
}

/** Combines entries, because assigning a property called `__proto__` would set the prototype. */
function mergeProperties(first: Keywords, second: Keywords): Keywords {
  const merged = Object.entries(second).map(([key, schema]) => {
    const before = Object.hasOwn(first, key) ? first[key] : undefined;
    return [key, isRecord(before) && isRecord(schema) ? mergeSchemas(before, schema) : schema];
  });
  return Object.fromEntries([...Object.entries(first), ...merged]);
}

const longTexts =
  /^(content|text|body|prompt|code|script|sql|query|template|markdown|html|message|source|patch|diff|stdin)$/i;
const longFormats = new Set(["textarea", "markdown", "code", "multiline", "html"]);
const secretNames = /(password|passwd|secret|api_?key|access_?token|private_?key)/i;

/** The kind of a text: a line, a long text, a secret or a file. Decided by its format, or else by its name. */
export function textShape(
  { format, contentEncoding, contentMediaType, maxLength }: Keywords,
  key: string,
): FieldShape {
  const named = typeof format === "string" ? format : undefined;
  if (named === "data-url") return { kind: "file", as: "data-url" };
  if (contentEncoding === "base64" || named === "binary" || named === "byte" || named === "file") {
    return { kind: "file", as: "base64" };
  }
  const isShort = typeof maxLength === "number" && maxLength <= 120;
  const isLong =
    longFormats.has(named ?? "") || contentMediaType !== undefined || (!isShort && longTexts.test(key));
  return {
    kind: "text",
    multiline: isLong || (typeof maxLength === "number" && maxLength > 500),
    secret: named === "password" || secretNames.test(key),
    ...(named === undefined ? {} : { format: named }),
  };
}
