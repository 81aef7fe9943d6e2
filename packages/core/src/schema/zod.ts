import { anyOf, oneOf, sizeLimits } from "./describe-expected.ts";
import { maximumIssues, mismatch, type SchemaIssue, unknownKey } from "./issue.ts";
import { memberAt } from "./visit.ts";

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

interface Zod4Payload {
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

/** Zod's own compiler, as `zod/v4/core` exports it since 4.6. */
interface ZodCompiler {
  readonly compile: (schema: Zod4Schema) => Zod4Schema;
  readonly version: { readonly major: number; readonly minor: number; readonly patch: number };
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
        ? (module as ZodCompiler)
        : undefined,
    () => undefined,
  );
  return loading;
}

/**
 * A schema that gives the same answers about five times faster, or the schema itself. Only a compiler of exactly
 * the schema's own version is trusted to know its insides. Never throws.
 */
export function compileZod(compiler: ZodCompiler | undefined, schema: Zod4Schema): Zod4Schema {
  if (compiler === undefined || compiler.globalConfig?.jitless === true) return schema;
  const own = schema._zod.version;
  const { major, minor, patch } = compiler.version;
  if (own?.major !== major || own.minor !== minor || own.patch !== patch) return schema;
  try {
    return compiler.compile(schema);
  } catch {
    // Zod promises not to throw; an interpreted schema is the answer if it ever does.
    return schema;
  }
}

/**
 * The issues of Zod 3 or Zod 4 in the words all schemas share. Where the author wrote a message of their own, it
 * is kept.
 */
export function zodIssues(
  issues: readonly ZodIssue[],
  value: unknown,
  rootKeys: readonly string[] | undefined,
): SchemaIssue[] {
  return issues
    .slice(0, maximumIssues)
    .flatMap((issue) => explain(issue, [], value, rootKeys))
    .slice(0, maximumIssues);
}

function explain(
  issue: ZodIssue,
  base: readonly unknown[],
  value: unknown,
  rootKeys: readonly string[] | undefined,
): SchemaIssue[] {
  const path = [...base, ...(issue.path ?? [])];
  const received = memberAt(value, path);
  if (issue.code === "unrecognized_keys") {
    const known = path.length === 0 ? rootKeys : undefined;
    return listOf(issue.keys).map((key) => unknownKey(path, String(key), memberAt(received, [key]), known));
  }
  if (issue.code === "invalid_key") {
    const [problem] = listOf(issue.issues) as readonly ZodIssue[]; // Zod nests issues of the same form.
    const wanted = problem === undefined ? "allowed" : expectedOf(problem);
    return [mismatch(path, `a key that is ${wanted}`, path.at(-1))];
  }
  const alternatives = alternativesOf(issue);
  if (alternatives !== undefined) {
    // Zod 4 counts paths from the union, Zod 3 from the root.
    const branchBase = issue.errors === undefined ? base : path;
    const meant = likeliestBranch(alternatives, issue.errors === undefined ? path.length - base.length : 0);
    if (meant !== undefined) return meant.flatMap((inner) => explain(inner, branchBase, value, rootKeys));
    const wanted = anyOf(alternatives.flatMap((branch) => branch.slice(0, 1)).map(expectedOf));
    return [mismatch(path, wanted === "" ? "one of the allowed forms" : wanted, received)];
  }
  return [mismatch(path, expectedOf(issue), received, isStandardMessage(issue) ? undefined : issue.message)];
}

/** The issues of each alternative, where none was met. */
export function alternativesOf(issue: ZodIssue): readonly (readonly ZodIssue[])[] | undefined {
  if (issue.code !== "invalid_union") return undefined;
  if (Array.isArray(issue.errors) && issue.errors.length > 0) return issue.errors;
  if (!Array.isArray(issue.unionErrors)) return undefined;
  return issue.unionErrors.map((error: { readonly issues: readonly ZodIssue[] }) => error.issues);
}

