import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { compileSchema, type Logger } from "@toolrack/core";
import { LoadError } from "../sources/loader/load-failure.ts";
import type { ModuleGraph } from "../sources/loader/module-graph.ts";
import type { Config } from "./config.ts";
import { configSchema } from "./config-schema.ts";
import { configVariables } from "./config-variables.ts";
import { providerAddressProblems } from "./provider-address.ts";
import { readVariables, type SetVariable } from "./read-variables.ts";
import { sandboxConfigProblems } from "./sandbox-config.ts";
import { toolPatternProblems } from "./tool-pattern-problems.ts";
import { unreadConfigs } from "./unread-configs.ts";

/** A key that is set, and by what. */
export interface ConfigOrigin {
  readonly key: string;
  /** `toolrack.config.ts`, `TOOLRACK_SERVER_PORT`, or `TOOLRACK_SERVER_PORT in .env`. */
  readonly from: string;
}

export interface ReadConfig {
  readonly config: Config;
  readonly origins: readonly ConfigOrigin[];
}

const names = [
  "toolrack.config.ts",
  "toolrack.config.mts",
  "toolrack.config.js",
  "toolrack.config.mjs",
  "toolrack.config.cjs",
];
const schema = compileSchema(configSchema);

/** The workspace's config file, over which variables of the environment win. Throws `LoadError`. Warns of what is passed over. */
export async function readConfig(workspace: string, graph: ModuleGraph, logger: Logger): Promise<ReadConfig> {
  const path = names.map((name) => join(workspace, name)).find((candidate) => existsSync(candidate));
  for (const name of unreadConfigs(workspace)) {
    logger.warn(`${name} is not read. Write it as toolrack.config.ts: export default { … }. Or delete it.`);
  }
  const config = path === undefined ? {} : await readFile(path, graph);
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

async function readFile(path: string, graph: ModuleGraph): Promise<Config> {
  const { exports } = await graph.load(path);
  const config = (exports as { default?: unknown }).default ?? exports;
  // Services and models are live objects: they are looked at, and handed on as they are.
  const outcome = await schema.validate(shallow(config));
  const problems = outcome.ok
    ? [
        ...(await sandboxConfigProblems((config as Config).sandbox)),
        ...providerAddressProblems((config as Config).providers),
        ...toolPatternProblems(config as Config),
      ]
    : outcome.issues.map(({ path: key, message }) => (key === "" ? message : `${key}: ${message}`));
  if (problems.length === 0) return config as Config;
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
  const object = (holder ?? {}) as Record<string, unknown>;
  return { ...object, [key]: withValue(object[key], rest, value) };
}

function valueAt(holder: unknown, path: readonly string[]): unknown {
  return path.reduce((at, key) => (at as Record<string, unknown> | undefined)?.[key], holder);
}

function shallow(config: unknown): unknown {
  if (typeof config !== "object" || config === null) return config;
  const { services, models, context, ...rest } = config as Record<string, unknown>;
  return { ...rest, ...stand({ services, models, context }) };
}

/** An object stands for any object, so that nothing of it is copied. */
function stand(live: Record<string, unknown>): Record<string, unknown> {
  const present = Object.entries(live).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present.map(([key, value]) => [key, typeof value === "object" ? {} : value]));
}
