import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { parseEnv } from "node:util";
import { compileSchema, type JsonSchemaObject, type Logger } from "@toolrack/core";
import { isRecord, LoadError } from "../helpers/index.ts";
import type { Config } from "./config.ts";
import {
  type ConfigVariable,
  configProblems,
  configSchema,
  configVariables,
  formOf,
  toolPatternProblems,
} from "./config-schema.ts";

/** A key of the config that is set, and what set it. */
export interface ConfigOrigin {
  readonly key: string;
  /** `toolrack.config.ts`, `TOOLRACK_SERVER_PORT`, or `TOOLRACK_SERVER_PORT in .env`. */
  readonly from: string;
}

const names = [
  "toolrack.config.ts",
  "toolrack.config.mts",
  "toolrack.config.js",
  "toolrack.config.mjs",
  "toolrack.config.cjs",
];
const schema = compileSchema(configSchema);

interface ConfigLoader {
  load(path: string): Promise<{ readonly exports: unknown }>;
}

/**
 * Reads the workspace's config file; environment variables win over it. Throws `LoadError`. Warns of files that look
 * like a config and are not read.
 */
export async function readConfig(
  workspace: string,
  graph: ConfigLoader,
  logger: Logger,
): Promise<{ readonly config: Config; readonly origins: readonly ConfigOrigin[] }> {
  const path = names.map((name) => join(workspace, name)).find((candidate) => existsSync(candidate));
  for (const name of unreadConfigs(workspace)) {
    logger.warn(`${name} is not read. Write it as toolrack.config.ts: export default { … }. Or delete it.`);
  }
  const config = path === undefined ? {} : await readConfigFile(path, graph);
  const variables = await readVariables(workspace, process.env);
  for (const variable of variables) checkPatterns(workspace, variable);
  const own = configVariables.filter(({ path: place }) => valueAt(config, place) !== undefined);
  const origins = new Map(own.map(({ key }) => [key, basename(path ?? "")]));
  for (const { key, name, file } of variables) {
    origins.set(key, file === undefined ? name : `${name} in ${file}`);
  }
  return {
    config: variables.reduce(withVariable, config),
    origins: [...origins].map(([key, from]) => ({ key, from })),
  };
}

async function readConfigFile(path: string, graph: ConfigLoader): Promise<Config> {
  const { exports } = await graph.load(path);
  const given = isRecord(exports) && exports.default !== undefined ? exports.default : exports;
  const outcome = await schema.validate(withoutLiveObjects(given));
  const config = given as Config; // Used only when the schema accepts it.
  const problems = outcome.ok
    ? configProblems(config)
    : outcome.issues.map(({ path: key, message }) => (key === "" ? message : `${key}: ${message}`));
  if (problems.length === 0) return config;
  throw new LoadError(`The config is not valid. ${problems.join(" ")}`, "Correct these keys.", { path });
}

function checkPatterns(workspace: string, variable: SetVariable): void {
  const { name, file } = variable;
  const problems = toolPatternProblems(withVariable({}, variable));
  if (problems.length === 0) return;
  throw new LoadError(`The variable ${name} is not valid. ${problems.join(" ")}`, "Correct or remove it.", {
    ...(file === undefined ? {} : { path: join(workspace, file) }),
  });
}

function withVariable(config: Config, { path, value }: SetVariable): Config {
  return withValue(config, path, value) as Config; // The value was checked by the key's own schema.
}

/** Copies the object with another value at the path. */
function withValue(holder: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const object = isRecord(holder) ? holder : {};
  return { ...object, [key]: withValue(object[key], rest, value) };
}

function valueAt(holder: unknown, path: readonly string[]): unknown {
  return path.reduce((at, key) => (isRecord(at) ? at[key] : undefined), holder);
}

