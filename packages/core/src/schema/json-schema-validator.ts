import type { KeywordDefinition, Options, ValidateFunction } from "ajv/dist/core.js";
import { checkJsonSchema, type JsonSchemaFacts } from "./check-json-schema.ts";
import { type Copier, compileCopier, copyPlain, countMembers, wasLarge } from "./copy.ts";
import { hashValue } from "./hash.ts";
import { describeFailure, maximumIssues, type SchemaIssue, unknownKey } from "./issue.ts";
import { safeJson } from "./json.ts";
import { jsonSchemaIssues } from "./json-schema-issues.ts";
import { type Dialect, plainJsonSchema, prepareJsonSchema } from "./keywords.ts";
import { isOpenThroughout, KeyGuide, type KnownKeys, knownKeys, unknownKeys } from "./known-keys.ts";
import { areLinearPatternsLoaded, loadLinearPatterns, toPattern } from "./pattern.ts";
import { type CompiledSchema, SchemaError, type SchemaOutcome, type ValidateOptions } from "./types.ts";
import { isRecord, type JsonSchemaObject, reasonOf } from "./visit.ts";

/** In a value with this many members or more, only the first errors are reported, to save memory. */
const largestFullyExplained = 5_000;

/**
 * How many subschemas may be visited to check a value, and to collect all of its errors. The limits apply to
 * schemas with references, which could multiply the visits endlessly.
 */
const MOST_STEPS = 100_000;
const MOST_STEPS_TO_EXPLAIN = 20_000;

/**
 * Validates values by a JSON Schema. Loads the validation engine (Ajv) and compiles the schema on first use.
 */
