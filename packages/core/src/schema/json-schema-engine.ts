import type { KeywordDefinition, Options, ValidateFunction } from "ajv/dist/core.js";
import type { JsonSchemaFacts } from "./check-json-schema.ts";
import { isMultipleOf } from "./is-multiple-of.ts";
import type { Dialect } from "./json-schema-keywords.ts";
import { toPattern } from "./pattern.ts";
import { prepareJsonSchema } from "./prepare-json-schema.ts";
import { Recent } from "./recent.ts";
import { SchemaError } from "./schema-error.ts";
import type { JsonSchemaObject } from "./types.ts";

/** What turns schemas of one dialect into functions. */
export interface JsonSchemaEngine {
  /** `everyIssue` makes a slower function that does not stop at the first error. Throws `SchemaError`. */
  compile(schema: JsonSchemaObject, facts: JsonSchemaFacts, everyIssue: boolean): ValidateFunction;
}

const MOST_REMEMBERED = 500;
const LONGEST_REMEMBERED = 20_000;

const engines = new Map<Dialect, JsonSchemaEngine>();
const loading = new Map<Dialect, Promise<JsonSchemaEngine>>();

/** The engine of a dialect if it has been loaded. */
export function loadedEngine(dialect: Dialect): JsonSchemaEngine | undefined {
  return engines.get(dialect);
}

/**
 * Loads the engine of a dialect. Importing it takes about 30 ms, so that happens when a schema is first used
 * and not when the program starts; a server may call this ahead of its first call.
 */
export function loadEngine(dialect: Dialect = "2020-12"): Promise<JsonSchemaEngine> {
  let engine = loading.get(dialect);
  if (engine === undefined) {
    engine = importEngine(dialect);
    loading.set(dialect, engine);
  }
  return engine;
}

async function importEngine(dialect: Dialect): Promise<JsonSchemaEngine> {
  const [Ajv, { fullFormats }] = await Promise.all([
    importAjv(dialect),
    import("ajv-formats/dist/formats.js"),
  ]);
  const recent = new Recent<ValidateFunction>(MOST_REMEMBERED);
  const make = (prepared: object, facts: JsonSchemaFacts, everyIssue: boolean): ValidateFunction => {
    // One instance per schema: a shared one would remember every schema, pattern and id for ever.
    const ajv = new Ajv({
      ...commonOptions,
      formats: fullFormats,
      meta: facts.usesMetaschema,
      ownProperties: facts.usesInheritedNames,
      ignoreKeywordsWithRef: dialect === "draft-07",
      allErrors: everyIssue,
    });
    ajv.removeKeyword("multipleOf");
    ajv.addKeyword(multipleOf);
    try {
      return ajv.compile(prepared);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new SchemaError(`Invalid JSON Schema: ${reason}. Correct the schema; no value was checked.`, {
        cause: error,
      });
    }
  };
  const engine: JsonSchemaEngine = {
    compile(schema, facts, everyIssue) {
      const prepared = prepareJsonSchema(schema, dialect);
      const text = textOf(prepared);
      if (text === undefined) return make(prepared, facts, everyIssue);
      return recent.get(`${everyIssue} ${text}`, () => make(prepared, facts, everyIssue));
    },
  };
  engines.set(dialect, engine);
  return engine;
}

/** A file that is reloaded brings the schema it had before, and many tools share one: the same text, one function. */
function textOf(prepared: object): string | undefined {
  try {
    const text = JSON.stringify(prepared);
    return text.length > LONGEST_REMEMBERED ? undefined : text;
  } catch {
    return undefined;
  }
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

/** The engine's own keyword divides, which refuses 19.99 as a multiple of 0.01. */
const multipleOf: KeywordDefinition = {
  keyword: "multipleOf",
  type: "number",
  schemaType: "number",
  validate: (divisor: number, value: number) => isMultipleOf(value, divisor),
  errors: false,
};

/** The engine only ever asks a pattern for `test`. */
const regExpEngine = Object.assign((pattern: string) => toPattern(pattern) as RegExp, { code: "toPattern" });

const commonOptions: Options = {
  strict: false,
  logger: false,
  useDefaults: true,
  // `check-json-schema.ts` and the engine's own keyword checks take the place of the slow metaschemas.
  validateSchema: false,
  // The issues are written by us, from the schema and the value that an error carries.
  messages: false,
  verbose: true,
  code: { regExp: regExpEngine },
};
