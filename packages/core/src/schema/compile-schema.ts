import { isPlainObject } from "./copy.ts";
import { describeReceived, issuePath, maximumIssues, mismatch, type SchemaIssue } from "./issue.ts";
import { JsonSchemaValidator } from "./json-schema-validator.ts";
import { isKeyword } from "./keywords.ts";
import {
  isPromise,
  isStandardSchema,
  type LibrarySchema,
  LibraryValidator,
  standardSchema,
} from "./library-validator.ts";
import { type CompiledSchema, SchemaError, type SchemaOutcome } from "./types.ts";
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
  if (isZod4(schema) || isZod3(schema)) return new LibraryValidator(zodSchema(schema));
  if (isStandardSchema(schema)) return new LibraryValidator(standardSchema(schema));
  if (!isPlainObject(schema)) throw new SchemaError(`Expected a schema, got ${nameOf(schema)}. ${advice}`);
  return compileShape(schema) ?? new JsonSchemaValidator(checkKeywords(schema));
}

/**
 * Compiles an object of library schemas. If one member is a library schema, all members must be; undefined
 * when none is.
 */
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
  return new LibraryValidator(shapeSchema(fields));
}

function isLibrarySchema(value: unknown): boolean {
  return isZod4(value) || isZod3(value) || isStandardSchema(value);
}

/**
 * Refuses an object without any keyword: mostly, its author wrote the properties without the schema around
 * them.
 */
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
function shapeSchema(fields: ReadonlyMap<string, CompiledSchema>): LibrarySchema {
  return {
    kind: "shape",
    parse(value, options) {
      if (!isRecord(value)) return { ok: false, issues: [mismatch([], "object", value)] };
      const outcomes = Array.from(fields, ([name, field]) =>
        field.validate(Object.hasOwn(value, name) ? value[name] : undefined, options),
      );
      if (!outcomes.some(isPromise)) return joinFields(fields, outcomes as SchemaOutcome[]); // None is a promise.
      return Promise.all(outcomes).then((settled) => joinFields(fields, settled));
    },
    // Lists only the names of the fields, because each field checks the keys inside its own value itself.
    keySchema: () => ({ properties: Object.fromEntries([...fields.keys()].map((name) => [name, true])) }),
    jsonSchema: () => toJsonSchema(fields),
  };
}

function joinFields(
  fields: ReadonlyMap<string, CompiledSchema>,
  outcomes: readonly SchemaOutcome[],
): SchemaOutcome {
  const value: Record<string, unknown> = {};
  const issues: SchemaIssue[] = [];
  for (const [index, name] of [...fields.keys()].entries()) {
    const outcome = outcomes[index]!;
    if (!outcome.ok) issues.push(...outcome.issues.map((issue) => below(name, issue)));
    else if (outcome.value !== undefined) value[name] = outcome.value;
  }
  return issues.length > 0 ? { ok: false, issues: issues.slice(0, maximumIssues) } : { ok: true, value };
}

/** Rewrites an issue of a field so that its path starts at the whole object. */
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

/**
 * Rewrites the references in a field's schema, which start at that schema, to start at the root of the whole
 * schema.
 */
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
