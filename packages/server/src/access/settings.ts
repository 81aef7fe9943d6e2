import {
  BusinessError,
  compileSchema,
  type Environment,
  type JsonSchemaObject,
  type ToolInfo,
} from "@toolrack/core";
import { isSecretName } from "@toolrack/core/internal";
import { asRecord, isRecord, parsedJson } from "../helpers/index.ts";
import type { Store, ValueInfo } from "../store/index.ts";
import { isValueName, openSecrets, type Secrets, type SecretsOptions, toolSecretName } from "./secrets.ts";

/** A setting cannot be stored under this name or with this value. The message is for people. */
export class SettingError extends Error {
  override readonly name = "SettingError";
}

/** A setting: unlike a secret, it is stored as it is and shown to admins. */
export interface Setting extends ValueInfo {
  readonly value: string;
}

const LONGEST_VALUE = 64 * 1024;

/** Opens the settings and secrets of a workspace. */
export async function openValues(
  options: SecretsOptions & { readonly store: Pick<Store, "settings"> },
): Promise<ToolValues> {
  const values = new ToolValues(options.store.settings, await openSecrets(options));
  await values.refresh();
  return values;
}

/**
 * The values that tools are given. A name is that of a setting or of a secret, never of both: the operator makes a value
 * secret by setting it as a secret.
 */
export class ToolValues {
  readonly secrets: Secrets;
  readonly #settings: Store["settings"];
  /** All settings, as they were last read. */
  #values: ReadonlyMap<string, string> = new Map();
  /** The names of the variables that are set for each tool, kept up to date. */
  readonly tools = new Map<string, ReadonlySet<string>>();
  #reading: Promise<void> = Promise.resolve();

  constructor(settings: Store["settings"], secrets: Secrets) {
    this.#settings = settings;
    this.secrets = secrets;
  }

  /**
   * Reads what other processes have set and removed since the last time. A server does so every second, so that no call
   * has to. Each reading waits for the one before, which could otherwise end later and bring older values back.
   */
  refresh(): Promise<void> {
    this.#reading = this.#reading.catch(() => {}).then(() => this.#read());
    return this.#reading;
  }

  async #read(): Promise<void> {
    const secrets = await this.secrets.refresh();
    this.#values = new Map((await this.#settings.entries()).map(({ name, value }) => [name, value]));
    const names = new Map<string, Set<string>>();
    for (const name of [...this.#values.keys(), ...secrets]) {
      const [tool = "", variable] = name.split("/");
      if (variable !== undefined) names.set(tool, (names.get(tool) ?? new Set()).add(variable));
    }
    this.tools.clear();
    for (const [tool, variables] of names) this.tools.set(tool, variables);
  }

  /** Sorted by name. */
  settings(): Promise<Setting[]> {
    return this.#settings.entries();
  }

  /** Throws `SettingError` for a value that cannot be one, and for the name of a secret. */
  async setSetting(name: string, value: string): Promise<void> {
    if (!isValueName(name)) {
      throw new SettingError(
        `"${name}" cannot be the name of a setting. Use letters, digits, _ . and -, at most 100, not beginning with a digit.`,
      );
    }
    if (value.length > LONGEST_VALUE) {
      throw new SettingError(`The value of "${name}" is longer than ${LONGEST_VALUE} characters.`);
    }
    if ((await this.secrets.list()).some((secret) => secret.name === name)) {
      const command = `toolrack secrets remove ${name.replace("/", " ")}`;
      throw new SettingError(
        `"${name}" is set as a secret, so it is not shown as a setting. To make it a setting, remove the secret first: ${command}`,
      );
    }
    await this.#settings.set(name, value);
    await this.refresh();
  }

  async removeSetting(name: string): Promise<boolean> {
    const isRemoved = await this.#settings.remove(name);
    await this.refresh();
    return isRemoved;
  }

  /** Sets a secret. A setting of that name is removed, so that its value is shown nowhere any more. */
  async setSecret(name: string, value: string): Promise<void> {
    await this.secrets.set(name, value);
    await this.removeSetting(name);
  }

  async removeSecret(name: string): Promise<boolean> {
    const isRemoved = await this.secrets.remove(name);
    await this.refresh();
    return isRemoved;
  }

  /**
   * The value of a tool's variable: the secret or the setting of this tool, or else the setting of the whole
   * workspace, as they were last read. A variable that is declared secret is never read from settings.
   */
  get(tool: string, variable: string, isSecret = false): string | undefined {
    const name = toolSecretName(tool, variable);
    const secret = this.secrets.current(name);
    if (secret !== undefined || isSecret) return secret;
    return this.#values.get(name) ?? this.#values.get(variable);
  }

  /** Sets a variable as its tool asks for it; undefined removes it. What is a secret stays one. */
  async set(tool: string, variable: string, value: string | undefined, isSecret = false): Promise<void> {
    const name = toolSecretName(tool, variable);
    if (value === undefined) {
      await this.removeSecret(name);
      await this.removeSetting(name);
    } else if (isSecret || (await this.secrets.get(name)) !== undefined) await this.setSecret(name, value);
    else await this.setSetting(name, value);
  }

  /** The setting of the whole workspace. */
  getSetting(name: string): Promise<string | undefined> {
    return this.#settings.get(name);
  }

