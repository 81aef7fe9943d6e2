import { isRecord, listOf } from "./visit.ts";
import type { ZodIssue } from "./zod-issues.ts";

/** The used part of a Zod 4 schema, of any copy or build of Zod. */
export interface Zod4Schema {
  readonly _zod: {
    readonly def: ZodDefinition;
    readonly version?: { readonly major: number; readonly minor: number; readonly patch: number };
    /** Defined when a key with this schema may be left out. */
    readonly optin?: unknown;
    run(payload: ZodPayload, context: { readonly async: boolean }): ZodPayload | Promise<ZodPayload>;
  };
  readonly "~standard": {
    validate(value: unknown): unknown;
    readonly jsonSchema?: { input(options: Readonly<Record<string, unknown>>): Record<string, unknown> };
  };
  safeParse?(value: unknown): ZodResult;
  safeParseAsync?(value: unknown): Promise<ZodResult>;
  toJSONSchema?(options: Readonly<Record<string, unknown>>): Record<string, unknown>;
}

/** The used part of a Zod 3 schema. */
export interface Zod3Schema {
  readonly _def: { readonly typeName: string; readonly [member: string]: unknown };
  readonly "~standard"?: Zod4Schema["~standard"];
  readonly description?: string;
  safeParse(value: unknown): ZodResult;
  safeParseAsync(value: unknown): Promise<ZodResult>;
}

export type ZodSchema = Zod4Schema | Zod3Schema;

/** A definition in Zod 4's terms. The members depend on `type`. */
export interface ZodDefinition {
  readonly type: string;
  readonly [member: string]: unknown;
}

interface ZodPayload {
  readonly value: unknown;
  readonly issues: readonly unknown[];
}

export interface ZodResult {
  readonly success: boolean;
  readonly data?: unknown;
  readonly error?: { readonly issues: readonly ZodIssue[] };
}

export function isZod4(value: unknown): value is Zod4Schema {
  return isRecord(value) && isRecord(value._zod) && "def" in value._zod && "run" in value._zod;
}

export function isZod3(value: unknown): value is Zod3Schema {
  return isRecord(value) && "safeParse" in value && isRecord(value._def) && "typeName" in value._def;
}

/** The definition of a Zod 3 or 4 schema; undefined for anything else. */
export function definitionOf(schema: unknown): ZodDefinition | undefined {
  if (isZod4(schema)) return schema._zod.def;
  return isZod3(schema) ? inWordsOfZod4(schema._def) : undefined;
}

function inWordsOfZod4(definition: Zod3Schema["_def"]): ZodDefinition {
  switch (definition.typeName) {
    case "ZodLiteral":
      return { type: "literal", values: [definition.value] };
    case "ZodEnum":
    case "ZodNativeEnum":
      return { type: "enum", entries: definition.values };
    case "ZodObject":
      return { ...definition, type: "object", shape: called(definition.shape) };
    case "ZodArray":
      return { type: "array", element: definition.type, checks: arrayChecks(definition) };
    case "ZodDiscriminatedUnion": {
      // A list or, in older versions, a map.
      const { options } = definition;
      return { type: "union", options: options instanceof Map ? [...options.values()] : options };
    }
    case "ZodDefault":
      return { ...definition, type: "default", defaultValue: called(definition.defaultValue) };
    case "ZodEffects": {
      const isFirst = isRecord(definition.effect) && definition.effect.type === "preprocess";
      return { type: isFirst ? "preprocess" : "effects", innerType: definition.schema };
    }
    case "ZodBranded":
      return { type: "readonly", innerType: definition.type };
    case "ZodPromise":
      return { type: "promise", innerType: definition.type };
    case "ZodPipeline":
      return { ...definition, type: "pipe" };
    default:
      return { ...definition, type: definition.typeName.slice("Zod".length).toLowerCase() };
  }
}

/** Calls an author's function; undefined when it throws, because something is not defined yet. */
export function called(make: unknown): unknown {
  try {
    return typeof make === "function" ? make() : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a callback of the author changes the value before the schema checks it. */
export function isPreprocess({ type, in: input }: ZodDefinition): boolean {
  return type === "preprocess" || (type === "pipe" && definitionOf(input)?.type === "transform");
}

/** What happens to unlisted keys: dropped, refused, kept, or checked by a schema. */
export function otherKeys({ catchall, unknownKeys }: ZodDefinition): "drop" | "refuse" | "keep" | ZodSchema {
  const type = definitionOf(catchall)?.type;
  if (unknownKeys === "strict") return "refuse";
  // `never` is the default in Zod 3, but in Zod 4 it means that unlisted keys are refused.
  if (type === undefined || (type === "never" && unknownKeys !== undefined))
    return unknownKeys === "passthrough" ? "keep" : "drop";
  if (type === "never") return "refuse";
  return type === "unknown" || type === "any" ? "keep" : (catchall as ZodSchema); // It has a definition, so it is a schema.
}

export function checksOf({ checks, type }: ZodDefinition): Record<string, unknown>[] {
  return listOf(checks)
    .filter(isRecord)
    .map((check) => {
      if ("kind" in check) return checkInWordsOfZod4(check, type);
      // Checks of Zod 4 have a definition in the same place as schemas.
      return isRecord(check._zod) && isRecord(check._zod.def) ? check._zod.def : check;
    });
}

/** Zod 3 keeps the limits of an array beside its other members. */
function arrayChecks({ exactLength, minLength, maxLength }: Zod3Schema["_def"]): unknown[] {
  return [
    isRecord(minLength) && { check: "min_length", minimum: minLength.value },
    isRecord(maxLength) && { check: "max_length", maximum: maxLength.value },
    isRecord(exactLength) && { check: "length_equals", length: exactLength.value },
  ];
}

function checkInWordsOfZod4(given: Record<string, unknown>, type: string): Record<string, unknown> {
  const { kind, value, inclusive, version, regex } = given;
  const text = String(value).replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  const matching = (pattern: unknown) => ({ check: "string_format", format: "regex", pattern });
  switch (kind) {
    case "min":
      if (type === "string") return { check: "min_length", minimum: value };
      return { check: "greater_than", value, inclusive };
    case "max":
      if (type === "string") return { check: "max_length", maximum: value };
      return { check: "less_than", value, inclusive };
    case "length":
      return { check: "length_equals", length: value };
    case "int":
      return { check: "number_format", format: "int" };
    case "multipleOf":
      return { check: "multiple_of", value };
    case "regex":
      return matching(regex);
    case "startsWith":
      return matching(new RegExp(`^${text}`));
    case "endsWith":
      return matching(new RegExp(`${text}$`));
    case "includes":
      return matching(new RegExp(text));
    default:
      return { check: "string_format", format: kind === "ip" ? `ip${version ?? ""}` : kind };
  }
}
