import { describeReceived } from "./describe-received.ts";
import { isKeyword } from "./json-schema-keywords.ts";
import { JsonSchemaValidator } from "./json-schema-validator.ts";
import { LibraryValidator } from "./library-validator.ts";
import { SchemaError } from "./schema-error.ts";
import { ShapeValidator } from "./shape-validator.ts";
import { isStandardSchema, standardSchema } from "./standard-schema.ts";
import type { CompiledSchema, JsonSchemaObject } from "./types.ts";
import { isZod3, isZod4 } from "./zod-types.ts";
import { zod3Schema } from "./zod3.ts";
import { zod4Schema } from "./zod4.ts";

const compiled = new WeakMap<object, CompiledSchema>();

/**
 * Makes a schema of any accepted shape ready for use: Zod 4, Zod 3, a Standard Schema, a plain object of such
 * schemas, or a JSON Schema. The same object gives the same answer. Throws `SchemaError` for anything else.
 */
export function compileSchema(schema: unknown): CompiledSchema {
  if ((typeof schema !== "object" && typeof schema !== "function") || schema === null) {
    throw new SchemaError(`Expected a schema, got ${describeReceived(schema)}. ${advice}`);
  }
  let ready = compiled.get(schema);
  if (ready === undefined) {
    ready = compile(schema);
    compiled.set(schema, ready);
  }
  return ready;
}

const advice =
  'Give a Zod or Standard Schema, an object of them such as { city: z.string() }, or a JSON Schema such as { "type": "object", "properties": { … } }.';

function compile(schema: object): CompiledSchema {
  const library = compileLibrarySchema(schema);
  if (library !== undefined) return library;
  if (!isPlainObject(schema)) throw new SchemaError(`Expected a schema, got ${nameOf(schema)}. ${advice}`);
  return compileShape(schema) ?? new JsonSchemaValidator(checkKeywords(schema));
}

function compileLibrarySchema(schema: unknown): CompiledSchema | undefined {
  if (isZod4(schema)) return new LibraryValidator(zod4Schema(schema));
  if (isZod3(schema)) return new LibraryValidator(zod3Schema(schema));
  if (isStandardSchema(schema)) return new LibraryValidator(standardSchema(schema));
  return undefined;
}

/** An object counts as a shape as soon as one member is a schema of a library; then all must be. */
function compileShape(schema: JsonSchemaObject): CompiledSchema | undefined {
  const names = Object.keys(schema);
  if (!names.some((name) => isLibrarySchema(schema[name]))) return undefined;
  const fields = new Map<string, CompiledSchema>();
  for (const name of names) {
    const field = schema[name];
    if (!isLibrarySchema(field)) {
      const came = describeReceived(field);
      throw new SchemaError(
        `Every member of an object of schemas must be a Zod or Standard Schema, but \`${name}\` is ${came}. Make it one, or leave it out.`,
        { path: name },
      );
    }
    fields.set(name, compileSchema(field));
  }
  return new ShapeValidator(fields);
}

function isLibrarySchema(value: unknown): boolean {
  return isZod4(value) || isZod3(value) || isStandardSchema(value);
}

/** An object without a single keyword is most often a list of properties whose wrapping was forgotten. */
function checkKeywords(schema: JsonSchemaObject): JsonSchemaObject {
  const keys = Object.keys(schema);
  if (keys.length === 0 || keys.some(isKeyword)) return schema;
  const shown = keys
    .slice(0, 5)
    .map((key) => `\`${key}\``)
    .join(", ");
  throw new SchemaError(
    `Expected a JSON Schema, got an object without any of its keywords (it has ${shown}). ` +
      'If these are the arguments, write { "type": "object", "properties": { … } } around them.',
  );
}

function isPlainObject(value: object): value is JsonSchemaObject {
  if (typeof value !== "object" || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function nameOf(value: object): string {
  if (typeof value === "function") return `the function \`${value.name || "(anonymous)"}\``;
  const maker: unknown = Array.isArray(value) ? undefined : Reflect.get(value, "constructor");
  if (typeof maker !== "function" || maker === Object || maker.name === "") return describeReceived(value);
  return `an instance of \`${maker.name}\``;
}
