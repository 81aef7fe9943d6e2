import { editCopy, withoutPrototypeKeys } from "./copy.ts";
import { hashValue } from "./hash.ts";
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
import { type FoundKey, KeyGuide, lostKeys } from "./known-keys.ts";
import { isStandardSchema, standardSchema } from "./standard-schema.ts";
import {
  type CompiledSchema,
  SchemaError,
  type SchemaKind,
  type SchemaOutcome,
  type ValidateOptions,
} from "./types.ts";
import { type JsonSchemaObject, memberAt } from "./visit.ts";
import { isZod3, isZod4 } from "./zod.ts";
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

/** An issue of a field as an issue of the whole. */
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
    const pointer = name.replaceAll("~", "~0").replaceAll("/", "~1");
    properties[name] = moveReferences(field.jsonSchema(), `#/properties/${encodeURIComponent(pointer)}`);
    if (!takesUndefined(field)) required.push(name);
  }
  return required.length === 0 ? { type: "object", properties } : { type: "object", properties, required };
}

/** A reference inside a field's schema counts from that field's place in the whole. */
function moveReferences(part: unknown, place: string): unknown {
  if (Array.isArray(part)) return part.map((member) => moveReferences(member, place));
  if (typeof part !== "object" || part === null) return part;
  return Object.fromEntries(
    Object.entries(part).map(([key, member]) => {
      const isReference = key === "$ref" && typeof member === "string" && member.startsWith("#");
      return [key, isReference ? place + member.slice(1) : moveReferences(member, place)];
    }),
  );
}

function takesUndefined(field: CompiledSchema): boolean {
  const outcome = field.validate(undefined);
  if (!isPromise(outcome)) return outcome.ok;
  // The answer of an asynchronous field is not waited for; such a field counts as required.
  outcome.catch(() => {});
  return false;
}

/** What one schema of a library offers. Each library has a file that makes these. */
export interface LibrarySchema {
  readonly kind: SchemaKind;
  /** Parses with the library's own code. May throw what an author's callback throws. */
  parse(value: unknown): SchemaOutcome | Promise<SchemaOutcome>;
  /** The top-level keys, when the schema lists them and says nothing about others. Asked once. */
  knownKeys(): readonly string[] | undefined;
  /** A JSON Schema that lists the keys which parsing can take, at every depth, if there is one. Asked once. */
  keySchema(): JsonSchemaObject | undefined;
  /** Makes the JSON Schema of the input side. Asked once. Throws `SchemaError`. */
  jsonSchema(): JsonSchemaObject;
}

/** A schema of Zod or of any other library, behind the interface all schemas share. */
class LibraryValidator implements CompiledSchema {
  readonly kind: SchemaKind;
  readonly #schema: LibrarySchema;
  #known: ReadonlySet<string> | undefined;
  #askedForKeys = false;
  #json: JsonSchemaObject | undefined;
  #guide: KeyGuide | null | undefined;

  constructor(schema: LibrarySchema) {
    this.kind = schema.kind;
    this.#schema = schema;
  }

  jsonSchema(): JsonSchemaObject {
    this.#json ??= this.#schema.jsonSchema();
    return this.#json;
  }