/** Replaces services and models by empty objects: they are live objects that the schema must not copy or look at. */
function withoutLiveObjects(config: unknown): unknown {
  if (!isRecord(config)) return config;
  const live = ["services", "models", "context"].filter((key) => isObject(config[key]));
  return { ...config, ...Object.fromEntries(live.map((key) => [key, {}])) };
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/** A key of the config that an environment variable sets. */
export interface SetVariable extends ConfigVariable {
  readonly value: unknown;
  /** The workspace's file that sets the variable, if one does. */
  readonly file?: string;
}

/**
 * Reads the keys of the config that variables set. An empty variable sets nothing. Throws `LoadError`, which names the
 * variable, its value and what was expected.
 */
export async function readVariables(
  workspace: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<SetVariable[]> {
  const found: SetVariable[] = [];
  for (const variable of configVariables) {
    const text = environment[variable.name]?.trim() ?? "";
    if (text === "") continue;
    const file = environmentFileOf(variable.name);
    const outcome = await readValue(variable, text);
    if ("problem" in outcome) {
      throw new LoadError(outcome.problem, `Correct or remove the variable ${variable.name}.`, {
        ...(file === undefined ? {} : { path: join(workspace, file) }),
      });
    }
    found.push({ ...variable, value: outcome.value, ...(file === undefined ? {} : { file }) });
  }
  return found;
}

async function readValue(
  variable: ConfigVariable,
  text: string,
): Promise<{ readonly value: unknown } | { readonly problem: string }> {
  const { name, schema } = variable;
  const value = toValue(schema, text);
  if (value === undefined) {
    // The value is not repeated: it may hold passwords.
    return { problem: `Expected JSON at \`${name}\`, got text that is none. It takes: ${formOf(variable)}.` };
  }
  const wrapped = compileSchema({ type: "object", properties: { [name]: schema } });
  const outcome = await wrapped.validate({ [name]: value });
  if (outcome.ok) return { value };
  return { problem: outcome.issues.map(({ message }) => message).join(" ") };
}

/** Converts the text to the schema's type. Undefined when it should be JSON and is not. */
function toValue({ type }: JsonSchemaObject, text: string): unknown {
  switch (type) {
    case "string":
      return text;
    case "boolean":
      return booleans.get(text.toLowerCase()) ?? text;
    case "integer":
    case "number":
      return Number.isNaN(Number(text)) ? text : Number(text);
    case "array":
      if (text.startsWith("[")) return parse(text);
      return text
        .split(",")
        .map((item) => item.trim())
        .filter((item) => item !== "");
    case "object":
      return parse(text);
    default:
      // The schema has several types or an enum: JSON if it parses, otherwise a text.
      return parse(text) ?? text;
  }
}

const booleans = new Map([
  ["true", true],
  ["1", true],
  ["false", false],
  ["0", false],
]);

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The first file that sets a variable wins. */
const files = [".env.local", ".env"];

/** The file that set each environment variable. Global, as the environment is. */
const origins = new Map<string, string>();

/**
 * Loads the workspace's `.env.local` and `.env` into the environment, where tools and the config look. Variables that
 * are set already win. Returns a function that removes them again, so that the next workspace has its own.
 */
export async function loadEnvironment(workspace: string, logger: Logger): Promise<() => void> {
  const added = new Map<string, string>();
  for (const file of files) {
    for (const [name, value] of Object.entries(await readEnvironmentFile(workspace, file, logger))) {
      if (value === undefined || process.env[name] !== undefined) continue;
      process.env[name] = value;
      added.set(name, value);
      origins.set(name, file);
    }
  }
  return () => {
    for (const [name, value] of added) {
      origins.delete(name);
      if (process.env[name] === value) delete process.env[name];
    }
  };
}

/** The workspace's file that set the variable; undefined when the process had it before. */
export function environmentFileOf(name: string): string | undefined {
  return origins.get(name);
}

async function readEnvironmentFile(
  workspace: string,
  file: string,
  logger: Logger,
): Promise<Record<string, string | undefined>> {
  try {
    return parseEnv(await readFile(join(workspace, file), "utf8"));
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException; // Reading a file throws nothing else.
    if (code !== "ENOENT") logger.warn(`${file} is not loaded: ${message}`);
    return {};
  }
}

/** Files named like a config that are not read: the config is code, never JSON or YAML. */
export function unreadConfigs(workspace: string): string[] {
  if (!existsSync(workspace)) return [];
  return readdirSync(workspace).filter(
    (name) => /^toolrack\.config\.[^.]+$/.test(name) && !/\.(?:[cm]?js|m?ts)$/.test(name),
  );
}
