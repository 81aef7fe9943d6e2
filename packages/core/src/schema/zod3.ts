import { convertRefused } from "./convert-refused.ts";
import type { LibrarySchema } from "./library-validator.ts";
import type { SchemaOutcome } from "./types.ts";
import { zodIssues } from "./zod-issues.ts";
import { isZod3, type Zod3Schema, type ZodResult } from "./zod-types.ts";
import { isPreprocess, zod3JsonSchema } from "./zod3-json-schema.ts";
import { isAsyncError } from "./zod4.ts";

/** A Zod 3 schema. */
export function zod3Schema(schema: Zod3Schema): LibrarySchema {
  let isAsync: boolean | undefined;
  return {
    kind: "zod3",
    parse: (value) => parse(value, value),
    knownKeys: () => knownKeysOf(schema, 0),
    keySchema: () => zod3JsonSchema(schema, "keys"),
    jsonSchema: () => zod3JsonSchema(schema),
  };

  /** `came` is what the caller sent, in the words of which issues speak; `value` may have been converted. */
  function parse(value: unknown, came: unknown): SchemaOutcome | Promise<SchemaOutcome> {
    isAsync ??= hasEffects(schema);
    if (isAsync) return parseAsync(value, came);
    try {
      return toOutcome(schema.safeParse(value), value, came);
    } catch (error) {
      if (!isAsyncError(error)) throw error;
      isAsync = true;
      return parseAsync(value, came);
    }
  }

  async function parseAsync(value: unknown, came: unknown): Promise<SchemaOutcome> {
    return toOutcome(await schema.safeParseAsync(value), value, came);
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
}

function knownKeysOf(schema: unknown, depth: number): readonly string[] | undefined {
  if (!isZod3(schema) || depth > 20) return undefined;
  const definition = schema._def;
  switch (definition.typeName) {
    case "ZodObject": {
      const catchall = definition.catchall;
      const isClosed = !isZod3(catchall) || catchall._def.typeName === "ZodNever";
      return definition.unknownKeys === "strip" && isClosed ? objectKeys(schema) : undefined;
    }
    case "ZodOptional":
    case "ZodNullable":
    case "ZodDefault":
    case "ZodCatch":
    case "ZodReadonly":
      return knownKeysOf(definition.innerType, depth + 1);
    case "ZodEffects":
      return isPreprocess(schema) ? undefined : knownKeysOf(definition.schema, depth + 1);
    case "ZodPipeline":
      return knownKeysOf(definition.in, depth + 1);
    case "ZodBranded":
      return knownKeysOf(definition.type, depth + 1);
    case "ZodLazy":
      return typeof definition.getter === "function"
        ? knownKeysOf(definition.getter(), depth + 1)
        : undefined;
    case "ZodIntersection": {
      const left = knownKeysOf(definition.left, depth + 1);
      const right = knownKeysOf(definition.right, depth + 1);
      return left && right && [...left, ...right];
    }
    default:
      return undefined;
  }
}

function objectKeys(schema: Zod3Schema): readonly string[] | undefined {
  const shape = typeof schema._def.shape === "function" ? schema._def.shape() : undefined;
  return typeof shape === "object" && shape !== null ? Object.keys(shape) : undefined;
}

/**
 * Whether an author's callback is inside. Zod 3 wraps callbacks, so an asynchronous one shows only when it runs;
 * in the synchronous mode its promise would go unwatched, and a rejection would end the process. Such schemas
 * are always parsed asynchronously.
 */
function hasEffects(root: Zod3Schema): boolean {
  const seen = new Set<unknown>();
  const waiting: unknown[] = [root];
  while (waiting.length > 0) {
    const part = waiting.pop();
    if (typeof part !== "object" || part === null || seen.has(part)) continue;
    seen.add(part);
    if (!isZod3(part)) {
      if (Array.isArray(part) || Object.getPrototypeOf(part) === Object.prototype)
        waiting.push(...Object.values(part));
      continue;
    }
    const { typeName, shape, getter, ...rest } = part._def;
    if (typeName === "ZodEffects" || typeName === "ZodPromise") return true;
    if (typeName === "ZodObject" && typeof shape === "function") waiting.push(shape());
    if (typeName === "ZodLazy" && typeof getter === "function") waiting.push(getter());
    waiting.push(...Object.values(rest));
  }
  return false;
}
