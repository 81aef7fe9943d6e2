import type { JsonSchemaObject } from "@toolrack/core";
import type { Config } from "./config.ts";
import { grantProblem, type WorkerLimits } from "./sandbox.ts";
import { problemOfToolPattern } from "./tool-patterns.ts";

/** An object with these keys and no others. */
function group<Keys extends object>(properties: Keys) {
  return { type: "object", additionalProperties: false, properties } as const;
}

function integer(minimum: number, maximum?: number) {
  return { type: "integer", minimum, ...(maximum === undefined ? {} : { maximum }) } as const;
}

const text = { type: "string", minLength: 1 } as const;
const texts = { type: "array", items: { type: "string" } } as const;
const named = { type: "array", items: text } as const;
const textMap = { type: "object", additionalProperties: { type: "string" } } as const;
const choice = { type: "boolean" } as const;
const anything = { type: "object", additionalProperties: true } as const;
const count = integer(1);
const modelTraits = {
  toolCalls: { enum: ["native", "tags"] },
  images: choice,
  contextTokens: integer(1024),
} as const;

const limits = {
  memoryMb: count,
  cpuSeconds: count,
  processes: count,
  outputBytes: count,
  scratchMb: count,
  maxCallsPerWorker: count,
  idleMs: count,
  concurrency: count,
  workers: count,
  initMs: count,
  cleanupMs: count,
  graceMs: count,
} satisfies Record<keyof WorkerLimits, typeof count>;

/** The keys of a config. The environment variables and their documentation are derived from it. */
export const configSchema: JsonSchemaObject = group({
  tools: texts,
  builtins: choice,
  services: anything,
  models: anything,
  context: anything,
  roots: texts,
  databases: textMap,
  network: group({ allowPrivate: texts }),
  log: group({ file: text, maxBytes: integer(1024), keep: integer(0, 1000) }),
  server: group({
    host: text,
    port: integer(0, 65_535),
    allowedHosts: texts,
    allowedOrigins: texts,
    maxBody: integer(1024),
    rateLimit: { type: "number", minimum: 0 },
    maxCallsPerTool: count,
    drainTimeout: integer(0),
  }),
  approvals: group({ timeout: integer(1_000) }),
  retention: group({ days: { type: "number", exclusiveMinimum: 0 }, maxBytes: integer(1024) }),
  mcp: group({
    file: text,
    pinning: { enum: ["quarantine", "trust", "off"] },
    metaTools: { enum: ["auto", "on", "off"] },
    threshold: integer(0),
    alwaysListed: texts,
    approvals: { enum: ["client", "stdio", "inbox"] },
  }),
  skills: group({ toolNames: { enum: ["id", "readable"] }, folders: texts, allowPrivateNetwork: choice }),
  providers: {
    type: "object",
    additionalProperties: {
      ...group({
        baseURL: text,
        apiKey: { type: "string" },
        headers: textMap,
        models: {
          type: "array",
          items: { anyOf: [text, { ...group({ id: text, ...modelTraits }), required: ["id"] }] },
        },
        ...modelTraits,
      }),
      required: ["baseURL"],
    },
  },
  chat: group({
    model: text,
    maxRounds: count,
    maxSeconds: { type: "number", exclusiveMinimum: 0 },
    maxTokens: count,
    maxAnswer: integer(1000, 100_000_000),
    contextTokens: integer(1024),
    toolBudget: integer(0),
  }),
  sandbox: group({
    grants: {
      type: "object",
      additionalProperties: group({ hosts: named, tools: named, environment: textMap }),
    },
    require: { type: "integer", enum: [2, 3] },
    allowForeign: choice,
    limits: group(limits),
  }),
  timeout: { type: "number", minimum: 0 },
  permissions: texts,
});

/**
 * Lists what is wrong with a config that fits the schema, each problem with its key. A misspelt host would silently
 * grant nothing.
 */
