import { existsSync, readdirSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { parseEnv } from "node:util";
import { compileSchema, type Logger } from "@toolrack/core";
import { propertiesOf, type SchemaPlace, walkSchemas } from "@toolrack/core/internal/schema";
import { defined, isRecord, LoadError } from "../helpers/index.ts";
import { type Config, configSchema } from "./config.ts";
import { type ConfigVariable, configVariables, readVariable } from "./config-variables.ts";
import { grantProblem } from "./network-grants.ts";
import { surelyFits } from "./surely-fits.ts";
import { problemOfToolPattern } from "./tool-patterns.ts";

/** A key of the config that is set, and what set it. */
export interface ConfigOrigin {
  readonly key: string;
  /** `toolrack.config.ts`, `TOOLRACK_SERVER_PORT`, or `TOOLRACK_SERVER_PORT in .env`. */
  readonly from: string;
}

const names = ["ts", "mts", "js", "mjs", "cjs"].map((ending) => `toolrack.config.${ending}`);
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
  for (const name of unreadConfigs(workspace)) {
    logger.warn(`${name} is not read. Write it as toolrack.config.ts: export default { … }. Or delete it.`);
  }
  const path = names.map((name) => join(workspace, name)).find((candidate) => existsSync(candidate));
  let config = path === undefined ? {} : await readConfigFile(path, graph);
  const own = configVariables.filter((variable) => valueAt(config, variable.path) !== undefined);
  const origins = new Map(own.map(({ key }) => [key, basename(path ?? "")]));
  for (const variable of configVariables) {
    const { name, key } = variable;
    const text = process.env[name]?.trim() ?? "";
    // An empty variable sets nothing.
    if (text === "") continue;
    const file = environmentFiles.get(name);
    const value = await checkedValue(variable, text, file && join(workspace, file));
    config = withValue(config, variable.path, value);
    origins.set(key, file === undefined ? name : `${name} in ${file}`);
  }
  return { config, origins: [...origins].map(([key, from]) => ({ key, from })) };
}

async function readConfigFile(path: string, graph: ConfigLoader): Promise<Config> {
  const { exports } = await graph.load(path);
  const given = isRecord(exports) && exports.default !== undefined ? exports.default : exports;
  const judged = withoutLiveObjects(given);
  const outcome = surelyFits(configSchema, judged) ? ({ ok: true } as const) : await schema.validate(judged);
  const config = given as Config; // Used only when the schema accepts it.
  const problems = outcome.ok
    ? [...addressProblems(config), ...patternProblems(config)]
    : [
        ...outcome.issues.map(({ path: key, message }) => (key === "" ? message : `${key}: ${message}`)),
        ...misplacedKeys(given),
      ];
  if (problems.length === 0) return config;
  throw new LoadError(`The config is not valid. ${problems.join(" ")}`, "Correct these keys.", { path });
}

/** For unknown keys of the config that belong into one of its groups: where each is to be written. */
function misplacedKeys(given: unknown): string[] {
  const known = propertiesOf(configSchema);
  const unknown = isRecord(given) ? Object.keys(given).filter((key) => !Object.hasOwn(known, key)) : [];
  return unknown.flatMap((key) => {
    const places = placesOf(key).map((place) => `\`${place}\``);
    return places.length === 0 ? [] : [`\`${key}\` is written as ${places.join(" or ")}.`];
  });
}

/** Where the schema of the config has a key of this name: `server.port`, `sandbox.grants.NAME.hosts`. */
function placesOf(key: string): string[] {
  const found: string[] = [];
  walkSchemas(configSchema, (place) => {
    const [keyword, member] = place.steps;
    if (keyword === "properties" && member === key) found.push(pathOf(place));
    return true;
  });
  return found;
}

function pathOf({ steps, parent }: SchemaPlace): string {
  const [keyword, member] = steps;
  const own = keyword === "properties" ? String(member) : keyword === "additionalProperties" ? "NAME" : "";
  return [parent === undefined ? "" : pathOf(parent), own].filter((part) => part !== "").join(".");
}

/**
 * Replaces services, models and context by empty objects: they hold live objects that the schema must not
 * copy or look at.
 */
function withoutLiveObjects(config: unknown): unknown {
  if (!isRecord(config)) return config;
  const live = ["services", "models", "context"].filter(
    (key) => typeof config[key] === "object" && config[key] !== null,
  );
  return { ...config, ...Object.fromEntries(live.map((key) => [key, {}])) };
}

/** `path`: the workspace's file that sets the variable, if one does. Throws `LoadError`. */
async function checkedValue(
  variable: ConfigVariable,
  text: string,
  path: string | undefined,
): Promise<unknown> {
  const { name } = variable;
  const outcome = await readVariable(variable, text);
  if ("problem" in outcome) {
    throw new LoadError(outcome.problem, `Correct or remove the variable ${name}.`, defined({ path }));
  }
  const problems = patternProblems(withValue({}, variable.path, outcome.value));
  if (problems.length === 0) return outcome.value;
  const problem = `The variable ${name} is not valid. ${problems.join(" ")}`;
  throw new LoadError(problem, "Correct or remove it.", defined({ path }));
}

