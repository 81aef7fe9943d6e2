import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { JsonSchemaObject } from "@toolrack/core";
import { isRecord, parsedJson, reasonOf } from "../helpers/index.ts";
import type { Cli } from "./cli.ts";
import { usageError } from "./cli-error.ts";
import { alternativesOf, follow, propertiesOf, typesOf, valuesOf } from "./parameters.ts";

type Arguments = Record<string, unknown>;

/** Reads the object given with an option such as `--args`: JSON itself, `@FILE`, or `-` for standard input. */
export async function readArguments(cli: Cli, given: string, option = "--args"): Promise<Arguments> {
  const { source, name } = await load(cli, given, option);
  const value = parseJson(source, (reason) => `${name} is not JSON: ${reason}`);
  if (isRecord(value)) return value;
  throw usageError(`${name} must be one JSON object with the arguments, such as {"path": "README.md"}.`);
}

async function load(cli: Cli, given: string, option: string): Promise<{ source: string; name: string }> {
  if (given === "-") return { source: await cli.readInput(), name: "The standard input" };
  if (!given.startsWith("@")) return { source: given, name: `The text of ${option}` };
  const path = given.slice(1);
  const source = await readFile(resolve(cli.cwd, path), "utf8").catch((error: Error) => {
    throw usageError(`${option} names a file that cannot be read: ${error.message}`);
  });
  return { source, name: `The file ${path}` };
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