export class JsonSchemaValidator implements CompiledSchema {
  readonly kind = "json-schema";
  readonly #schema: JsonSchemaObject;
  readonly #facts: JsonSchemaFacts;
  #plain: JsonSchemaObject | undefined;
  #compile: Compile | undefined;
  #check: ValidateFunction | undefined;
  #explain: ValidateFunction | undefined;
  #copy: Copier | undefined;
  #known: KnownKeys | undefined;
  #guide: KeyGuide | undefined;
  /**
   * True when the schema has a rule for other keys wherever it lists properties, so that a `KeyGuide` would
   * find nothing.
   */
  #needsNoGuide: boolean | undefined;
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
      const listed = this.#copy?.(value);
      const copy = listed ?? copyPlain(value);
      const isLarge = wasLarge();
      if (options?.strict) return this.#validateStrict(copy, check, isLarge);
      let dropped: string[] | undefined;
      if (listed === undefined && this.#known !== undefined && isRecord(copy)) {
        dropped = unknownKeys(copy, this.#known);
        for (const key of dropped ?? []) delete copy[key];
      }
      if (this.#facts.usesReferences) beginCheck(copy, MOST_STEPS);
      if (!check(copy)) return { ok: false, issues: this.#issues(copy, check) };
      return isLarge || dropped !== undefined ? accepted(copy, isLarge, dropped) : { ok: true, value: copy };
    } catch (error) {
      if (SchemaError.is(error)) throw error;
      return { ok: false, issues: [describeFailure(error)] };
    }
  }

  #validateFirst(value: unknown, options?: ValidateOptions): SchemaOutcome | Promise<SchemaOutcome> {
    if (this.#broken !== undefined) throw this.#broken;
    const compile = engines.get(this.#facts.dialect);
    if (compile === undefined)
      return loadEngine(this.#facts.dialect).then(() => this.validate(value, options));
    if (this.#facts.usesRiskyPatterns && !areLinearPatternsLoaded())
      return loadLinearPatterns().then(() => this.validate(value, options));
    try {
      this.#check = compile(this.#schema, this.#facts, false);
    } catch (error) {
      if (SchemaError.is(error)) this.#broken = error;
      throw error;
    }
    this.#compile = compile;
    this.#known = knownKeys(this.#schema);
    this.#copy = compileCopier(this.#schema);
    return this.validate(value, options);
  }

  #validateStrict(copy: unknown, check: ValidateFunction, isLarge: boolean): SchemaOutcome {
    this.#needsNoGuide ??= !this.#facts.usesReferences && isOpenThroughout(this.#schema);
    // Without references there are no steps to be counted.
    if (this.#needsNoGuide && check(copy)) return accepted(copy, isLarge);
    this.#guide ??= new KeyGuide(this.#schema);
    const issues = this.#guide
      .find(copy)
      .unlisted.map(({ parent, key, value, known }) => unknownKey(parent, key, value, known));
    if (this.#facts.usesReferences) beginCheck(copy, MOST_STEPS);
    if (!check(copy)) issues.push(...this.#issues(copy, check));
    if (issues.length === 0) return accepted(copy, isLarge);
    return { ok: false, issues: issues.slice(0, maximumIssues) };
  }

  #issues(copy: unknown, check: ValidateFunction): SchemaIssue[] {
    const firstErrors = check.errors ?? [];
    if (countMembers(copy, largestFullyExplained) >= largestFullyExplained) {
      return jsonSchemaIssues(firstErrors, copy, this.#schema);
    }
    this.#explain ??= this.#compile!(this.#schema, this.#facts, true);
    // If collecting all errors takes too many steps, the first errors are reported.
    if (this.#facts.usesReferences) beginCheck(copy, MOST_STEPS_TO_EXPLAIN);
    try {
      this.#explain(copy);
    } catch (error) {
      if (error instanceof TooManySteps) return jsonSchemaIssues(firstErrors, copy, this.#schema);
      throw error;
    }
    return jsonSchemaIssues(this.#explain.errors ?? firstErrors, copy, this.#schema);
  }
}

function accepted(value: unknown, isLarge: boolean, dropped?: string[]): SchemaOutcome {
  return { ok: true, value, ...(dropped && { dropped }), ...(isLarge && { isLarge }) };
}

/**
 * Makes the function that checks values against a schema; with `everyIssue` a slower one that goes on after
 * an error. Throws `SchemaError`.
 */
type Compile = (schema: JsonSchemaObject, facts: JsonSchemaFacts, everyIssue: boolean) => ValidateFunction;

const MOST_REMEMBERED = 500;
const LONGEST_REMEMBERED = 20_000;
/** Characters. A longer text does not count as a URL. */
const LONGEST_URL = 4_000;

/** `engines` has the loaded engines; `loading` also has those that are still being loaded. */
const engines = new Map<Dialect, Compile>();
const loading = new Map<Dialect, Promise<Compile>>();

/**
 * Loads the engine of a dialect. Importing it takes about 30 ms, so that happens when a schema is first used
 * and not when the program starts; a server may call this ahead of its first call.
 */
export function loadEngine(dialect: Dialect = "2020-12"): Promise<Compile> {
  let engine = loading.get(dialect);
  if (engine === undefined) {
    engine = importEngine(dialect);
    loading.set(dialect, engine);
  }
  return engine;
}

async function importEngine(dialect: Dialect): Promise<Compile> {
  const [Ajv, { fullFormats }] = await Promise.all([
    importAjv(dialect),
    import("ajv-formats/dist/formats.js"),
  ]);
  const { url } = fullFormats;
  // The regular expression of `url` is the only format whose time is not linear in the text, so the text is
  // limited.
  const isUrl = (text: string) => text.length <= LONGEST_URL && url instanceof RegExp && url.test(text);
  const formats = { ...fullFormats, url: isUrl };
  const make = (
    prepared: object,
    facts: JsonSchemaFacts,
    everyIssue: boolean,
    text: string,
  ): ValidateFunction => {
    // One instance per schema: a shared one would keep every schema, pattern and id forever.
    const ajv = new Ajv({
      ...commonOptions,
      formats,
      meta: facts.usesMetaschema,
      ownProperties: facts.usesInheritedNames,
      ignoreKeywordsWithRef: dialect === "draft-07",
      allErrors: everyIssue,
      // To see whether a text is empty, the engine need not count its characters (10 ns for each text).
      unicode: countsCharacters.test(text),
    });
    for (const keyword of [multipleOf, uniqueItems]) {
      ajv.removeKeyword(keyword.keyword);
      ajv.addKeyword(keyword);
    }
    if (facts.usesReferences) ajv.addKeyword(step);
    try {
      return ajv.compile(prepared);
    } catch (error) {
      const reason = reasonOf(error);
      throw new SchemaError(`Invalid JSON Schema: ${reason}. Correct the schema; no value was checked.`, {
        cause: error,
      });
    }
  };
  // Compiled functions by the text of their schema, since reloaded files and similar tools have equal
  // schemas. The function that was used last comes last.
  const recent = new Map<string, ValidateFunction>();
  const compile: Compile = (schema, facts, everyIssue) => {
    const prepared = prepareJsonSchema(schema, dialect, facts.usesReferences ? STEP : undefined);
    const text = `${everyIssue} ${safeJson(prepared).text}`;
    const check = recent.get(text) ?? make(prepared, facts, everyIssue, text);
    recent.delete(text);
    if (text.length <= LONGEST_REMEMBERED) recent.set(text, check);
    if (recent.size > MOST_REMEMBERED) recent.delete(recent.keys().next().value!);
    return check;
  };
  engines.set(dialect, compile);
  return compile;
}

type AjvClass = new (
  options: Options,
) => {
  compile(schema: object): ValidateFunction;
  removeKeyword(name: string): unknown;
  addKeyword(definition: KeywordDefinition): unknown;
};

async function importAjv(dialect: Dialect): Promise<AjvClass> {
  if (dialect === "draft-07") return (await import("ajv/dist/ajv.js")).Ajv;
  if (dialect === "2019-09") return (await import("ajv/dist/2019.js")).Ajv2019;
  return (await import("ajv/dist/2020.js")).Ajv2020;
}

type NamedKeyword = KeywordDefinition & { readonly keyword: string };

/** The engine's own keyword divides, and refuses 19.99 as a multiple of 0.01. */
const multipleOf: NamedKeyword = {
  keyword: "multipleOf",
  type: "number",
  schemaType: "number",
  validate: (divisor: number, value: number) => isMultipleOf(value, divisor),
  errors: false,
};

/** The engine's own keyword compares every item with every other. */
const uniqueItems: NamedKeyword = {
  keyword: "uniqueItems",
  type: "array",
  schemaType: "boolean",
  validate: areUnique,
  errors: true,
};

function areUnique(isWanted: boolean, items: readonly unknown[]): boolean {
  const places = new Map<unknown, number>();
  for (const [i, item] of isWanted ? items.entries() : []) {
    const key = typeof item === "object" && item !== null ? `\u0000${hashValue(item)}` : item;
    const j = places.get(key);
    places.set(key, i);
    if (j === undefined) continue;
    areUnique.errors = [{ keyword: "uniqueItems", params: { i, j } }];
    return false;
  }
  return true;
}
/** After a keyword function returns false, the engine (Ajv) reads the errors from this property. */
areUnique.errors = [] as { keyword: string; params: { i: number; j: number } }[];

/** A keyword that is added to every part of a schema with references, to count the visited subschemas. */
const STEP = "toolrack:step";
const step: KeywordDefinition = {
  keyword: STEP,
  schemaType: "boolean",
  validate: () => {
    if (--stepsLeft < 0) extend();
    return true;
  },
  errors: false,
};

/**
 * Thrown when a check visits too many subschemas: references can multiply the visits without end, even for a
 * small value.
 */
class TooManySteps extends Error {
  constructor() {
    super(
      "the schema's references lead to more checks than can be made. Make the value smaller, or the schema simpler.",
    );
  }
}

/** How many more steps each member of the value allows. */
const STEPS_FOR_MEMBER = 100;
let stepsLeft = 0;
let checked: unknown;

/**
 * Must be called before a value is checked against a schema with references. Allows `steps` steps; when they
 * are used up, `extend` allows more for a large value.
 */
function beginCheck(value: unknown, steps: number): void {
  stepsLeft = steps;
  checked = value;
}

function extend(): void {
  stepsLeft = countMembers(checked, Number.POSITIVE_INFINITY) * STEPS_FOR_MEMBER;
  checked = undefined;
  if (stepsLeft <= 0) throw new TooManySteps();
}

/** The engine only calls `test`. */
const regExpEngine = Object.assign((pattern: string) => toPattern(pattern) as RegExp, { code: "toPattern" });

/** In the JSON of a schema: a limit on the length of texts, other than that they are not empty. */
const countsCharacters = /"(?:maxLength":|minLength":(?![01][,}]))/;

const commonOptions: Options = {
  strict: false,
  logger: false,
  useDefaults: true,
  // `check-json-schema.ts` checks the schema instead, because checking against metaschemas is slow.
  validateSchema: false,
  // We write the issues ourselves, from the schema and value of each error.
  messages: false,
  verbose: true,
  code: { regExp: regExpEngine },
};

/**
 * Whether a number is a multiple of another, both taken as decimals: 19.99 is a multiple of 0.01, although binary
 * division says otherwise. Nothing is a multiple of 0.
 */
export function isMultipleOf(value: number, divisor: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0;
  if (!Number.isFinite(value) || divisor === 0) return false;
  const [left, right] = [decimalOf(value), decimalOf(divisor)];
  const unit = Math.min(left.exponent, right.exponent);
  const scaled = ({ digits, exponent }: typeof left) => digits * 10n ** BigInt(exponent - unit);
  return scaled(left) % scaled(right) === 0n;
}

/** The number as `digits` times ten to the power of `exponent`. */
function decimalOf(number: number): { readonly digits: bigint; readonly exponent: number } {
  const [mantissa = "", exponent = "0"] = String(Math.abs(number)).split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
}