/** Copies the object with another value at the path. */
function withValue(holder: object, [key = "", ...rest]: readonly string[], value: unknown): Config {
  const before: unknown = Object.entries(holder).find(([name]) => name === key)?.[1];
  const inner = rest.length === 0 ? value : withValue(isRecord(before) ? before : {}, rest, value);
  return { ...holder, [key]: inner };
}

function valueAt(holder: unknown, path: readonly string[]): unknown {
  return path.reduce((at, key) => (isRecord(at) ? at[key] : undefined), holder);
}

/** What is wrong with hosts and addresses, each with its key. A misspelt host would silently grant nothing. */
function addressProblems({ sandbox, providers = {} }: Config): string[] {
  const hosts = Object.entries(sandbox?.grants ?? {}).flatMap(([tool, grant]) =>
    problemsAt(`sandbox.grants.${tool}.hosts`, grant.hosts, grantProblem),
  );
  const addresses = Object.entries(providers).flatMap(([name, { baseURL }]) =>
    credentials.test(baseURL) ? [`providers.${name}.baseURL ${credentialsProblem}`] : [],
  );
  return [...hosts, ...addresses];
}

function patternProblems({ mcp, sandbox, approvals, lint }: Config): string[] {
  const grants = Object.entries(sandbox?.grants ?? {});
  return [
    ...problemsAt("mcp.alwaysListed", mcp?.alwaysListed, problemOfToolPattern),
    ...problemsAt("approvals.unguarded", approvals?.unguarded, problemOfToolPattern),
    ...Object.entries(lint?.off ?? {}).flatMap(([rule, patterns]) =>
      problemsAt(`lint.off.${rule}`, patterns, problemOfToolPattern),
    ),
    ...grants.flatMap(([tool, { tools }]) =>
      problemsAt(`sandbox.grants.${tool}.tools`, tools, problemOfToolPattern),
    ),
  ];
}

function problemsAt(
  key: string,
  values: readonly string[] = [],
  problemOf: (value: string) => string | undefined,
): string[] {
  return values.flatMap((value, index) => {
    const problem = problemOf(value);
    return problem === undefined ? [] : [`${key}[${index}]: ${problem}`];
  });
}

/** Says what is wrong with a provider's address after its references are filled in; undefined when it is usable. */
export function addressProblem(baseURL: string): string | undefined {
  if (credentials.test(baseURL)) return credentialsProblem;
  const isHttp = URL.canParse(baseURL) && /^https?:$/.test(new URL(baseURL).protocol);
  return isHttp ? undefined : "is no http or https address.";
}

/** The address for display, without credentials and without the values of its query. */
export function shownAddress(baseURL: string): string {
  const plain = baseURL.replace(/\/+$/, "").replace(credentials, "$1");
  return plain.replace(/([?&][^=&#]*=)[^&#]*/g, "$1…");
}

const credentials = /^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i;

const credentialsProblem =
  "has a user name or a password in it, which is not sent. Put what the server asks for into apiKey or headers, as a " +
  // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how people write it.
  'reference to a secret: headers: { authorization: "Basic ${secret:NAME}" }.';

/** The file that set each environment variable. Global, as the environment is. */
const environmentFiles = new Map<string, string>();

/**
 * Loads the workspace's `.env.local` and `.env` into the environment, where tools and the config look.
 * Variables that are set already win. Returns a function that removes the loaded variables again, so that
 * another workspace can load its own.
 */
export async function loadEnvironment(workspace: string, logger: Logger): Promise<() => void> {
  const added = new Map<string, string>();
  for (const file of [".env.local", ".env"]) {
    const variables = await readFile(join(workspace, file), "utf8").then(
      parseEnv,
      ({ code, message }: NodeJS.ErrnoException) => {
        if (code !== "ENOENT") logger.warn(`${file} is not loaded: ${message}`);
        return {};
      },
    );
    for (const [name, value] of Object.entries(variables)) {
      if (value === undefined || process.env[name] !== undefined) continue;
      process.env[name] = value;
      added.set(name, value);
      environmentFiles.set(name, file);
    }
  }
  return () => {
    for (const [name, value] of added) {
      environmentFiles.delete(name);
      if (process.env[name] === value) delete process.env[name];
    }
  };
}

/** Files named like a config that are not read: the config is code, never JSON or YAML. */
export function unreadConfigs(workspace: string): string[] {
  if (!existsSync(workspace)) return [];
  return readdirSync(workspace).filter(
    (name) => /^toolrack\.config\.[^.]+$/.test(name) && !/\.(?:[cm]?js|m?ts)$/.test(name),
  );
}

/** Where projects usually have their tool files. A workspace reads `tools` alone, unless its config says otherwise. */
export const usualFolders: readonly string[] = [
  "tools",
  "src/tools",
  "internal-tools",
  "src/internal-tools",
  ".opencode/tools",
  ".opencode/tool",
];

export function usualFoldersIn(directory: string): string[] {
  return usualFolders.filter((folder) =>
    statSync(join(directory, folder), { throwIfNoEntry: false })?.isDirectory(),
  );
}
