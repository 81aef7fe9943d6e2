import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { compileSchema, type JsonSchemaObject, type ToolInfo } from "@toolrack/core";
import { resolveReference } from "@toolrack/core/internal/schema";
import { isRecord, parsedJson, reasonOf, shellQuote } from "../helpers/index.ts";
import type { Cli } from "./cli.ts";
import { usageError } from "./cli-error.ts";

export interface Property {
  readonly name: string;
  readonly schema: JsonSchemaObject;
  readonly required: boolean;
}

/** The JSON Schema of a tool's parameters; empty when its library cannot produce one. */
export function parametersOf(info: ToolInfo): JsonSchemaObject {
  try {
    return compileSchema(info.parameters).jsonSchema();
  } catch {
    return {};
  }
}

/** Follows the local references of a subschema. */
export function follow(schema: unknown, root: JsonSchemaObject): JsonSchemaObject {
  let at = isRecord(schema) ? schema : {};
  // References may be chained; one that leads back to itself ends as an empty schema.
  for (let hops = 0; hops < 16 && typeof at.$ref === "string"; hops++) {
    const { $ref, ...beside } = at;
    const target = resolveReference(root, String($ref));
    at = isRecord(target) ? { ...target, ...beside } : beside;
  }
  return at;
}

/** The properties of an object schema, including those of `allOf`. */
export function propertiesOf(schema: JsonSchemaObject, root: JsonSchemaObject): Property[] {
  const parts = [schema, ...listOf(schema.allOf).map((part) => follow(part, root))];
  const required = new Set(parts.flatMap((part) => listOf(part.required)));
  return parts.flatMap((part) =>
    Object.entries(objectOr(part.properties)).map(([name, value]) => ({
      name,
      schema: follow(value, root),
      required: required.has(name),
    })),
  );
}

/** The alternatives of a schema: the schema itself, or each branch merged with the common part. */
export function alternativesOf(
  schema: JsonSchemaObject,
  root: JsonSchemaObject,
  depth = 0,
): JsonSchemaObject[] {
  const { anyOf, oneOf, ...common } = schema;
  const choices = [...listOf(anyOf), ...listOf(oneOf)];
  // A schema may contain itself.
  if (choices.length === 0 || depth > 4) return [common];
  return choices.flatMap((choice) => alternativesOf(both(common, follow(choice, root)), root, depth + 1));
}

function both(common: JsonSchemaObject, choice: JsonSchemaObject): JsonSchemaObject {
  const properties = { ...objectOr(common.properties), ...objectOr(choice.properties) };
  return {
    ...common,
    ...choice,
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
    required: [...listOf(common.required), ...listOf(choice.required)],
  };
}

/** The types that a value may have; empty when the schema names none. */
export function typesOf(schema: JsonSchemaObject, root: JsonSchemaObject): Set<string> {
  return new Set(
    alternativesOf(schema, root).flatMap((one) => {
      const named = listOf(one.type).filter((type) => typeof type === "string");
      if (named.length > 0) return named;
      return valuesOf(one).map((value) =>
        value === null ? "null" : Array.isArray(value) ? "array" : typeof value,
      );
    }),
  );
}

/** The values that an `enum` or `const` allows; empty when there is neither. */
export function valuesOf(schema: JsonSchemaObject): unknown[] {
  return Array.isArray(schema.enum) ? schema.enum : "const" in schema ? [schema.const] : [];
}

