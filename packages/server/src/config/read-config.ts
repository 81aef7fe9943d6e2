import { existsSync } from "node:fs";
import { join } from "node:path";
import { compileSchema } from "@toolrack/core";
import { LoadError } from "../sources/loader/load-failure.ts";
import type { ModuleGraph } from "../sources/loader/module-graph.ts";
import type { Config } from "./config.ts";

const names = [
  "toolrack.config.ts",
  "toolrack.config.mts",
  "toolrack.config.js",
  "toolrack.config.mjs",
  "toolrack.config.cjs",
];
const texts = { type: "array", items: { type: "string" } } as const;
const anything = { type: "object", additionalProperties: true } as const;

const schema = compileSchema({
  type: "object",
  additionalProperties: false,
  properties: {
    tools: texts,
    builtins: { type: "boolean" },
    services: anything,
    models: anything,
    context: anything,
    roots: texts,
    databases: { type: "object", additionalProperties: { type: "string" } },
    network: { type: "object", additionalProperties: false, properties: { allowPrivate: texts } },
    log: {
      type: "object",
      additionalProperties: false,
      properties: {
        file: { type: "string", minLength: 1 },
        maxBytes: { type: "integer", minimum: 1024 },
        keep: { type: "integer", minimum: 0, maximum: 1000 },
      },
    },
    server: {
      type: "object",
      additionalProperties: false,
      properties: {
        host: { type: "string", minLength: 1 },
        port: { type: "integer", minimum: 0, maximum: 65_535 },
        allowedHosts: texts,
        allowedOrigins: texts,
      },
    },
    retention: {
      type: "object",
      additionalProperties: false,
      properties: {
        days: { type: "number", exclusiveMinimum: 0 },
        maxBytes: { type: "integer", minimum: 1024 },
      },
    },
    timeout: { type: "number", minimum: 0 },
    permissions: texts,
  },
});

/** The workspace's config file, validated; empty when there is none. Throws `LoadError`. */
export async function readConfig(workspace: string, graph: ModuleGraph): Promise<Config> {
  const path = names.map((name) => join(workspace, name)).find((candidate) => existsSync(candidate));
  if (path === undefined) return {};
  const { exports } = await graph.load(path);
  const config = (exports as { default?: unknown }).default ?? exports;
  // Services and models are live objects: they are looked at, and handed on as they are.
  const outcome = await schema.validate(shallow(config));
  if (outcome.ok) return config as Config;
  const problems = outcome.issues.map(({ path: key, message }) =>
    key === "" ? message : `${key}: ${message}`,
  );
  throw new LoadError(`The config is not valid. ${problems.join(" ")}`, "Correct these keys.", { path });
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
