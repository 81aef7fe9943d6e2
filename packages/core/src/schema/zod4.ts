import { convertRefused } from "./convert-refused.ts";
import { convertZod4 } from "./convert-zod4.ts";
import type { LibrarySchema } from "./library-validator.ts";
import { isPromise } from "./library-validator.ts";
import type { SchemaOutcome } from "./types.ts";
import { compileZod, loadZodCompiler } from "./zod-compiler.ts";
import { zodIssues } from "./zod-issues.ts";
import { isZod4, type Zod4Schema, type ZodIssue, type ZodResult } from "./zod-types.ts";
import { zod4JsonSchema } from "./zod4-json-schema.ts";

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
