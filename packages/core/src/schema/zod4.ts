import { isPromise, type LibrarySchema } from "./compile-schema.ts";
import { writeStringFormat } from "./json-schema-validator.ts";
import { convertRefused, convertZod4, finishLibrarySchema } from "./library-json-schema.ts";
import { SchemaError, type SchemaOutcome } from "./types.ts";
import type { JsonSchemaObject } from "./visit.ts";
import {
  compileZod,
  isZod4,
  loadZodCompiler,
  type Zod4Definition,
  type Zod4Schema,
  type ZodIssue,
  type ZodResult,
  zodIssues,
} from "./zod.ts";

/** Compiling pays for itself once a schema is used again and again. */
const parsesBeforeCompiling = 32;

/** A Zod 4 schema, classic or mini. */
export function zod4Schema(schema: Zod4Schema): LibrarySchema {
  let mode: "new" | "undecided" | "sync" | "async" = "new";
  let parser = schema;
  let parses = 0;

  return {
    kind: "zod4",
    parse: (value) => parse(value, value),
    knownKeys: () => knownKeysOf(schema, 0),
    keySchema: () => convertZod4(schema, "keys"),
    jsonSchema: () => zod4JsonSchema(schema),
  };

  /** `came` is what the caller sent, in the words of which issues speak; `value` may have been converted. */
  function parse(value: unknown, came: unknown): SchemaOutcome | Promise<SchemaOutcome> {
    if (mode === "new") mode = hasAsyncFunction(schema) ? "async" : "undecided";
    if (mode === "async") return parseAsync(value, came);
    if (mode === "undecided") return decide(value, came);
    if (++parses === parsesBeforeCompiling) considerCompiling();
    try {
      return toOutcome(parseSync(parser, value), value, came);
    } catch (error) {
      if (!isAsyncError(error)) throw error;
      mode = "async";
      return parseAsync(value, came);
    }
  }

  /**
   * Runs in the mode that allows promises, which a schema without them answers at once. Trying the synchronous
   * mode instead would leave a promise of the author's unwatched, and its rejection would end the process. The
   * answer counts once a value has passed, since a value that fails early does not reach every check.
   */
  function decide(value: unknown, came: unknown): SchemaOutcome | Promise<SchemaOutcome> {
    const result = schema._zod.run({ value, issues: [] }, { async: true });
    if (isPromise(result)) {
      mode = "async";
      return result.then(({ value: parsed, issues }) =>
        issues.length > 0 ? parseAsync(value, came) : { ok: true, value: parsed },
      );
    }
    if (result.issues.length > 0) return toOutcome(parseSync(schema, value), value, came);
    mode = "sync";
    return { ok: true, value: result.value };
  }

  async function parseAsync(value: unknown, came: unknown): Promise<SchemaOutcome> {
    if (schema.safeParseAsync !== undefined)
      return toOutcome(await schema.safeParseAsync(value), value, came);
    return toOutcome(fromStandard(await schema["~standard"].validate(value)), value, came);
  }

  function toOutcome(
    result: ZodResult,
    value: unknown,
    came: unknown,
  ): SchemaOutcome | Promise<SchemaOutcome> {
    if (result.success) return { ok: true, value: result.data };
    const issues = result.error?.issues ?? [];
    const converted = convertRefused(issues, value);
    if (converted !== undefined) return parse(converted, came);
    return { ok: false, issues: zodIssues(issues, came, objectKeys(schema)) };
  }

  function considerCompiling(): void {
    loadZodCompiler().then((compiler) => {
      parser = compileZod(compiler, schema);
    });
  }
}

function parseSync(schema: Zod4Schema, value: unknown): ZodResult {
  if (schema.safeParse !== undefined) return schema.safeParse(value);
  return fromStandard(schema["~standard"].validate(value));
}

/** Schemas built from Zod's core alone have no `safeParse`. */
function fromStandard(result: unknown): ZodResult {
  const { issues, value } = result as { issues?: readonly ZodIssue[]; value?: unknown }; // The Standard Schema contract.
  return issues === undefined ? { success: true, data: value } : { success: false, error: { issues } };
}

export function isAsyncError(error: unknown): boolean {
  return error instanceof Error && error.message.includes("synchronous parse");
}

function knownKeysOf(schema: unknown, depth: number): readonly string[] | undefined {
  if (!isZod4(schema) || depth > 20) return undefined;
  const definition = schema._zod.def;
  switch (definition.type) {
    case "object":
      return definition.catchall === undefined ? objectKeys(schema) : undefined;
    case "optional":
    case "nonoptional":
    case "nullable":
    case "default":
    case "prefault":
    case "readonly":
    case "catch":
      return knownKeysOf(definition.innerType, depth + 1);
    case "pipe":
      return knownKeysOf(definition.in, depth + 1);
    case "lazy":
      return typeof definition.getter === "function"
        ? knownKeysOf(definition.getter(), depth + 1)
        : undefined;
    case "intersection": {
      const left = knownKeysOf(definition.left, depth + 1);
      const right = knownKeysOf(definition.right, depth + 1);
      return left && right && [...left, ...right];
    }
    default:
      return undefined;
  }
}

