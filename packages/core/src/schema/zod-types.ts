/** As much of a Zod 4 schema as is used, whichever copy or build of Zod it comes from. */
export interface Zod4Schema {
  readonly _zod: {
    readonly def: Zod4Definition;
    readonly version?: { readonly major: number; readonly minor: number; readonly patch: number };
    run(payload: Zod4Payload, context: { readonly async: boolean }): Zod4Payload | Promise<Zod4Payload>;
  };
  readonly "~standard": {
    validate(value: unknown): unknown;
    readonly jsonSchema?: { input(options: Readonly<Record<string, unknown>>): Record<string, unknown> };
  };
  safeParse?(value: unknown): ZodResult;
  safeParseAsync?(value: unknown): Promise<ZodResult>;
  toJSONSchema?(options: Readonly<Record<string, unknown>>): Record<string, unknown>;
}

/** Which members there are depends on `type`. */
export interface Zod4Definition {
  readonly type: string;
  readonly [member: string]: unknown;
}

export interface Zod4Payload {
  readonly value: unknown;
  readonly issues: readonly unknown[];
}

/** As much of a Zod 3 schema as is used. */
export interface Zod3Schema {
  readonly _def: Zod3Definition;
  readonly description?: string;
  safeParse(value: unknown): ZodResult;
  safeParseAsync(value: unknown): Promise<ZodResult>;
}

/** Which members there are depends on `typeName`. */
export interface Zod3Definition {
  readonly typeName: string;
  readonly [member: string]: unknown;
}

export interface ZodResult {
  readonly success: boolean;
  readonly data?: unknown;
  readonly error?: { readonly issues: readonly ZodIssue[] };
}

/** An issue of either Zod. Which members there are depends on `code`. */
export interface ZodIssue {
  readonly code?: string;
  readonly message: string;
  readonly path?: readonly unknown[];
  readonly [member: string]: unknown;
}

export function isZod4(value: unknown): value is Zod4Schema {
  if (typeof value !== "object" || value === null || !("_zod" in value)) return false;
  const internals = value._zod;
  return typeof internals === "object" && internals !== null && "def" in internals && "run" in internals;
}

export function isZod3(value: unknown): value is Zod3Schema {
  if (typeof value !== "object" || value === null || !("_def" in value) || !("safeParse" in value))
    return false;
  const definition = value._def;
  return typeof definition === "object" && definition !== null && "typeName" in definition;
}