  validate(value: unknown, options?: ValidateOptions): SchemaOutcome | Promise<SchemaOutcome> {
    try {
      const clean = withoutPrototypeKeys(value);
      const outcome = this.#schema.parse(clean);
      if (!isPromise(outcome)) return this.#finish(outcome, clean, options);
      return outcome.then((settled) => this.#finish(settled, clean, options)).catch(failed);
    } catch (error) {
      return failed(error);
    }
  }

  #finish(
    outcome: SchemaOutcome,
    value: unknown,
    options: ValidateOptions | undefined,
  ): SchemaOutcome | Promise<SchemaOutcome> {
    if (typeof value !== "object" || value === null) return outcome;
    if (options?.strict) return this.#finishStrict(outcome, value);
    return outcome.ok ? withDropped(outcome, this.#droppedKeys(value, outcome.value)) : outcome;
  }

  #finishStrict(outcome: SchemaOutcome, value: object): SchemaOutcome | Promise<SchemaOutcome> {
    if (this.#guide === undefined) this.#guide = guideOf(this.#schema);
    const found = this.#guide?.find(value);
    if (!outcome.ok) return refusal(found?.unlisted ?? [], outcome.issues);
    if (found !== undefined && found.unlisted.length > 0) return refusal(found.unlisted, []);
    const suspects = found === undefined ? lostKeys(value, outcome.value) : found.doubtful;
    const lost = suspects.filter((suspect) => isLost(suspect, outcome.value));
    return lost.length === 0 ? outcome : this.#refuseIdle(outcome, value, lost);
  }

  /**
   * Refuses keys that are gone from the result, unless they had a part in it: a transform may have read them. The
   * value without them tells; it is parsed once more only in this case.
   */
  #refuseIdle(
    outcome: SchemaOutcome & { readonly ok: true },
    value: object,
    lost: readonly FoundKey[],
  ): SchemaOutcome | Promise<SchemaOutcome> {
    const edits = lost.map(({ parent, key }) => ({ path: [...parent, key], value: undefined }));
    const decide = (again: SchemaOutcome) =>
      again.ok && hashValue(again.value) === hashValue(outcome.value) ? refusal(lost, []) : outcome;
    try {
      const again = this.#schema.parse(editCopy(value, edits));
      return isPromise(again) ? again.then(decide, () => outcome) : decide(again);
    } catch {
      return outcome; // A callback that cannot do without them needs them.
    }
  }

  #droppedKeys(value: object, result: unknown): readonly string[] {
    const known = this.#knownKeys();
    if (known === undefined) return keysLost(value, result);
    const unknown = keysBeyond(value, known);
    return unknown === undefined ? none : keysAbsent(unknown, result);
  }

  #knownKeys(): ReadonlySet<string> | undefined {
    if (!this.#askedForKeys) {
      this.#askedForKeys = true;
      const names = this.#schema.knownKeys();
      this.#known = names && new Set(names);
    }
    return this.#known;
  }
}

const none: readonly string[] = [];

function guideOf(schema: LibrarySchema): KeyGuide | null {
  const listing = schema.keySchema();
  return listing === undefined ? null : new KeyGuide(listing);
}

function refusal(unknown: readonly FoundKey[], others: readonly SchemaIssue[]): SchemaOutcome {
  const issues = unknown.map(({ parent, key, value, known }) => unknownKey(parent, key, value, known));
  return { ok: false, issues: [...issues, ...others].slice(0, maximumIssues) };
}

function isLost({ parent, key }: FoundKey, result: unknown): boolean {
  const container = memberAt(result, parent);
  return typeof container === "object" && container !== null && !Object.hasOwn(container, key);
}

function keysBeyond(value: object, known: ReadonlySet<string>): string[] | undefined {
  let unknown: string[] | undefined;
  for (const key in value) {
    if (known.has(key)) continue;
    if (unknown === undefined) unknown = [key];
    else unknown.push(key);
  }
  return unknown;
}

/** Without a list of keys, a smaller result tells that some were dropped. */
function keysLost(value: object, result: unknown): string[] {
  if (typeof result !== "object" || result === null || Array.isArray(value)) return [];
  const keys = Object.keys(value);
  return keys.length > Object.keys(result).length ? keysAbsent(keys, result) : [];
}

function keysAbsent(keys: readonly string[], result: unknown): string[] {
  if (typeof result !== "object" || result === null) return [];
  return keys.filter((key) => !Object.hasOwn(result, key));
}

function withDropped(
  outcome: SchemaOutcome & { readonly ok: true },
  dropped: readonly string[],
): SchemaOutcome {
  return dropped.length === 0 ? outcome : { ok: true, value: outcome.value, dropped };
}

/** An author's callback that throws spoils the answer for one value, not the program. */
function failed(error: unknown): { readonly ok: false; readonly issues: readonly SchemaIssue[] } {
  if (SchemaError.is(error)) throw error;
  return { ok: false, issues: [describeFailure(error)] };
}

export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
