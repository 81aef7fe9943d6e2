import { isPlainObject, withoutPrototypeKeys } from "./copy.ts";
import {
  describeFailure,
  describeReceived,
  issuePath,
  maximumIssues,
  mismatch,
  type SchemaIssue,
  unknownKey,
} from "./issue.ts";
import { JsonSchemaValidator } from "./json-schema-validator.ts";
import { isKeyword } from "./keywords.ts";
import { isPromise, LibraryValidator } from "./library-validator.ts";
import { isStandardSchema, standardSchema } from "./standard-schema.ts";
import { type CompiledSchema, SchemaError, type SchemaOutcome, type ValidateOptions } from "./types.ts";
import { isRecord, type JsonSchemaObject, mapSchemas, pointer } from "./visit.ts";
import { zodSchema } from "./zod.ts";
import { isZod3, isZod4 } from "./zod-definition.ts";

const compiled = new WeakMap<object, CompiledSchema>();

/**
 * Compiles a schema of any accepted shape: Zod 4, Zod 3, a Standard Schema, a plain object of such schemas, or a JSON
 * Schema. Cached by identity. Throws `SchemaError` for anything else.
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
  if (isZod4(schema) || isZod3(schema)) return new LibraryValidator(zodSchema(schema));
  if (isStandardSchema(schema)) return new LibraryValidator(standardSchema(schema));
  return undefined;
}

/** An object with one library schema counts as a shape; then all members must be library schemas. */
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

/** An object without any keyword is mostly a list of properties without its wrapper. */
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

function nameOf(value: object): string {
  if (typeof value === "function") return `the function \`${value.name || "(anonymous)"}\``;
  const maker: unknown = Array.isArray(value) ? undefined : Reflect.get(value, "constructor");
  if (typeof maker !== "function" || maker === Object || maker.name === "") return describeReceived(value);
  return `an instance of \`${maker.name}\``;
}

/** A plain object of schemas, one per argument: `{ city: z.string() }`. */
class ShapeValidator implements CompiledSchema {
  readonly kind = "shape";
  readonly #fields: ReadonlyMap<string, CompiledSchema>;
  #json: JsonSchemaObject | undefined;

  constructor(fields: ReadonlyMap<string, CompiledSchema>) {
    this.#fields = fields;
  }

  jsonSchema(): JsonSchemaObject {
    this.#json ??= toJsonSchema(this.#fields);
    return this.#json;
  }

  validate(value: unknown, options?: ValidateOptions): SchemaOutcome | Promise<SchemaOutcome> {
    let clean: unknown;
    try {
      clean = withoutPrototypeKeys(value);
    } catch (error) {
      return { ok: false, issues: [describeFailure(error)] };
    }
    if (typeof clean !== "object" || clean === null || Array.isArray(clean)) {
      return { ok: false, issues: [mismatch([], "object", value)] };
    }
    const object = clean as Record<string, unknown>; // Checked just above.
    const strict = options?.strict === true;
    const outcomes: (SchemaOutcome | Promise<SchemaOutcome>)[] = [];
    let isAsync = false;
    for (const [name, field] of this.#fields) {
      const outcome = field.validate(Object.hasOwn(object, name) ? object[name] : undefined, options);
      isAsync ||= isPromise(outcome);
      outcomes.push(outcome);
    }
    if (isAsync) return Promise.all(outcomes).then((settled) => this.#finish(settled, object, strict));
    return this.#finish(outcomes as SchemaOutcome[], object, strict); // None is a promise.
  }

  #finish(
    outcomes: readonly SchemaOutcome[],
    object: Record<string, unknown>,
    strict: boolean,
  ): SchemaOutcome {
    const value: Record<string, unknown> = {};
    const dropped: string[] = [];
    const issues: SchemaIssue[] = [];
    for (const key in object) {
      if (this.#fields.has(key)) continue;
      if (strict) issues.push(unknownKey([], key, object[key], this.#fields.keys()));
      else dropped.push(key);
    }
    let index = 0;
    for (const name of this.#fields.keys()) {
      const outcome = outcomes[index++]!;
      if (!outcome.ok) issues.push(...outcome.issues.map((issue) => below(name, issue)));
      else if (outcome.value !== undefined) value[name] = outcome.value;
    }
    if (issues.length > 0) return { ok: false, issues: issues.slice(0, maximumIssues) };
    return dropped.length === 0 ? { ok: true, value } : { ok: true, value, dropped };
  }
}

/** Moves an issue of a field to the whole object. */
function below(name: string, issue: SchemaIssue): SchemaIssue {
  const key = issuePath([name]);
  if (issue.path === "") {
    if (issue.received === "nothing") {
      return { ...issue, path: key, message: `\`${key}\` is missing: expected ${issue.expected}.` };
    }
    return { ...issue, path: key, message: `\`${key}\`: ${issue.message}` };
  }
  const path = issue.path.startsWith("[") ? key + issue.path : `${key}.${issue.path}`;
  return { ...issue, path, message: issue.message.replace(`\`${issue.path}\``, `\`${path}\``) };
}

function toJsonSchema(fields: ReadonlyMap<string, CompiledSchema>): JsonSchemaObject {
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  for (const [name, field] of fields) {
    const place = `#${pointer("", "properties", encodeURIComponent(name))}`;
    properties[name] = moveReferences(field.jsonSchema(), place);
    if (!takesUndefined(field)) required.push(name);
  }
  return required.length === 0 ? { type: "object", properties } : { type: "object", properties, required };
}

/** References in a field's schema are relative to that field's place. */
function moveReferences(schema: unknown, place: string): unknown {
  if (!isRecord(schema)) return schema;
  const moved = mapSchemas(schema, (part) => moveReferences(part, place));
  if (typeof moved.$ref === "string" && moved.$ref.startsWith("#")) moved.$ref = place + moved.$ref.slice(1);
  return moved;
}

function takesUndefined(field: CompiledSchema): boolean {
  const outcome = field.validate(undefined);
  if (!isPromise(outcome)) return outcome.ok;
  // An asynchronous field counts as required; its result is ignored.
  outcome.catch(() => {});
  return false;
}
