import type { ValidateFunction } from "ajv/dist/core.js";
import { checkJsonSchema, type JsonSchemaFacts } from "./check-json-schema.ts";
import { type Copier, compileCopier } from "./compile-copier.ts";
import { copyPlain, countMembers } from "./copy-plain.ts";
import { describeFailure } from "./describe-failure.ts";
import { type JsonSchemaEngine, loadEngine, loadedEngine } from "./json-schema-engine.ts";
import { jsonSchemaIssues } from "./json-schema-issues.ts";
import { KeyGuide } from "./key-guide.ts";
import { type KnownKeys, knownKeys } from "./known-keys.ts";
import { areLinearPatternsLoaded, loadLinearPatterns } from "./pattern.ts";
import { plainJsonSchema } from "./plain-json-schema.ts";
import { SchemaError } from "./schema-error.ts";
import { maximumIssues, unknownKey } from "./schema-issue.ts";
import type {
  CompiledSchema,
  JsonSchemaObject,
  SchemaIssue,
  SchemaOutcome,
  ValidateOptions,
} from "./types.ts";

/** Listing every error of a larger value would cost more memory than the answer is worth. */
const largestFullyExplained = 5_000;

/** A JSON Schema. The engine is loaded and the schema compiled when it is first used. */
export class JsonSchemaValidator implements CompiledSchema {
  readonly kind = "json-schema";
  readonly #schema: JsonSchemaObject;
  readonly #facts: JsonSchemaFacts;
  #plain: JsonSchemaObject | undefined;
  #engine: JsonSchemaEngine | undefined;
  #check: ValidateFunction | undefined;
  #explain: ValidateFunction | undefined;
  #known: KnownKeys | undefined;
  #guide: KeyGuide | undefined;
  #copy: Copier = copyPlain;
  #broken: SchemaError | undefined;

  constructor(schema: JsonSchemaObject) {
    this.#schema = schema;
    this.#facts = checkJsonSchema(schema);
  }

  jsonSchema(): JsonSchemaObject {
    this.#plain ??= plainJsonSchema(this.#schema);
    return this.#plain;
  }

  validate(value: unknown, options?: ValidateOptions): SchemaOutcome | Promise<SchemaOutcome> {
    const check = this.#check;
    if (check === undefined) return this.#validateFirst(value, options);
    try {
      let copy = this.#copy(value);
      if (options?.strict) return this.#validateStrict(copy, check);
      const known = this.#known;
      let dropped: string[] | undefined;
      if (known !== undefined && typeof copy === "object" && copy !== null && !Array.isArray(copy)) {
        for (const key in copy) {
          if (!known.names.has(key) && !known.patterns.some((pattern) => pattern.test(key))) {
            if (dropped === undefined) dropped = [key];
            else dropped.push(key);
          }
        }
        if (dropped !== undefined) copy = without(copy, dropped);
      }
      if (!check(copy)) return { ok: false, issues: this.#issues(copy, check) };
      return dropped === undefined ? { ok: true, value: copy } : { ok: true, value: copy, dropped };
    } catch (error) {
      if (SchemaError.is(error)) throw error;
      return { ok: false, issues: [describeFailure(error)] };
    }
  }

  #validateFirst(value: unknown, options?: ValidateOptions): SchemaOutcome | Promise<SchemaOutcome> {
    if (this.#broken !== undefined) throw this.#broken;
    const engine = loadedEngine(this.#facts.dialect);
    if (engine === undefined)
      return loadEngine(this.#facts.dialect).then(() => this.validate(value, options));
    if (this.#facts.usesRiskyPatterns && !areLinearPatternsLoaded())
      return loadLinearPatterns().then(() => this.validate(value, options));
    try {
      this.#check = engine.compile(this.#schema, this.#facts, false);
    } catch (error) {
      if (SchemaError.is(error)) this.#broken = error;
      throw error;
    }
    this.#engine = engine;
    this.#known = knownKeys(this.#schema);
    this.#copy = compileCopier(this.#schema);
    return this.validate(value, options);
  }

  #validateStrict(copy: unknown, check: ValidateFunction): SchemaOutcome {
    this.#guide ??= new KeyGuide(this.#schema);
    const issues = this.#guide
      .find(copy)
      .unlisted.map(({ parent, key, value, known }) => unknownKey(parent, key, value, known));
    if (!check(copy)) issues.push(...this.#issues(copy, check));
    if (issues.length === 0) return { ok: true, value: copy };
    return { ok: false, issues: issues.slice(0, maximumIssues) };
  }

  #issues(copy: unknown, check: ValidateFunction): SchemaIssue[] {
    const firstErrors = check.errors ?? [];
    if (countMembers(copy, largestFullyExplained) >= largestFullyExplained) {
      return jsonSchemaIssues(firstErrors, copy, this.#schema);
    }
    this.#explain ??= this.#engine!.compile(this.#schema, this.#facts, true);
    this.#explain(copy);
    return jsonSchemaIssues(this.#explain.errors ?? firstErrors, copy, this.#schema);
  }
}

function without(copy: object, unknown: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(copy).filter(([key]) => !unknown.includes(key)));
}
