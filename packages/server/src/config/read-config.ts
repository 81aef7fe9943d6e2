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

/** A key that is set, and by what. */
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

/** Evaluates a file of code. */
interface ConfigLoader {
  load(path: string): Promise<{ readonly exports: unknown }>;
}

/** The workspace's config file, over which variables of the environment win. Throws `LoadError`. Warns of what is passed over. */
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
  const outcome = await schema.validate(shallow(given));
  const config = given as Config; // Used only when the schema has found nothing wrong with it.
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
  return withValue(config, path, value) as Config; // The value was held against the key's own schema.
}

/** A copy with another value; what lies beside it is handed on as it is. */
function withValue(holder: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const object = isRecord(holder) ? holder : {};
  return { ...object, [key]: withValue(object[key], rest, value) };
}

function valueAt(holder: unknown, path: readonly string[]): unknown {
  return path.reduce((at, key) => (isRecord(at) ? at[key] : undefined), holder);
}

/** Services and models are live objects: an empty one stands for each, so that nothing of them is copied or looked at. */
function shallow(config: unknown): unknown {
  if (!isRecord(config)) return config;
  const live = ["services", "models", "context"].filter((key) => isObject(config[key]));
  return { ...config, ...Object.fromEntries(live.map((key) => [key, {}])) };
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/** A key of the config that the environment sets. */
export interface SetVariable extends ConfigVariable {
  readonly value: unknown;
  /** The file of the workspace that it comes from, when it does. */
  readonly file?: string;
}

/**
 * The keys of the config that variables set. An empty variable sets nothing. Throws `LoadError`, which names the
 * variable, what came and what was expected.
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
    // Objects may hold passwords, so what came is not repeated.
    return { problem: `Expected JSON at \`${name}\`, got text that is none. It takes: ${formOf(variable)}.` };
  }
  const wrapped = compileSchema({ type: "object", properties: { [name]: schema } });
  const outcome = await wrapped.validate({ [name]: value });
  if (outcome.ok) return { value };
  return { problem: outcome.issues.map(({ message }) => message).join(" ") };
}

/** The text as the schema's type has it. Undefined for what should be JSON and is not. */
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
      // One of several types, or of some values: a word is a text, anything else is JSON.
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

/** The first that sets a variable wins. */
const files = [".env.local", ".env"];

/** Which file set what is in the environment now: as global as the environment itself. */
const origins = new Map<string, string>();

/**
 * Puts what the workspace's `.env.local` and `.env` say into the environment, where tools and the config look for it.
 * What is set there already wins. Answers with a function that takes it back, so that the next workspace has its own.
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

/** The file of the workspace that set the variable; undefined when it was there before. */
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

/** Files that look like the config and are none: it is code, so JSON and YAML are not read. */
export function unreadConfigs(workspace: string): string[] {
  if (!existsSync(workspace)) return [];
  return readdirSync(workspace).filter(
    (name) => /^toolrack\.config\.[^.]+$/.test(name) && !/\.(?:[cm]?js|m?ts)$/.test(name),
  );
}
