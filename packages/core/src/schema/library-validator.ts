import { withoutPrototypeKeys } from "./copy-plain.ts";
import { describeFailure } from "./describe-failure.ts";
import { memberAt } from "./member-at.ts";
import { SchemaError } from "./schema-error.ts";
import { maximumIssues, unknownKey } from "./schema-issue.ts";
import type {
  CompiledSchema,
  JsonSchemaObject,
  SchemaIssue,
  SchemaKind,
  SchemaOutcome,
  ValidateOptions,
} from "./types.ts";

/** What one schema of a library offers. Each library has a file that makes these. */
export interface LibrarySchema {
  readonly kind: SchemaKind;
  /** Parses with the library's own code. May throw what an author's callback throws. */
  parse(value: unknown): SchemaOutcome | Promise<SchemaOutcome>;
  /** The top-level keys, when the schema lists them and says nothing about others. Asked once. */
  knownKeys(): readonly string[] | undefined;
  /** Makes the JSON Schema of the input side. Asked once. Throws `SchemaError`. */
  jsonSchema(): JsonSchemaObject;
}

/** A schema of Zod or of any other library, behind the interface all schemas share. */
export class LibraryValidator implements CompiledSchema {
  readonly kind: SchemaKind;
  readonly #schema: LibrarySchema;
  #known: ReadonlySet<string> | undefined;
  #askedForKeys = false;
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
      const clean = withoutPrototypeKeys(value);
      const outcome = this.#schema.parse(clean);
      if (!isPromise(outcome)) return this.#finish(outcome, clean, options);
      return outcome.then((settled) => this.#finish(settled, clean, options)).catch(failed);
    } catch (error) {
      return failed(error);
    }
  }

  #finish(outcome: SchemaOutcome, value: unknown, options: ValidateOptions | undefined): SchemaOutcome {
    if (typeof value !== "object" || value === null) return outcome;
    const known = this.#knownKeys();
    if (known === undefined)
      return outcome.ok ? withDropped(outcome, keysLost(value, outcome.value)) : outcome;
    const unknown = keysBeyond(value, known);
    if (unknown === undefined) return outcome;
    if (!options?.strict)
      return outcome.ok ? withDropped(outcome, keysAbsent(unknown, outcome.value)) : outcome;
    const issues = unknown.map((key) => unknownKey([], key, memberAt(value, [key]), known));
    if (!outcome.ok) issues.push(...outcome.issues);
    return { ok: false, issues: issues.slice(0, maximumIssues) };
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
