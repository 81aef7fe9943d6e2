import { type Copier, compileLooker, editCopy, wasLarge, withoutPrototypeKeys } from "./copy.ts";
import { hashValue } from "./hash.ts";
import { describeFailure, maximumIssues, mismatch, type SchemaIssue, unknownKey } from "./issue.ts";
import { type FoundKey, KeyGuide, type KnownKeys, knownKeys, lostKeys, unknownKeys } from "./known-keys.ts";
import {
  type CompiledSchema,
  SchemaError,
  type SchemaKind,
  type SchemaOutcome,
  type ValidateOptions,
} from "./types.ts";
import { type JsonSchemaObject, memberAt, reasonOf } from "./visit.ts";

/** What `LibraryValidator` needs of a schema of a library such as Zod. */
export interface LibrarySchema {
  readonly kind: SchemaKind;
  /** Parses with the library's own code. May throw what an author's callback throws. */
  parse(value: unknown, options?: ValidateOptions): SchemaOutcome | Promise<SchemaOutcome>;
  /** A JSON Schema of the keys that parsing accepts at every depth, if there is one. Called once. */
  keySchema(): JsonSchemaObject | undefined;
  /** The JSON Schema of the input. Called once. Throws `SchemaError`. */
  jsonSchema(): JsonSchemaObject;
}

/** The keys that parsing accepts. All are undefined when the schema does not list them. */
interface ListedKeys {
  readonly known: KnownKeys | undefined;
  readonly guide: KeyGuide | undefined;
  /** Returns undefined for a value that has others. */
  readonly areAll: Copier | undefined;
}

/** A schema of Zod or of any other library, behind the interface all schemas share. */
export class LibraryValidator implements CompiledSchema {
  readonly kind: SchemaKind;
  readonly #schema: LibrarySchema;
  #keys: ListedKeys | undefined;
  #json: JsonSchemaObject | undefined;

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
      const { areAll, known } = this.#listedKeys();
      const areListed = areAll?.(value) !== undefined;
      const clean = areListed ? value : withoutPrototypeKeys(value);
      const isLarge = wasLarge();
      const parsed = this.#schema.parse(clean, options);
      let outcome = parsed;
      if (isPromise(parsed))
        outcome = parsed.then((settled) => this.#finish(settled, clean, options)).catch(failed);
      // Of a value with no other keys than the listed ones, parsing drops none.
      else if (!areListed || known === undefined || options?.strict)
        outcome = this.#finish(parsed, clean, options);
      if (!isLarge) return outcome;
      return isPromise(outcome) ? outcome.then(markLarge) : markLarge(outcome);
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
    if (!outcome.ok) return outcome;
    const dropped = this.#droppedKeys(value, outcome.value);
    return dropped === undefined || dropped.length === 0 ? outcome : { ...outcome, dropped };
  }

  #finishStrict(outcome: SchemaOutcome, value: object): SchemaOutcome | Promise<SchemaOutcome> {
    const found = this.#listedKeys().guide?.find(value);
    if (!outcome.ok) return refusal(found?.unlisted ?? [], outcome.issues);
    if (found !== undefined && found.unlisted.length > 0) return refusal(found.unlisted, []);
    const suspects = found === undefined ? lostKeys(value, outcome.value) : found.doubtful;
    const lost = suspects.filter(({ parent, key }) => {
      const container = memberAt(outcome.value, parent);
      return typeof container === "object" && container !== null && !Object.hasOwn(container, key);
    });
    return lost.length === 0 ? outcome : this.#refuseUnused(outcome, value, lost);
  }

  /**
   * Refuses keys that are missing in the result, unless a transform read them. To find out, parses the value once more
   * without them.
   */
  #refuseUnused(
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
      return outcome; // A callback that throws without the keys needs them.
    }
  }

  /**
   * The top-level keys that parsing dropped. If the schema does not list its keys, looks for them only when
   * the result has fewer keys than the value.
   */
  #droppedKeys(value: object, result: unknown): string[] | undefined {
    if (typeof result !== "object" || result === null || Array.isArray(value)) return undefined;
    const { known } = this.#listedKeys();
    const suspects = known === undefined ? Object.keys(value) : unknownKeys(value, known);
    if (known === undefined && suspects!.length <= Object.keys(result).length) return undefined;
    return suspects?.filter((key) => !Object.hasOwn(result, key));
  }

  #listedKeys() {
    if (this.#keys === undefined) {
      const listing = this.#schema.keySchema();
      this.#keys = {
        known: listing && knownKeys(listing),
        guide: listing && new KeyGuide(listing),
        areAll: listing && compileLooker(listing),
      };
    }
    return this.#keys;
  }
}

