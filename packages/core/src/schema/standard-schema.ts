import { maximumIssues, mismatch } from "./issue.ts";
import { finishLibrarySchema, isPromise, type LibrarySchema } from "./library-validator.ts";
import { SchemaError, type SchemaOutcome } from "./types.ts";
import { type JsonSchemaObject, memberAt } from "./visit.ts";

/** The used part of the Standard Schema contract. */
export interface StandardSchema {
  readonly "~standard": {
    readonly vendor?: string;
    validate(value: unknown): StandardResult | Promise<StandardResult>;
    readonly jsonSchema?: { input(options: { readonly target: string }): Record<string, unknown> };
  };
}

interface StandardResult {
  readonly value?: unknown;
  readonly issues?: readonly StandardIssue[];
}

interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[];
  /** Set by Valibot and ArkType, in words. */
  readonly expected?: unknown;
}

/** Some libraries make their schemas functions. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  if ((typeof value !== "object" || value === null) && typeof value !== "function") return false;
  const standard: unknown = "~standard" in value ? value["~standard"] : undefined;
  return typeof standard === "object" && standard !== null && "validate" in standard;
}

/** A schema of any library that keeps the Standard Schema contract. */
export function standardSchema(schema: StandardSchema): LibrarySchema {
  return {
    kind: "standard",
    parse(value) {
      const result = schema["~standard"].validate(value);
      return isPromise(result)
        ? result.then((settled) => toOutcome(settled, value))
        : toOutcome(result, value);
    },
    keySchema: () => listingOf(schema),
    jsonSchema: () => toJsonSchema(schema),
  };
}

function toOutcome(result: StandardResult, value: unknown): SchemaOutcome {
  if (result.issues === undefined) return { ok: true, value: result.value };
  const issues = result.issues.slice(0, maximumIssues).map((issue) => {
    const path = (issue.path ?? []).map((step) => (typeof step === "object" ? step.key : step));
    const expected = typeof issue.expected === "string" ? issue.expected : issue.message;
    return mismatch(path, expected, memberAt(value, path), issue.message);
  });
  return { ok: false, issues };
}

/** The JSON Schema is the only place where a Standard Schema lists its keys. */
function listingOf(schema: StandardSchema): JsonSchemaObject | undefined {
  try {
    return toJsonSchema(schema);
  } catch {
    // Without a JSON Schema the keys are unknown.
    return undefined;
  }
}

function toJsonSchema(schema: StandardSchema): JsonSchemaObject {
  const { jsonSchema, vendor = "this library" } = schema["~standard"];
  if (jsonSchema === undefined) {
    throw new SchemaError(
      `A schema of ${vendor} cannot be shown to a model: it has no JSON Schema form (\`~standard.jsonSchema\`). ` +
        "Wrap it with the library's JSON Schema converter, or write the parameters as JSON Schema or Zod.",
    );
  }
  try {
    return finishLibrarySchema(jsonSchema.input({ target: "draft-2020-12" }));
  } catch (error) {
    if (SchemaError.is(error)) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new SchemaError(
      `The schema of ${vendor} has no JSON Schema: ${reason}. Describe that part in another way.`,
      { cause: error },
    );
  }
}