function objectKeys(schema: Zod4Schema): readonly string[] | undefined {
  const shape = schema._zod.def.shape;
  return typeof shape === "object" && shape !== null ? Object.keys(shape) : undefined;
}

/** Whether an `async` function is in sight. Others that return promises are noticed when they run. */
function hasAsyncFunction(root: Zod4Schema): boolean {
  const seen = new Set<unknown>();
  const waiting: unknown[] = [root];
  while (waiting.length > 0) {
    const part = waiting.pop();
    if (typeof part === "function" && Object.prototype.toString.call(part) === "[object AsyncFunction]")
      return true;
    if (typeof part !== "object" || part === null || seen.has(part)) continue;
    seen.add(part);
    if ("_zod" in part) waiting.push(...definitionParts(part));
    else if (Array.isArray(part) || Object.getPrototypeOf(part) === Object.prototype)
      waiting.push(...Object.values(part));
  }
  return false;
}

function definitionParts(part: { readonly _zod: unknown }): unknown[] {
  const internals = part._zod;
  if (typeof internals !== "object" || internals === null || !("def" in internals)) return [];
  const definition = internals.def;
  if (typeof definition !== "object" || definition === null) return [];
  return Object.values(definition);
}

type Json = Record<string, unknown>;

/** The checks of a Zod 4 string, number, array or set as JSON Schema keywords. */
export function zod4Checks(definition: Zod4Definition): Json {
  const json: Json = {};
  const isArray = definition.type === "array" || definition.type === "set";
  const attached: readonly unknown[] = Array.isArray(definition.checks) ? definition.checks : [];
  // A format such as z.email() is its own check; others are attached.
  for (const check of [definition, ...attached.map(definitionOf)]) writeCheck(json, check, isArray);
  return json;
}

function writeCheck(json: Json, check: Json, isArray: boolean): void {
  switch (check.check) {
    case "min_length":
    case "min_size":
      json[isArray ? "minItems" : "minLength"] = check.minimum;
      return;
    case "max_length":
    case "max_size":
      json[isArray ? "maxItems" : "maxLength"] = check.maximum;
      return;
    case "length_equals":
      json[isArray ? "minItems" : "minLength"] = check.length;
      json[isArray ? "maxItems" : "maxLength"] = check.length;
      return;
    case "greater_than":
      json[check.inclusive ? "minimum" : "exclusiveMinimum"] = check.value;
      return;
    case "less_than":
      json[check.inclusive ? "maximum" : "exclusiveMaximum"] = check.value;
      return;
    case "multiple_of":
      json.multipleOf = check.value;
      return;
    case "number_format":
      if (String(check.format).includes("int")) json.type = "integer";
      return;
    case "string_format":
      writeStringFormat(json, String(check.format), check.pattern);
  }
}

/** Checks have a definition in the same place as schemas. */
function definitionOf(check: unknown): Json {
  if (isZod4(check)) return check._zod.def;
  const internals = typeof check === "object" && check !== null && "_zod" in check ? check._zod : undefined;
  return typeof internals === "object" && internals !== null && "def" in internals
    ? (internals.def as Json)
    : {}; // A record by Zod's contract.
}

/**
 * The JSON Schema of what a Zod 4 schema takes in, made by the schema itself where it can. Schemas of zod/mini
 * and of Zod before 4.2 cannot; those are read by `convertZod4`.
 */
function zod4JsonSchema(schema: Zod4Schema): JsonSchemaObject {
  try {
    return finishLibrarySchema(madeByZod(schema) ?? convertZod4(schema));
  } catch (error) {
    if (SchemaError.is(error)) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new SchemaError(
      `The Zod schema has no JSON Schema: ${reason}. Describe the part it names in another way.`,
      {
        cause: error,
      },
    );
  }
}

function madeByZod(schema: Zod4Schema): Record<string, unknown> | undefined {
  try {
    const converter = schema["~standard"].jsonSchema;
    if (converter !== undefined) return converter.input({ target: "draft-2020-12", libraryOptions });
    return schema.toJSONSchema?.({ io: "input", target: "draft-2020-12", ...libraryOptions });
  } catch {
    // For instance a classic object with a field of zod/mini, which Zod itself cannot convert.
    return undefined;
  }
}

const libraryOptions = {
  unrepresentable: "any",
  /** The JSON forms that `convertRefused` takes; a model has to be told them. */
  override({ zodSchema, jsonSchema }: { zodSchema: Zod4Schema; jsonSchema: Record<string, unknown> }): void {
    const type = zodSchema._zod.def.type;
    if (type === "date") Object.assign(jsonSchema, { type: "string", format: "date-time" });
    if (type === "bigint") jsonSchema.type = "integer";
    if (type === "set" || type === "map") jsonSchema.type = "array";
  },
};
