import type { JsonSchemaObject } from "@toolrack/core";
import { usageError } from "../cli-error.ts";
import { alternativesOf, follow, propertiesOf, typesOf } from "./schema-parts.ts";
import { typedValue } from "./typed-value.ts";

interface Pair {
  readonly key: string;
  readonly text: string;
  /** Written with `:=`, so the text is JSON. */
  readonly isJson: boolean;
}

type Arguments = Record<string, unknown>;

/**
 * Arguments written as `key=value`, typed by the schema. `a.b=1` reaches into objects, a repeated key makes an
 * array where the schema has one, and `key:=JSON` is taken as it stands. What is given in `base` stays unless a
 * pair names it. Throws a usage error for what cannot be understood; whether it fits is for the pipeline to say.
 */
export function parsePairs(
  words: readonly string[],
  schema: JsonSchemaObject,
  base: Arguments = {},
): Arguments {
  const args: Arguments = structuredClone(base);
  const given = new Set<string>();
  for (const word of words) {
    const pair = split(word);
    const { path, target } = locate(pair.key, schema);
    const holder = objectAt(args, path.slice(0, -1), pair.key);
    const name = path.at(-1)!;
    const value = pair.isJson ? parseJson(pair) : typedValue(pair.text, target, schema);
    if (!given.has(pair.key)) put(holder, name, value);
    else if (typesOf(target, schema).has("array")) put(holder, name, [holder[name], value].flat());
    else throw usageError(`${pair.key} is given twice, and the tool takes one value for it.`);
    given.add(pair.key);
  }
  return args;
}

function split(word: string): Pair {
  const at = word.indexOf("=");
  if (at <= 0 || word === ":=") {
    throw usageError(
      `"${word}" is no argument. Write arguments as key=value, or all of them with --args JSON.`,
    );
  }
  const isJson = word[at - 1] === ":";
  return { key: word.slice(0, isJson ? at - 1 : at), text: word.slice(at + 1), isJson };
}

/** Where a key leads: a property of that very name comes before one that the dots lead to. */
function locate(key: string, schema: JsonSchemaObject): { path: string[]; target: JsonSchemaObject } {
  const path: string[] = [];
  let rest = key;
  let at = follow(schema, schema);
  while (true) {
    const properties = alternativesOf(at, schema).flatMap((one) => propertiesOf(one, schema));
    const whole = properties.find(({ name }) => name === rest);
    if (whole !== undefined || !rest.includes(".")) {
      return { path: [...path, rest], target: whole?.schema ?? additional(at, schema) };
    }
    const dot = rest.indexOf(".");
    const head = rest.slice(0, dot);
    path.push(head);
    at = properties.find(({ name }) => name === head)?.schema ?? additional(at, schema);
    rest = rest.slice(dot + 1);
  }
}

function additional(schema: JsonSchemaObject, root: JsonSchemaObject): JsonSchemaObject {
  return follow(schema.additionalProperties, root);
}

function objectAt(args: Arguments, path: readonly string[], key: string): Arguments {
  let at = args;
  for (const name of path) {
    if (!Object.hasOwn(at, name)) put(at, name, {});
    const next = at[name];
    if (typeof next !== "object" || next === null || Array.isArray(next)) {
      throw usageError(`${key} reaches into "${name}", which is already given as something else.`);
    }
    at = next as Arguments;
  }
  return at;
}

/** Defined rather than assigned, because a key may be called `__proto__`. */
function put(holder: Arguments, name: string, value: unknown): void {
  Object.defineProperty(holder, name, { value, enumerable: true, writable: true, configurable: true });
}

function parseJson({ key, text }: Pair): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    throw usageError(`The value of ${key}:= is not JSON: ${(thrown as Error).message}`);
  }
}