export function configProblems({ sandbox, providers = {}, ...config }: Config): string[] {
  const hosts = Object.entries(sandbox?.grants ?? {}).flatMap(([tool, grant]) =>
    problemsAt(`sandbox.grants.${tool}.hosts`, grant.hosts, grantProblem),
  );
  const addresses = Object.entries(providers).flatMap(([name, { baseURL }]) =>
    hasCredentials(baseURL) ? [`providers.${name}.baseURL ${credentialsProblem}`] : [],
  );
  return [...hosts, ...addresses, ...toolPatternProblems({ ...config, sandbox })];
}

/** The same for the tool patterns only. */
export function toolPatternProblems({
  mcp,
  sandbox,
}: {
  mcp?: Config["mcp"];
  sandbox?: Config["sandbox"] | undefined;
}): string[] {
  const grants = Object.entries(sandbox?.grants ?? {});
  return [
    ...problemsAt("mcp.alwaysListed", mcp?.alwaysListed, problemOfToolPattern),
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
  if (hasCredentials(baseURL)) return credentialsProblem;
  const isHttp = URL.canParse(baseURL) && /^https?:$/.test(new URL(baseURL).protocol);
  return isHttp ? undefined : "is no http or https address.";
}

/** The address for display, without credentials and without the values of its query. */
export function shownAddress(baseURL: string): string {
  return baseURL
    .replace(/\/+$/, "")
    .replace(credentials, "$1")
    .replace(/([?&][^=&#]*=)[^&#]*/g, "$1…");
}

const credentials = /^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i;

const credentialsProblem =
  "has a user name or a password in it, which is not sent. Put what the server asks for into apiKey or headers, as a " +
  // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how people write it.
  'reference to a secret: headers: { authorization: "Basic ${secret:NAME}" }.';

function hasCredentials(baseURL: string): boolean {
  return credentials.test(baseURL);
}

/** An environment variable for one key of the config. */
export interface ConfigVariable {
  /** `TOOLRACK_LOG_MAX_BYTES` */
  readonly name: string;
  /** `log.maxBytes` */
  readonly key: string;
  readonly path: readonly string[];
  readonly schema: JsonSchemaObject;
}

/** One variable for every key of the schema. */
export const configVariables: readonly ConfigVariable[] = variablesOf(configSchema, []);

/** Describes the variable's values in a form that needs no translation. */
export function formOf({ schema }: ConfigVariable): string {
  const { type, enum: choices } = schema;
  if (Array.isArray(choices)) return choices.map((choice) => `\`${choice}\``).join(", ");
  switch (type) {
    case "boolean":
      return "`true`, `false`";
    case "array":
      return '`a,b` · `["a","b"]`';
    case "object":
      return "`{…}` (JSON)";
    case "integer":
    case "number":
      return [type, ...limitsOf(schema)].join(" ");
    default:
      return typeof type === "string" ? type : "JSON";
  }
}

function variablesOf(schema: JsonSchemaObject, path: readonly string[]): ConfigVariable[] {
  // Every property of this schema is a schema.
  const properties = (schema.properties ?? {}) as Record<string, JsonSchemaObject>;
  return Object.entries(properties).flatMap(([key, part]) => {
    const place = [...path, key];
    // An object whose keys are known is a group of keys; any other is a value.
    if (part.properties !== undefined) return variablesOf(part, place);
    return [{ name: variableName(place), key: place.join("."), path: place, schema: part }];
  });
}

function variableName(path: readonly string[]): string {
  const words = path.map((key) => key.replaceAll(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter}`));
  return ["TOOLRACK", ...words].join("_").toUpperCase();
}

function limitsOf({ minimum, exclusiveMinimum, maximum }: JsonSchemaObject): string[] {
  return [
    ...(typeof minimum === "number" ? [`≥ ${minimum}`] : []),
    ...(typeof exclusiveMinimum === "number" ? [`> ${exclusiveMinimum}`] : []),
    ...(typeof maximum === "number" ? [`≤ ${maximum}`] : []),
  ];
}
