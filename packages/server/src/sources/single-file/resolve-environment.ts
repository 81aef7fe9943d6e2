import { BusinessError, compileSchema, type JsonSchemaObject } from "@toolrack/core";

export interface EnvironmentSource {
  /** The tool's name, for the command that sets a value. */
  readonly tool: string;
  readonly schema: JsonSchemaObject;
  /** What is set for this tool under this name. */
  readonly lookUp: (name: string) => Promise<string | undefined>;
  /** Values that are missing or wrong are left out instead of refused: nothing real happens in a dry run. */
  readonly isLenient: boolean;
}

/**
 * The values that a tool declared, with the types that it declared and its defaults. Throws `BusinessError` with
 * the command that sets what is missing. Never names a value.
 */
export async function resolveEnvironment(source: EnvironmentSource): Promise<Record<string, unknown>> {
  const { tool, schema, lookUp, isLenient } = source;
  const properties = (schema.properties ?? {}) as Record<string, JsonSchemaObject>; // Checked when it was loaded.
  const values: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(properties)) {
    const text = await lookUp(name);
    if (text !== undefined) values[name] = coerce(text, property);
  }
  const outcome = await compileSchema(schema).validate(values);
  if (outcome.ok) return outcome.value as Record<string, unknown>; // The schema is one of an object.
  if (isLenient) return withoutRequired(schema, values);

  const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
  const missing = required.filter((name) => values[name] === undefined);
  if (missing.length > 0) throw missingVariables(tool, missing, properties);
  const wrong = [...new Set(outcome.issues.map(({ path }) => path.split(/[.[]/)[0]!))];
  throw wrongVariables(tool, wrong, outcome.issues[0]?.expected ?? "another value");
}

/** Texts are all that can be set; the schema says what they stand for. */
function coerce(text: string, { type }: JsonSchemaObject): unknown {
  const types = [type].flat();
  if (types.includes("string") || type === undefined) return text;
  const trimmed = text.trim();
  if (types.includes("number") || types.includes("integer")) {
    if (trimmed !== "" && Number.isFinite(Number(trimmed))) return Number(trimmed);
  }
  if (types.includes("boolean")) {
    if (/^(?:true|1|yes|on)$/i.test(trimmed)) return true;
    if (/^(?:false|0|no|off)$/i.test(trimmed)) return false;
  }
  if (types.includes("object") || types.includes("array")) {
    try {
      return JSON.parse(trimmed);
    } catch {
      return text; // The schema refuses it, and says what was expected.
    }
  }
  return text;
}

async function withoutRequired(
  schema: JsonSchemaObject,
  values: Record<string, unknown>,
): Promise<Record<string, unknown>> {
  const { required: _, ...rest } = schema;
  const outcome = await compileSchema(rest).validate(values);
  return outcome.ok ? (outcome.value as Record<string, unknown>) : values;
}

function missingVariables(
  tool: string,
  missing: readonly string[],
  properties: Readonly<Record<string, JsonSchemaObject>>,
): BusinessError {
  const described = missing.map((name) => {
    const description = properties[name]?.description;
    return typeof description === "string" ? `${name} (${description})` : name;
  });
  const solution = `Ask the operator to run: ${commandsFor(tool, missing)}`;
  const message = `MISSING_ENV_VAR: the tool "${tool}" needs ${described.join(", ")}, which is not set, so it did not run. ${solution}`;
  return new BusinessError(message, {
    recoverable: false,
    data: { code: "MISSING_ENV_VAR", missing, solution, retryable: false },
  });
}

function wrongVariables(tool: string, wrong: readonly string[], expected: string): BusinessError {
  const solution = `Ask the operator to run: ${commandsFor(tool, wrong)}`;
  const message = `INVALID_ENV_VAR: ${wrong.join(", ")} of the tool "${tool}" must be ${expected}, and what is set is not, so it did not run. ${solution}`;
  return new BusinessError(message, {
    recoverable: false,
    data: { code: "INVALID_ENV_VAR", wrong, solution, retryable: false },
  });
}

function commandsFor(tool: string, names: readonly string[]): string {
  return names.map((name) => `toolrack secrets set ${tool} ${name}`).join(" && ");
}
