import { sameJson } from "./json.ts";
import { isPromise, type LibrarySchema } from "./library-validator.ts";
import type { SchemaOutcome } from "./types.ts";
import { isRecord, keysOf, memberAt, valuesOf } from "./visit.ts";
import {
  called,
  definitionOf,
  isZod3,
  isZod4,
  type Zod4Schema,
  type ZodResult,
  type ZodSchema,
} from "./zod-definition.ts";
import { convertRefused, type ZodIssue, zodIssues } from "./zod-issues.ts";
import { zodJsonSchema, zodKeySchema } from "./zod-json-schema.ts";

/**
 * After this many parses a schema is compiled: compiling is worth its time only for schemas that are used
 * often.
 */
const parsesBeforeCompiling = 32;

/** A schema of Zod 3, or of Zod 4 in its classic or mini form. */
export function zodSchema(schema: ZodSchema): LibrarySchema {
  let mode: "new" | "undecided" | "sync" | "async" = "new";
  let parser = schema;
  let parses = 0;

  return {
    kind: isZod4(schema) ? "zod4" : "zod3",
    parse: (value) => parse(value, value),
    keySchema: () => zodKeySchema(schema),
    jsonSchema: () => zodJsonSchema(schema),
  };

  /** `came` is the caller's value, for issues; `value` may have been converted. */
  function parse(value: unknown, came: unknown): SchemaOutcome | Promise<SchemaOutcome> {
    if (mode === "new") mode = hasCallbacks(schema) ? "async" : isZod4(schema) ? "undecided" : "sync";
    if (mode === "async") return parseAsync(value, came);
    if (mode === "undecided" && isZod4(schema)) return decide(schema, value, came);
    if (++parses === parsesBeforeCompiling && isZod4(schema)) considerCompiling(schema);
    try {
      return toOutcome(parseSync(parser, value), value, came);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes("synchronous parse")) throw error;
      mode = "async";
      return parseAsync(value, came);
    }
  }

  /**
   * Parses in Zod's asynchronous mode, to learn whether the schema is asynchronous; a synchronous schema
   * still returns at once. Zod's synchronous mode would leave an author's promise unobserved, and its
   * rejection would end the process. Sets `mode` to `sync` only after a value has passed, since a failing
   * value does not reach every check.
   */
  function decide(zod4: Zod4Schema, value: unknown, came: unknown): SchemaOutcome | Promise<SchemaOutcome> {
    const result = zod4._zod.run({ value, issues: [] }, { async: true });
    if (isPromise(result)) {
      mode = "async";
      return result.then(({ value: parsed, issues }) =>
        issues.length > 0 ? parseAsync(value, came) : { ok: true, value: parsed },
      );
    }
    if (result.issues.length > 0) return toOutcome(parseSync(zod4, value), value, came);
    mode = "sync";
    return { ok: true, value: result.value };
  }

  async function parseAsync(value: unknown, came: unknown): Promise<SchemaOutcome> {
    if (schema.safeParseAsync !== undefined)
      return toOutcome(await schema.safeParseAsync(value), value, came);
    return toOutcome(fromStandard(await schema["~standard"]?.validate(value)), value, came);
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

  function considerCompiling(zod4: Zod4Schema): void {
    loadZodCompiler().then((compiler) => {
      parser = compileZod(compiler, zod4);
    });
  }
}

function parseSync(schema: ZodSchema, value: unknown): ZodResult {
  if (schema.safeParse !== undefined) return schema.safeParse(value);
  return fromStandard(schema["~standard"]?.validate(value));
}

/** Reads a Standard Schema result, for schemas built from Zod's core alone, which have no `safeParse`. */
function fromStandard(result: unknown): ZodResult {
  const { issues, value } = result as { issues?: readonly ZodIssue[]; value?: unknown }; // The Standard Schema contract promises these members.
  return issues === undefined ? { success: true, data: value } : { success: false, error: { issues } };
}

function objectKeys(schema: unknown): readonly string[] | undefined {
  const shape = definitionOf(schema)?.shape;
  return isRecord(shape) ? keysOf(shape) : undefined;
}

/**
 * Whether parsing must allow for promises from the start. Zod 3 wraps callbacks, so an asynchronous one shows
 * only when it runs; in the synchronous mode its promise would go unwatched, and a rejection would end the
 * process. So for Zod 3 any callback counts, and for Zod 4 any function declared as `async`. Other functions
 * in Zod 4 that return promises are noticed when they run.
 */
function hasCallbacks(root: ZodSchema): boolean {
  const seen = new Set<unknown>();
  const waiting: unknown[] = [root];
  while (waiting.length > 0) {
    const part = waiting.pop();
    if (Object.prototype.toString.call(part) === "[object AsyncFunction]") return true;
    if (typeof part !== "object" || part === null || seen.has(part)) continue;
    seen.add(part);
    if (isZod3(part)) {
      const { type, getter, ...members } = definitionOf(part)!;
      if (["effects", "preprocess", "promise"].includes(type)) return true;
      waiting.push(...Object.values(members), called(getter));
    } else if ("_zod" in part) waiting.push(...valuesOf(memberAt(part._zod, ["def"])));
    else if (Array.isArray(part) || Object.getPrototypeOf(part) === Object.prototype)
      waiting.push(...Object.values(part));
  }
  return false;
}

/** Zod's own compiler, as `zod/v4/core` exports it since 4.6. */
interface ZodCompiler {
  readonly compile: (schema: Zod4Schema) => Zod4Schema;
  readonly version: NonNullable<Zod4Schema["_zod"]["version"]>;
  readonly globalConfig?: { readonly jitless?: boolean };
}

let loading: Promise<ZodCompiler | undefined> | undefined;

/**
 * The compiler of the Zod that is installed beside this package, if there is one. Zod is no dependency: where it
 * is missing, its schemas simply go on being interpreted. Never rejects.
 */
export function loadZodCompiler(): Promise<ZodCompiler | undefined> {
  // A specifier that bundlers cannot read keeps Zod out of programs that do not use it.
  const specifier = "zod/v4/core";
  loading ??= import(/* @vite-ignore */ specifier).then(
    (module: Partial<ZodCompiler>) =>
      typeof module.compile === "function" && module.version !== undefined
        ? (module as ZodCompiler) // Both required members are present.
        : undefined,
    () => undefined,
  );
  return loading;
}

/**
 * Returns a compiled schema, about five times faster, or the schema itself. The compiler must have exactly the schema's
 * version. Never throws.
 */
export function compileZod(compiler: ZodCompiler | undefined, schema: Zod4Schema): Zod4Schema {
  if (compiler === undefined || compiler.globalConfig?.jitless === true) return schema;
  if (!sameJson(schema._zod.version, compiler.version)) return schema;
  try {
    return compiler.compile(schema);
  } catch {
    // Zod promises not to throw; an interpreted schema is the answer if it ever does.
    return schema;
  }
}