function refusal(unknown: readonly FoundKey[], others: readonly SchemaIssue[]): SchemaOutcome {
  const issues = unknown.map(({ parent, key, value, known }) => unknownKey(parent, key, value, known));
  return { ok: false, issues: [...issues, ...others].slice(0, maximumIssues) };
}

function markLarge(outcome: SchemaOutcome): SchemaOutcome {
  return outcome.ok ? { ...outcome, isLarge: true } : outcome;
}

/** An author's callback that throws makes the value invalid. */
function failed(error: unknown): { readonly ok: false; readonly issues: readonly SchemaIssue[] } {
  if (SchemaError.is(error)) throw error;
  return { ok: false, issues: [describeFailure(error)] };
}

export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

/** Makes a converter's JSON Schema plain JSON, without `$schema`. */
export function finishLibrarySchema(made: Record<string, unknown>): JsonSchemaObject {
  const { $schema: _, ...schema }: Record<string, unknown> = toJson(made);
  if (schema.type !== undefined || schema.properties === undefined) return schema;
  return { type: "object", ...schema };
}

function toJson(made: Record<string, unknown>): Record<string, unknown> {
  try {
    return JSON.parse(
      JSON.stringify(made, (_key, value) => (typeof value === "bigint" ? Number(value) : value)),
    );
  } catch (error) {
    throw new SchemaError(
      "The schema's JSON Schema holds a value that JSON cannot express, such as a circular default. Remove that value.",
      { cause: error },
    );
  }
}

/** The used part of the Standard Schema contract. */
export interface StandardSchema {
  readonly "~standard": {
    readonly vendor?: string;
    validate(value: unknown): StandardResult | Promise<StandardResult>;
    readonly jsonSchema?: { input(options: { readonly target: string }): Record<string, unknown> };
  };
}

interface StandardResult {
  readonly value?: unknown;
  readonly issues?: readonly StandardIssue[];
}

interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[];
  /** Set by Valibot and ArkType, in words. */
  readonly expected?: unknown;
}

/** Some libraries make their schemas functions. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  if ((typeof value !== "object" || value === null) && typeof value !== "function") return false;
  const standard: unknown = "~standard" in value ? value["~standard"] : undefined;
  return typeof standard === "object" && standard !== null && "validate" in standard;
}

/** A schema of any library that keeps the Standard Schema contract. */
export function standardSchema(schema: StandardSchema): LibrarySchema {
  return {
    kind: "standard",
    parse(value) {
      const result = schema["~standard"].validate(value);
      return isPromise(result)
        ? result.then((settled) => toOutcome(settled, value))
        : toOutcome(result, value);
    },
    keySchema: () => listingOf(schema),
    jsonSchema: () => standardJsonSchema(schema),
  };
}

function toOutcome(result: StandardResult, value: unknown): SchemaOutcome {
  if (result.issues === undefined) return { ok: true, value: result.value };
  const issues = result.issues.slice(0, maximumIssues).map((issue) => {
    const path = (issue.path ?? []).map((step) => (typeof step === "object" ? step.key : step));
    const expected = typeof issue.expected === "string" ? issue.expected : issue.message;
    return mismatch(path, expected, memberAt(value, path), issue.message);
  });
  return { ok: false, issues };
}

/** The JSON Schema is the only place where a Standard Schema lists its keys. */
function listingOf(schema: StandardSchema): JsonSchemaObject | undefined {
  try {
    return standardJsonSchema(schema);
  } catch {
    // Without a JSON Schema the keys are unknown.
    return undefined;
  }
}

function standardJsonSchema(schema: StandardSchema): JsonSchemaObject {
  const { jsonSchema, vendor = "this library" } = schema["~standard"];
  if (jsonSchema === undefined) {
    throw new SchemaError(
      `A schema of ${vendor} cannot be shown to a model: it has no JSON Schema form (\`~standard.jsonSchema\`). ` +
        "Wrap it with the library's JSON Schema converter, or write the parameters as JSON Schema or Zod.",
    );
  }
  try {
    return finishLibrarySchema(jsonSchema.input({ target: "draft-2020-12" }));
  } catch (error) {
    if (SchemaError.is(error)) throw error;
    const reason = reasonOf(error);
    throw new SchemaError(
      `The schema of ${vendor} has no JSON Schema: ${reason}. Describe that part in another way.`,
      { cause: error },
    );
  }
}
