import { BusinessError, compileSchema, type JsonSchemaObject } from "@toolrack/core";
import { asRecord } from "../../helpers/index.ts";

interface EnvironmentSource {
  /** The tool's name, for the command that sets a value. */
  readonly tool: string;
  readonly schema: JsonSchemaObject;
  /** Finds the value that is set for this tool. */
  readonly lookUp: (name: string) => Promise<string | undefined>;
  /** Leaves out missing or wrong values instead of throwing, for dry runs. */
  readonly isLenient: boolean;
}

/**
 * The environment of a tool, with the types and defaults that it declared. Throws `BusinessError` with the command that
 * sets a missing value. Never shows a value.
 */
export async function resolveEnvironment(source: EnvironmentSource): Promise<Record<string, unknown>> {
  const { tool, schema, lookUp, isLenient } = source;
  const properties = (schema.properties ?? {}) as Record<string, JsonSchemaObject>; // Checked at load time.
  const values: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(properties)) {
    const text = await lookUp(name);
    if (text !== undefined) values[name] = coerce(text, property);
  }
  const outcome = await compileSchema(schema).validate(values);
  if (outcome.ok) return asRecord(outcome.value);
  if (isLenient) return withoutRequired(schema, values);

  const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
  const missing = required.filter((name) => values[name] === undefined);
  if (missing.length > 0) throw missingVariables(tool, missing, properties);
  const wrong = [...new Set(outcome.issues.map(({ path }) => path.split(/[.[]/)[0]!))];
  throw wrongVariables(tool, wrong, outcome.issues[0]?.expected ?? "another value");
}

/** Values are set as text; the schema gives their type. */
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
      return text; // The schema then refuses it.
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
  return outcome.ok ? asRecord(outcome.value) : values;
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
  const problem = `the tool "${tool}" needs ${described.join(", ")}, which is not set`;
  return variableError("MISSING_ENV_VAR", tool, missing, problem, { missing });
}

function wrongVariables(tool: string, wrong: readonly string[], expected: string): BusinessError {
  const problem = `${wrong.join(", ")} of the tool "${tool}" must be ${expected}, and what is set is not`;
  return variableError("INVALID_ENV_VAR", tool, wrong, problem, { wrong });
}

function variableError(
  code: string,
  tool: string,
  names: readonly string[],
  problem: string,
  data: object,
): BusinessError {
  const commands = names.map((name) => `toolrack secrets set ${tool} ${name}`).join(" && ");
  const solution = `Ask the operator to run: ${commands}`;
  return new BusinessError(`${code}: ${problem}, so it did not run. ${solution}`, {
    recoverable: false,
    data: { code, ...data, solution, retryable: false },
  });
}