  /**
   * What a tool that runs in this process, or as a program, reads from its environment: the variables that it
   * declares in `metadata.environment`, and all others that were set for it. Undefined when there are none.
   */
  environmentOf(info: ToolInfo): Promise<Environment> | undefined {
    const schema = declaredEnvironment(info);
    const names = this.tools.get(info.name);
    return schema === undefined && names === undefined
      ? undefined
      : environment(info.name, schema, names, {
          lookUp: (name, isSecret) => this.get(info.name, name, isSecret),
          refresh: () => this.refresh(),
        });
  }
}

interface Values {
  /** Finds the value that is set for a variable of the tool. */
  readonly lookUp: (name: string, isSecret: boolean) => string | undefined | Promise<string | undefined>;
  /** Reads all values anew. Called before a value counts as missing: it may have been set a moment ago. */
  readonly refresh?: () => Promise<void>;
}

/** The environment of a tool where nothing has been set: its defaults, or an error that says what is missing. */
export function unsetEnvironment(info: ToolInfo): Promise<Environment> | undefined {
  const schema = declaredEnvironment(info);
  return schema && environment(info.name, schema, undefined, { lookUp: () => undefined });
}

async function environment(
  tool: string,
  schema: JsonSchemaObject | undefined,
  names: ReadonlySet<string> | undefined,
  from: Values,
): Promise<Environment> {
  const values: Record<string, unknown> =
    schema === undefined ? {} : await resolveEnvironment({ tool, schema, ...from, isLenient: false });
  const others = [...(names ?? [])].filter((name) => !Object.hasOwn(asRecord(schema?.properties), name));
  for (const name of others) values[name] = await from.lookUp(name, false);
  const texts = Object.entries(values).flatMap(([name, value]) => {
    if (value === undefined) return [];
    return [[name, typeof value === "string" ? value : JSON.stringify(value)]];
  });
  return Object.fromEntries(texts);
}

/**
 * The schema of the variables that a tool declares in `metadata.environment`. Sandboxed tools, which declare
 * theirs in `getSchema()`, have none here.
 */
function declaredEnvironment({ metadata }: ToolInfo): JsonSchemaObject | undefined {
  const { singleFile, environment } = metadata;
  if (singleFile !== undefined || !isRecord(environment)) return undefined;
  return isRecord(environment.properties) ? environment : undefined;
}

/** Whether a tool, of any kind, declares this variable as a secret. */
export function declaresSecret({ metadata }: ToolInfo, variable: string): boolean {
  const { environment = metadata.environment } = asRecord(metadata.singleFile);
  return isSecretProperty(asRecord(asRecord(asRecord(environment).properties)[variable]));
}

/** What a schema declares is a setting, unless the schema says that it is not to be shown. */
function isSecretProperty({ format, writeOnly }: Record<string, unknown>): boolean {
  return format === "password" || writeOnly === true;
}

/**
 * The command that sets a variable. A name like API_KEY suggests a secret, even where the schema does not say so.
 */
export function setCommand(tool: string, name: string, property: JsonSchemaObject = {}): string {
  const kind = isSecretProperty(property) || isSecretName(name) ? "secrets" : "settings";
  return `toolrack ${kind} set ${tool} ${name}`;
}

interface EnvironmentSource extends Values {
  /** The tool's name, for the command that sets a value. */
  readonly tool: string;
  readonly schema: JsonSchemaObject;
  /** Leaves out missing or wrong values instead of throwing, for dry runs. */
  readonly isLenient: boolean;
}

/**
 * The environment of a tool, with the types and defaults that it declared. Throws `BusinessError` with the
 * command that sets a missing value. No error contains a value.
 */
export async function resolveEnvironment(source: EnvironmentSource): Promise<Record<string, unknown>> {
  const { tool, schema, lookUp, refresh, isLenient } = source;
  const properties = (schema.properties ?? {}) as Record<string, JsonSchemaObject>; // Checked at load time.
  const values: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(properties)) {
    const text = await lookUp(name, isSecretProperty(property));
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
  if (missing.length > 0 && refresh !== undefined) {
    await refresh();
    const { refresh: _, ...rest } = source;
    return resolveEnvironment(rest);
  }
  if (missing.length > 0) {
    const described = missing.map((name) => {
      const description = properties[name]?.description;
      return typeof description === "string" ? `${name} (${description})` : name;
    });
    const problem = `the tool "${tool}" needs ${described.join(", ")}, which is not set`;
    throw variableError("MISSING_ENV_VAR", source, missing, problem, { missing });
  }
  const wrong = [...new Set(outcome.issues.map(({ path }) => path.split(/[.[]/)[0]!))];
  const expected = outcome.issues[0]?.expected ?? "another value";
  const problem = `${wrong.join(", ")} of the tool "${tool}" must be ${expected}, and what is set is not`;
  throw variableError("INVALID_ENV_VAR", source, wrong, problem, { wrong });
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
    return parsedJson(trimmed, text); // The schema refuses a text.
  }
  return text;
}

function variableError(
  code: string,
  { tool, schema }: EnvironmentSource,
  names: readonly string[],
  problem: string,
  data: object,
): BusinessError {
  const properties = (schema.properties ?? {}) as Record<string, JsonSchemaObject>; // Checked at load time.
  const commands = names.map((name) => setCommand(tool, name, properties[name])).join(" && ");
  const solution = `Ask the operator to run: ${commands}`;
  return new BusinessError(`${code}: ${problem}, so it did not run. ${solution}`, {
    recoverable: false,
    data: { code, ...data, solution, retryable: false },
  });
}
