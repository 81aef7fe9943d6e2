import { BusinessError, compileSchema, type JsonSchemaObject } from "@toolrack/core";
import { asRecord } from "../../helpers/index.ts";

interface EnvironmentSource {
  /** The tool's name, for the command that sets a value. */
  readonly tool: string;
  readonly schema: JsonSchemaObject;
  /** Finds the value that is set for a variable of this tool. */
  readonly lookUp: (name: string) => Promise<string | undefined>;
  /** Leaves out missing or wrong values instead of throwing, for dry runs. */
  readonly isLenient: boolean;
}

/**
 * The environment of a tool, with the types and defaults that it declared. Throws `BusinessError` with the
 * command that sets a missing value. No error contains a value.
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
  if (isLenient) {
    const { required: _, ...rest } = schema;
    const partial = await compileSchema(rest).validate(values);
    return partial.ok ? asRecord(partial.value) : values;
  }
  const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
  const missing = required.filter((name) => values[name] === undefined);
  if (missing.length > 0) {
    const described = missing.map((name) => {
      const description = properties[name]?.description;
      return typeof description === "string" ? `${name} (${description})` : name;
    });
    const problem = `the tool "${tool}" needs ${described.join(", ")}, which is not set`;
    throw variableError("MISSING_ENV_VAR", tool, missing, problem, { missing });
  }
  const wrong = [...new Set(outcome.issues.map(({ path }) => path.split(/[.[]/)[0]!))];
  const expected = outcome.issues[0]?.expected ?? "another value";
  const problem = `${wrong.join(", ")} of the tool "${tool}" must be ${expected}, and what is set is not`;
  throw variableError("INVALID_ENV_VAR", tool, wrong, problem, { wrong });
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

/**
 * The hosts that a tool may reach: those that it declares and the operator grants. Where one covers the
 * other, as `*.example.com` covers `api.example.com`, the narrower counts. A tool that declares none may
 * reach all granted hosts.
 */
export function grantedHosts(declared: readonly string[] | undefined, granted: readonly string[]): string[] {
  if (declared === undefined) return [...new Set(granted)].sort();
  const hosts = declared.flatMap((wanted) =>
    granted.flatMap((given) => {
      if (covers(given, wanted)) return [wanted];
      return covers(wanted, given) ? [given] : [];
    }),
  );
  return [...new Set(hosts)].sort();
}

/** Hosts that a tool declares and no grant covers even in part. */
export function missingHosts(declared: readonly string[] | undefined, granted: readonly string[]): string[] {
  return (declared ?? []).filter(
    (wanted) => !granted.some((given) => covers(given, wanted) || covers(wanted, given)),
  );
}

/** Whether `given` includes every host that `wanted` names. No port stands for the usual ports of the web. */
function covers(given: string, wanted: string): boolean {
  const [givenName, givenPort] = split(given);
  const [wantedName, wantedPort] = split(wanted);
  const isUsual = givenPort === "" && ["80", "443"].includes(wantedPort);
  if (givenPort !== wantedPort && !isUsual) return false;
  if (givenName === wantedName || givenName === "*") return true;
  return givenName.startsWith("*.") && wantedName.endsWith(givenName.slice(1));
}

function split(host: string): [name: string, port: string] {
  const [, name = host, port = ""] = /^(.*?)(?::(\d+))?$/.exec(host.toLowerCase()) ?? [];
  return [name, port];
}