/** The branch that was evidently meant: the only one that does not already fail at the union's own place. */
export function likeliestBranch(
  branches: readonly (readonly ZodIssue[])[],
  depth: number,
): readonly ZodIssue[] | undefined {
  const candidates = branches.filter((branch) => !branch.some((issue) => rulesOut(issue, depth)));
  return candidates.length === 1 ? candidates[0] : undefined;
}

function rulesOut(issue: ZodIssue, depth: number): boolean {
  const below = (issue.path?.length ?? 0) - depth;
  if (issue.code === "invalid_literal" || issue.code === "invalid_value") return below <= 1;
  return below === 0 && (issue.code === "invalid_type" || issue.code === "invalid_enum_value");
}

function expectedOf(issue: ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return jsonForms[String(issue.expected)] ?? String(issue.expected);
    case "invalid_literal":
      return oneOf([issue.expected]);
    case "invalid_value":
      return oneOf(listOf(issue.values));
    case "invalid_enum_value":
    case "invalid_union_discriminator":
      return oneOf(listOf(issue.options));
    case "invalid_union":
      if (Array.isArray(issue.options)) return oneOf(issue.options);
      return issue.inclusive === false ? "exactly one of the allowed forms" : "one of the allowed forms";
    case "too_small":
      return describeLimit(issue, issue.minimum, undefined);
    case "too_big":
      return describeLimit(issue, undefined, issue.maximum);
    case "not_multiple_of":
      return `multiple of ${issue.divisor ?? issue.multipleOf}`;
    case "not_finite":
      return "finite number";
    case "invalid_date":
      return jsonForms.date!;
    case "invalid_format":
    case "invalid_string":
      return describeFormat(issue);
    default:
      if (!isStandardMessage(issue)) return issue.message;
      return issue.code === "custom"
        ? "a value that the tool's own check accepts"
        : "a value that the schema accepts";
  }
}

/** How that which JSON cannot hold is sent; `convertRefused` takes exactly this. */
const jsonForms: Readonly<Record<string, string>> = {
  date: 'date and time with its zone, such as "2026-05-01T09:30:00Z", or date',
  bigint: `integer, written as text beyond ${Number.MAX_SAFE_INTEGER}`,
  set: "array",
  map: "array of pairs of key and value",
};

function describeLimit(issue: ZodIssue, minimum: unknown, maximum: unknown): string {
  const origin = String(issue.origin ?? issue.type ?? "value");
  if (origin === "string") return `string${sizeLimits(asNumber(minimum), asNumber(maximum), "character")}`;
  if (origin === "array" || origin === "set" || origin === "map") {
    return `${origin}${sizeLimits(asNumber(minimum), asNumber(maximum), "item")}`;
  }
  const isInclusive = issue.inclusive !== false;
  const sign = minimum === undefined ? (isInclusive ? "≤" : "<") : isInclusive ? "≥" : ">";
  const limit = minimum ?? maximum;
  if (origin === "date") return `date ${sign} ${new Date(Number(limit)).toISOString()}`;
  return `${origin === "int" || origin === "bigint" ? "integer" : origin} ${sign} ${limit}`;
}

function describeFormat(issue: ZodIssue): string {
  const format = issue.format ?? issue.validation;
  if (format === "regex")
    return issue.pattern === undefined ? "string matching the pattern" : `string matching ${issue.pattern}`;
  if (typeof format === "object" && format !== null) return `string with ${JSON.stringify(format)}`;
  const part = issue.prefix ?? issue.suffix ?? issue.includes;
  if (part !== undefined) return `string with ${String(format).replace("_", " ")} ${JSON.stringify(part)}`;
  return `string in ${format} format`;
}

/** The sentences Zod itself writes begin like this; anything else is the author's. */
function isStandardMessage(issue: ZodIssue): boolean {
  if (issue.code === "custom" && issue.message !== "Invalid input") return false;
  return /^(Invalid\b|Too (small|big)|Unrecognized|Required$|Expected |(String|Number|Array|Set|Date|BigInt) must |Input not )/.test(
    issue.message,
  );
}

function asNumber(limit: unknown): unknown {
  return typeof limit === "bigint" ? Number(limit) : limit;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