function listOf(value: unknown): unknown[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

function objectOr(value: unknown): JsonSchemaObject {
  return isRecord(value) ? value : {};
}

const LONGEST = 60;

/** A schema in a few words: `integer ≥ 1`, `"json" | "text"`, `array of string`. */
export function describeType(schema: JsonSchemaObject, root: JsonSchemaObject, depth = 0): string {
  const described = alternativesOf(schema, root).map((one) => describeOne(one, root, depth));
  const words = [...new Set(described)].join(" | ");
  return words.length > LONGEST ? `${words.slice(0, LONGEST - 1)}…` : words;
}

function describeOne(schema: JsonSchemaObject, root: JsonSchemaObject, depth: number): string {
  const values = valuesOf(schema);
  if (values.length > 0) return values.map((value) => JSON.stringify(value)).join(" | ");
  const described = [...typesOf(schema, root)].map((type) => {
    if (type === "array") {
      // A schema may contain itself, so it is described a few levels deep only.
      return schema.items === undefined || depth > 2
        ? "array"
        : `array of ${describeType(follow(schema.items, root), root, depth + 1)}`;
    }
    if (type === "string") {
      const pattern = typeof schema.pattern === "string" ? `/${schema.pattern}/` : schema.format;
      const length = bounds(schema.minLength || undefined, schema.maxLength, " characters");
      return [type, pattern, length].filter(Boolean).join(" ");
    }
    if (type !== "number" && type !== "integer") return type;
    return [type, bounds(schema.minimum, schema.maximum, "")].filter(Boolean).join(" ");
  });
  return described.length === 0 ? "any" : described.join(" | ");
}

function bounds(least: unknown, most: unknown, unit: string): string {
  const hasLeast = typeof least === "number";
  if (hasLeast && typeof most === "number") return `${least}–${most}${unit}`;
  if (hasLeast) return `≥ ${least}${unit}`;
  return typeof most === "number" ? `≤ ${most}${unit}` : "";
}

/** `call NAME key=value…` with a value for everything that the tool requires. */
export function exampleCall(info: ToolInfo): string {
  return ["call", info.name, ...examplePairs(info)].map(shellQuote).join(" ");
}

/** Words in the form that `parsePairs` takes. */
export function examplePairs(info: ToolInfo): string[] {
  const root = parametersOf(info);
  const example = Object.entries(exampleObject(follow(root, root), root, 0));
  return example.map(([name, value]) =>
    typeof value === "object" && value !== null
      ? `${name}:=${JSON.stringify(value)}`
      : `${name}=${String(value)}`,
  );
}

function exampleObject(schema: JsonSchemaObject, root: JsonSchemaObject, depth: number): object {
  const required = propertiesOf(schema, root).filter((property) => property.required);
  return Object.fromEntries(required.map(({ name, schema: own }) => [name, exampleOf(own, root, depth)]));
}

function exampleOf(schema: JsonSchemaObject, root: JsonSchemaObject, depth: number): unknown {
  const [one = schema] = alternativesOf(schema, root);
  const known = listOf(one.examples)[0] ?? one.default ?? valuesOf(one)[0];
  if (known !== undefined) return known;
  switch ([...typesOf(one, root)][0]) {
    case "integer":
    case "number":
      return typeof one.minimum === "number" ? one.minimum : 1;
    case "boolean":
      return true;
    case "null":
      return null;
    case "array":
      return depth > 2 ? [] : [exampleOf(follow(one.items, root), root, depth + 1)];
    case "object":
      return depth > 2 ? {} : exampleObject(one, root, depth + 1);
    default:
      return "…";
  }
}

type Arguments = Record<string, unknown>;

/** Reads the object given with an option such as `--args`: JSON itself, `@FILE`, or `-` for standard input. */
export async function readArguments(cli: Cli, given: string, option = "--args"): Promise<Arguments> {
  const { source, name } = await load(cli, given, option);
  const value = parseJson(source, (reason) => `${name} is not JSON: ${reason}`);
  if (isRecord(value)) return value;
  throw usageError(`${name} must be one JSON object with the arguments, such as {"path": "README.md"}.`);
}

/** The text of `@FILE`, or of standard input for `-`. Throws a usage error that begins with `problem`. */
export async function readGiven(
  cli: Cli,
  given: string,
  problem = `The file ${given.slice(1)} cannot be read`,
): Promise<string> {
  if (given === "-") return cli.readInput();
  return readFile(resolve(cli.cwd, given.slice(1)), "utf8").catch((error: Error) => {
    throw usageError(`${problem}: ${error.message}`);
  });
}

async function load(cli: Cli, given: string, option: string): Promise<{ source: string; name: string }> {
  if (given === "-") return { source: await cli.readInput(), name: "The standard input" };
  if (!given.startsWith("@")) return { source: given, name: `The text of ${option}` };
  const source = await readGiven(cli, given, `${option} names a file that cannot be read`);
  return { source, name: `The file ${given.slice(1)}` };
}

function parseJson(source: string, complaint: (reason: string) => string): unknown {
  try {
    return JSON.parse(source);
  } catch (thrown) {
    throw usageError(complaint(reasonOf(thrown)));
  }
}

/**
 * Reads arguments written as `key=value`, with types from the schema. `a.b=1` sets a member of an object, a repeated
 * key makes an array where the schema has one, and the value of `key:=JSON` is JSON. Members of `base` stay unless a
 * pair names them. Throws a usage error for a word that cannot be read; the pipeline checks whether the arguments fit.
 */
export function parsePairs(
  words: readonly string[],
  schema: JsonSchemaObject,
  base: Arguments = {},
): Arguments {
  const args: Arguments = structuredClone(base);
  const given = new Set<string>();
  for (const word of words) {
    const { key, text, isJson } = split(word);
    const { folder, name, target } = locate(key, schema);
    const holder = objectAt(args, folder, key);
    const value = isJson
      ? parseJson(text, (reason) => `The value of ${key}:= is not JSON: ${reason}`)
      : typedValue(text, target, schema);
    if (!given.has(key)) put(holder, name, value);
    else if (typesOf(target, schema).has("array")) put(holder, name, [holder[name], value].flat());
    else throw usageError(`${key} is given twice, and the tool takes one value for it.`);
    given.add(key);
  }
  return args;
}

/** Splits `key=value`, or `key:=JSON`, whose text is JSON. */
function split(word: string): { key: string; text: string; isJson: boolean } {
  const at = word.indexOf("=");
  if (at <= 0 || word === ":=") {
    throw usageError(
      `"${word}" is no argument. Write arguments as key=value, or all of them with --args JSON.`,
    );
  }
  const isJson = word[at - 1] === ":";
  return { key: word.slice(0, isJson ? at - 1 : at), text: word.slice(at + 1), isJson };
}

/** Finds the place of a key. A property whose name contains the dots wins over a nested one. */
function locate(
  key: string,
  root: JsonSchemaObject,
): { folder: string[]; name: string; target: JsonSchemaObject } {
  const folder: string[] = [];
  let name = key;
  let at = follow(root, root);
  while (true) {
    const properties = alternativesOf(at, root).flatMap((one) => propertiesOf(one, root));
    const schemaOf = (wanted: string) => properties.find((property) => property.name === wanted)?.schema;
    const others = follow(at.additionalProperties, root);
    const whole = schemaOf(name);
    if (whole !== undefined || !name.includes(".")) return { folder, name, target: whole ?? others };
    const dot = name.indexOf(".");
    const head = name.slice(0, dot);
    folder.push(head);
    at = schemaOf(head) ?? others;
    name = name.slice(dot + 1);
  }
}

function objectAt(args: Arguments, path: readonly string[], key: string): Arguments {
  let at = args;
  for (const name of path) {
    if (!Object.hasOwn(at, name)) put(at, name, {});
    const next = at[name];
    if (!isRecord(next)) {
      throw usageError(`${key} reaches into "${name}", which is already given as something else.`);
    }
    at = next;
  }
  return at;
}

/** Defined rather than assigned, because a key may be called `__proto__`. */
function put(holder: Arguments, name: string, value: unknown): void {
  Object.defineProperty(holder, name, { value, enumerable: true, writable: true, configurable: true });
}

const yes = new Set(["true", "yes", "on", "1"]);
const no = new Set(["false", "no", "off", "0"]);
/** Only texts that are clearly numbers: neither `1e` nor an empty word. */
const number = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;

/**
 * The value of a word for a schema. Where the schema allows text, the word is text, unless it is one of the
 * listed values or a JSON list or object that the schema allows. A word that fits no type stays text, so that
 * the schema's own message says what is wrong.
 */
function typedValue(text: string, schema: JsonSchemaObject, root: JsonSchemaObject): unknown {
  const alternatives = alternativesOf(schema, root);
  const listed = alternatives.flatMap(valuesOf);
  const meant =
    listed.find((value) => value === text) ?? listed.find((value) => JSON.stringify(value) === text);
  if (meant !== undefined) return meant;
  const types = typesOf(schema, root);
  // The schema names no type: JSON if it parses, text otherwise.
  if (types.size === 0) return listed.length > 0 ? text : parsedJson(text, text);
  const structure = /^\s*[[{]/.test(text) ? parsedJson(text) : undefined;
  if (structure !== undefined && types.has(Array.isArray(structure) ? "array" : "object")) return structure;
  if (types.has("string")) return text;
  if ((types.has("number") || types.has("integer")) && number.test(text.trim())) {
    if (Number.isFinite(Number(text))) return Number(text);
  }
  const word = text.toLowerCase();
  if (types.has("boolean") && (yes.has(word) || no.has(word))) return yes.has(word);
  if (types.has("null") && text === "null") return null;
  if (!types.has("array")) return text;
  const items = alternatives.find((one) => one.items !== undefined)?.items;
  return [typedValue(text, follow(items, root), root)];
}
