import { isIP } from "node:net";
import type { JsonSchemaObject } from "@toolrack/core";
import ipaddr from "ipaddr.js";
import { plainHost } from "../helpers/index.ts";
import { problemOfToolPattern } from "./tool-patterns.ts";

/**
 * The host application's services, as contract 1 finds them in `ctx.service`. Say what yours are:
 * `declare module "toolrack" { interface Services { project: ProjectService } }`.
 */
// biome-ignore lint/suspicious/noEmptyInterface: applications add their own members to it.
export interface Services {}

/** The same for `ctx.model`. */
// biome-ignore lint/suspicious/noEmptyInterface: applications add their own members to it.
export interface Models {}

/** How a model is to be talked to. */
export interface ModelTraits {
  /** `tags`: it has no tool calls of its own; they are written into the text. Default `native`. */
  readonly toolCalls?: "native" | "tags";
  /** Whether it takes images that tools return. Default true. */
  readonly images?: boolean;
  /** Default: `chat.contextTokens`. */
  readonly contextTokens?: number;
}

/** A server that models are asked on. What it says of its models holds for those that say nothing themselves. */
export interface ModelProvider extends ModelTraits {
  /** Up to and with `/v1`, as OpenAI's clients take it. */
  readonly baseURL: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: those that the server lists. */
  readonly models?: readonly (string | (ModelTraits & { readonly id: string }))[];
}

/** What a workspace's `toolrack.config.ts` may say. Everything is optional. */
export interface Config {
  /** Folders with tool files, relative to the workspace. Default `["tools"]`. */
  readonly tools?: readonly string[];
  /** Whether the built-in tools are on the rack. Default true. */
  readonly builtins?: boolean;
  /** What handlers of contract 1 find in `ctx.service`. */
  readonly services?: Services & Readonly<Record<string, unknown>>;
  /** What handlers of contract 1 find in `ctx.model`. */
  readonly models?: Models & Readonly<Record<string, unknown>>;
  /** Anything else that handlers of contract 1 expect in their `ctx`, such as `helper` or `curl`. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** Folders beside the workspace itself that file tools may touch. */
  readonly roots?: readonly string[];
  /** Databases by name, as URLs: `sqlite:data/app.db`, `postgres://…`, `mysql://…`. */
  readonly databases?: Readonly<Record<string, string>>;
  readonly network?: {
    /** Private hosts that network tools may reach all the same. */
    readonly allowPrivate?: readonly string[];
  };
  readonly log?: {
    /** Default `log/ToolBox.log`. */
    readonly file?: string;
    /** A file that grew beyond it is put aside. Default 10 MiB. */
    readonly maxBytes?: number;
    /** How many files that were put aside are kept. Default 5. */
    readonly keep?: number;
  };
  /** Where `toolrack serve` listens, unless its command line says otherwise. */
  readonly server?: {
    /** Default `127.0.0.1`: only this machine. */
    readonly host?: string;
    /** Default 7300; 0 takes any free one. */
    readonly port?: number;
    /** Names in the `Host` header that are answered beside loopback and the address itself: those of a proxy. */
    readonly allowedHosts?: readonly string[];
    /** Origins whose pages may call the server from a browser. Default none. */
    readonly allowedOrigins?: readonly string[];
    /** The largest body of a request, in bytes. Default 10 MiB. */
    readonly maxBody?: number;
    /** Requests a second for each token but the workspace's own; twice as many at once. 0: no limit. Default 100. */
    readonly rateLimit?: number;
    /** How many calls of one tool may be under way. Default 256. */
    readonly maxCallsPerTool?: number;
    /** How long calls may go on after the server was told to stop, in milliseconds. Default 10,000. */
    readonly drainTimeout?: number;
  };
  readonly approvals?: {
    /** How long a question waits for an answer, in milliseconds; then it is a denial. Default 5 minutes. */
    readonly timeout?: number;
  };
  /** What `toolrack serve` keeps of calls that have ended. */
  readonly retention?: {
    /** Older ones are deleted. Default 30. */
    readonly days?: number;
    /** The oldest are deleted when all together are larger. Default 1 GiB. */
    readonly maxBytes?: number;
  };
  /** How the rack is shown to MCP clients, and which MCP servers it uses itself. */
  readonly mcp?: {
    /** The file with the `mcpServers` that the rack uses, relative to the workspace. Default `mcp.json`. */
    readonly file?: string;
    /**
     * What happens to a tool of such a server whose description or schema is not what was approved. Default
     * `quarantine`: it is switched off until somebody approves the change. `trust`: the change is taken over. `off`:
     * nothing is remembered. What is seen for the first time is trusted.
     */
    readonly pinning?: "quarantine" | "trust" | "off";
    /**
     * Whether clients are shown `toolrack_search` and `toolrack_call` instead of all tools; calls by any name work all
     * the same. Default `auto`: when there are more than `threshold`.
     */
    readonly metaTools?: "auto" | "on" | "off";
    /** Default 100. */
    readonly threshold?: number;
    /** Tools that are listed beside the meta-tools, as patterns: `web_*`, `mcp:KEY`. Default none. */
    readonly alwaysListed?: readonly string[];
    /**
     * Who is asked before a dangerous tool runs for an MCP client. Default `client`: the inbox, and also the person at
     * the client when it can ask them and may approve, which over HTTP its token says; the first answer counts. `stdio`:
     * of the clients only one that started the program itself. `inbox`: the inbox alone.
     */
    readonly approvals?: "client" | "stdio" | "inbox";
  };
  /** Tools that live in the database and in folders with a `SKILL.md`. */
  readonly skills?: {
    /** What models call them by: `id` (default), or `readable` names such as `searxng_search__web_search`. */
    readonly toolNames?: "id" | "readable";
    /** Folders of skills, relative to the workspace. Default `["skills"]`. */
    readonly folders?: readonly string[];
    /** Lets http tools of skills reach private addresses. `TOOLRACK_ALLOW_PRIVATE_NETWORK=1` does the same. */
    readonly allowPrivateNetwork?: boolean;
  };
  /**
   * Servers that speak OpenAI's Chat Completions, by name. `${NAME}` in an address, key or header stands for a variable
   * of the environment, `${secret:NAME}` for a secret of the workspace. `OPENAI_BASE_URL` and `OPENAI_API_KEY` make one
   * named `openai`.
   */
  readonly providers?: Readonly<Record<string, ModelProvider>>;
  /** Conversations with models. */
  readonly chat?: {
    /** The model when nobody names one: `NAME`, or `PROVIDER/NAME`. Default: the first that a provider has. */
    readonly model?: string;
    /** How often a model is asked in one turn. Default 50. */
    readonly maxRounds?: number;
    /** How long a turn may take, in seconds, without the time that people take to answer. Default 900. */
    readonly maxSeconds?: number;
    /** Tokens of all requests of one turn. Default 2,000,000. */
    readonly maxTokens?: number;
    /** Characters of one answer of a model: text, reasoning and arguments together. Default 4,000,000. */
    readonly maxAnswer?: number;
    /** What a model can read at a time, in tokens; old results give way before it is full. Default 128,000. */
    readonly contextTokens?: number;
    /** Tokens that definitions of tools may take; with more, the most fitting are offered. Default 16,000. */
    readonly toolBudget?: number;
  };
  /** What tools that run in the sandbox may have and use. */
  readonly sandbox?: SandboxConfig;
  /** Longest run of a tool that sets no limit of its own, in milliseconds. Default 120,000. */
  readonly timeout?: number;
  /** What callers hold who do not say, as patterns. Default: everything, since the tools are the operator's own. */
  readonly permissions?: readonly string[];
}

/** Gives a workspace's `toolrack.config.ts` its types. */
export function defineConfig(config: Config): Config {
  return config;
}

/** What the operator lets one sandboxed tool have, beside what every tool has. */
export interface SandboxGrant {
  /** Network hosts: `api.example.com`, `*.example.com`, `localhost:8080`, or `*` for every public one. */
  readonly hosts?: readonly string[];
  /** Tools outside the sandbox that it may call, as patterns: `internal_file_*`, `mcp:KEY`. */
  readonly tools?: readonly string[];
  /** Values of its environment that are no secrets. Secrets are set with `toolrack secrets set TOOL NAME`. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** How code is run that nobody reviewed. */
export interface SandboxConfig {
  /** By the name of the tool. */
  readonly grants?: Readonly<Record<string, SandboxGrant>>;
  /** Refuse to run sandboxed tools where the sandbox is weaker than this level. */
  readonly require?: 2 | 3;
  /** Let tools that came from elsewhere run although only level 2 can be had. Default false. */
  readonly allowForeign?: boolean;
  /** For every sandboxed tool. */
  readonly limits?: Partial<WorkerLimits>;
}

const sandboxTexts = { type: "array", items: { type: "string", minLength: 1 } } as const;
const count = { type: "integer", minimum: 1 } as const;

const grant = {
  type: "object",
  additionalProperties: false,
  properties: {
    hosts: sandboxTexts,
    tools: sandboxTexts,
    environment: { type: "object", additionalProperties: { type: "string" } },
  },
} as const;

/** The JSON Schema of `SandboxConfig`. */
export const sandboxConfigSchema = {
  type: "object",
  additionalProperties: false,
  properties: {
    grants: { type: "object", additionalProperties: grant },
    require: { type: "integer", enum: [2, 3] },
    allowForeign: { type: "boolean" },
    limits: {
      type: "object",
      additionalProperties: false,
      properties: {
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
      } satisfies Record<keyof WorkerLimits, typeof count>,
    },
  },
} as const;

/** What is wrong with a config that fits the schema: a host that is none would grant nothing, and nobody would notice. */
export async function sandboxConfigProblems({ grants }: SandboxConfig = {}): Promise<string[]> {
  if (grants === undefined) return [];
  return Object.entries(grants).flatMap(([tool, { hosts = [] }]) =>
    hosts.flatMap((host, index) => {
      const problem = grantProblem(host);
      return problem === undefined ? [] : [`sandbox.grants.${tool}.hosts[${index}]: ${problem}`];
    }),
  );
}

const texts = { type: "array", items: { type: "string" } } as const;
const modelTraits = {
  toolCalls: { enum: ["native", "tags"] },
  images: { type: "boolean" },
  contextTokens: { type: "integer", minimum: 1024 },
} as const;
const anything = { type: "object", additionalProperties: true } as const;

/** What a config may say. Variables of the environment, and their documentation, are derived from it. */
export const configSchema = {
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
        maxBody: { type: "integer", minimum: 1024 },
        rateLimit: { type: "number", minimum: 0 },
        maxCallsPerTool: { type: "integer", minimum: 1 },
        drainTimeout: { type: "integer", minimum: 0 },
      },
    },
    approvals: {
      type: "object",
      additionalProperties: false,
      properties: { timeout: { type: "integer", minimum: 1_000 } },
    },
    retention: {
      type: "object",
      additionalProperties: false,
      properties: {
        days: { type: "number", exclusiveMinimum: 0 },
        maxBytes: { type: "integer", minimum: 1024 },
      },
    },
    mcp: {
      type: "object",
      additionalProperties: false,
      properties: {
        file: { type: "string", minLength: 1 },
        pinning: { enum: ["quarantine", "trust", "off"] },
        metaTools: { enum: ["auto", "on", "off"] },
        threshold: { type: "integer", minimum: 0 },
        alwaysListed: texts,
        approvals: { enum: ["client", "stdio", "inbox"] },
      },
    },
    skills: {
      type: "object",
      additionalProperties: false,
      properties: {
        toolNames: { enum: ["id", "readable"] },
        folders: texts,
        allowPrivateNetwork: { type: "boolean" },
      },
    },
    providers: {
      type: "object",
      additionalProperties: {
        type: "object",
        additionalProperties: false,
        properties: {
          baseURL: { type: "string", minLength: 1 },
          apiKey: { type: "string" },
          headers: { type: "object", additionalProperties: { type: "string" } },
          models: {
            type: "array",
            items: {
              anyOf: [
                { type: "string", minLength: 1 },
                {
                  type: "object",
                  additionalProperties: false,
                  properties: { id: { type: "string", minLength: 1 }, ...modelTraits },
                  required: ["id"],
                },
              ],
            },
          },
          ...modelTraits,
        },
        required: ["baseURL"],
      },
    },
    chat: {
      type: "object",
      additionalProperties: false,
      properties: {
        model: { type: "string", minLength: 1 },
        maxRounds: { type: "integer", minimum: 1 },
        maxSeconds: { type: "number", exclusiveMinimum: 0 },
        maxTokens: { type: "integer", minimum: 1 },
        maxAnswer: { type: "integer", minimum: 1000, maximum: 100_000_000 },
        contextTokens: { type: "integer", minimum: 1024 },
        toolBudget: { type: "integer", minimum: 0 },
      },
    },
    sandbox: sandboxConfigSchema,
    timeout: { type: "number", minimum: 0 },
    permissions: texts,
  },
} as const satisfies JsonSchemaObject;

const USUAL_DAYS = 30;
const USUAL_BYTES = 1024 ** 3;

/** How long, and how much of, what ended is kept. */
export function retentionOf({
  retention = {},
}: Pick<Config, "retention">): Required<NonNullable<Config["retention"]>> {
  const { days = USUAL_DAYS, maxBytes = USUAL_BYTES } = retention;
  return { days, maxBytes };
}

/** What is wrong with the addresses of model providers, for people. References in them are not filled in here. */
export function providerAddressProblems(providers: Readonly<Record<string, ModelProvider>> = {}): string[] {
  return Object.entries(providers).flatMap(([name, { baseURL }]) => {
    const problem = hasCredentials(baseURL) ? credentialsProblem : undefined;
    return problem === undefined ? [] : [`providers.${name}.baseURL ${problem}`];
  });
}

/** What is wrong with an address in which all references are filled in; undefined when it can be asked. */
export function addressProblem(baseURL: string): string | undefined {
  if (hasCredentials(baseURL)) return credentialsProblem;
  const isHttp = URL.canParse(baseURL) && /^https?:$/.test(new URL(baseURL).protocol);
  return isHttp ? undefined : "is no http or https address.";
}

/** The address as people are shown it: as it was written, without credentials and without the values of a query. */
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

/** What is wrong with the patterns of tools in a config that fits the schema, for people, each with the key that it is at. */
export function toolPatternProblems({ mcp, sandbox }: Pick<Config, "mcp" | "sandbox">): string[] {
  const grants = Object.entries(sandbox?.grants ?? {});
  return [
    ...problemsAt("mcp.alwaysListed", mcp?.alwaysListed),
    ...grants.flatMap(([tool, { tools }]) => problemsAt(`sandbox.grants.${tool}.tools`, tools)),
  ];
}

function problemsAt(key: string, patterns: readonly string[] = []): string[] {
  return patterns.flatMap((pattern, index) => {
    const problem = problemOfToolPattern(pattern);
    return problem === undefined ? [] : [`${key}[${index}]: ${problem}`];
  });
}

/** The hosts that a piece of code may reach. */
export interface Grants {
  allows(host: string, port: number): boolean;
  /**
   * Granted addresses, ranges of addresses, and names that only the own network can give away. These may be private.
   * The owner of any other name can make it lead to this machine, so such a name alone opens nothing private.
   */
  readonly mayBePrivate: readonly string[];
}

const webPorts: readonly number[] = [80, 443];

/**
 * `api.example.com` grants that name, `*.example.com` every name below it, `*` every name and public address, all on
 * the ports of the web; `host:8080` grants that port alone. A range such as `10.0.0.0/8` grants nothing by itself;
 * granted names may lead into it. An entry that is none of these grants nothing; `grantProblem` says why.
 */
export function parseGrants(hosts: readonly string[]): Grants {
  const entries = hosts.map(parseEntry);
  return {
    allows: (host, port) => {
      const name = plainHost(host);
      return entries.some((entry) => entry.ports.includes(port) && entry.matches(name));
    },
    mayBePrivate: entries.flatMap(({ localHost }) => (localHost === undefined ? [] : [localHost])),
  };
}

interface Entry {
  readonly ports: readonly number[];
  readonly localHost?: string;
  matches(name: string): boolean;
}

/** What is wrong with a grant, and what to write instead; nothing when it is one. */
export function grantProblem(text: string): string | undefined {
  const { name, port } = split(text);
  if (port !== undefined && port > 65_535) return `${JSON.stringify(text)} has a port above 65535.`;
  if (isGrantable(name)) return undefined;
  const meant = meantBy(text);
  const what = `${JSON.stringify(text)} is not a host, and grants nothing.`;
  return meant === undefined
    ? `${what} Write a host such as "api.example.com", "*.example.com", "localhost:8080", or "*" for every public one.`
    : `${what} Write "${meant}".`;
}

function isGrantable(name: string): boolean {
  if (name === "*" || isIP(name) !== 0 || ipaddr.isValidCIDR(name)) return true;
  const host = name.startsWith("*.") ? name.slice(2) : name;
  // A number in another spelling would never be found under this name.
  return hostName.test(host) && URL.canParse(`http://${host}`) && new URL(`http://${host}`).hostname === host;
}

const hostName = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/;

/** The host in an address of the web, or in another spelling of the name. */
function meantBy(text: string): string | undefined {
  const address = text.includes("://") ? text : `http://${text}`;
  if (!URL.canParse(address)) return undefined;
  const { host } = new URL(address);
  return isGrantable(split(host).name) ? host : undefined;
}

/** A name without brackets, and the port that it may have. An empty name when it is neither. */
function split(text: string): { readonly name: string; readonly port?: number } {
  const plain = text.trim();
  // An address with colons in it, and no brackets, has no port.
  if (isIP(plain) === 6 || ipaddr.isValidCIDR(plain)) return { name: plainHost(plain) };
  const [, host = "", port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(plain) ?? [];
  return {
    name: host === "*." ? "" : plainHost(host),
    ...(port === undefined ? {} : { port: Number(port) }),
  };
}

function parseEntry(text: string): Entry {
  const { name, port } = split(text);
  if (!isGrantable(name)) return { ports: [], matches: () => false };
  const ports = port === undefined ? webPorts : [port];
  if (name === "*") return { ports, matches: () => true };
  if (name.startsWith("*.")) {
    const suffix = name.slice(1);
    return { ports, matches: (other) => other.endsWith(suffix) && other.length > suffix.length };
  }
  const matches = (other: string) => other === name;
  return isLocal(name) ? { ports, localHost: name, matches } : { ports, matches };
}

/** Names without a dot and those below these endings are never sold to anybody. */
const localEndings = /\.(localhost|local|internal|lan|home\.arpa|test)$/;

function isLocal(name: string): boolean {
  return isIP(name) !== 0 || name.includes("/") || !name.includes(".") || localEndings.test(name);
}

/** What one worker may use. Everything has a default; see `defaultLimits`. */
export interface WorkerLimits {
  /**
   * All memory of the worker's heap, buffers included. A worker that wants more ends, and its calls fail. So does a
   * program that, with all that it started, has more.
   */
  readonly memoryMb: number;
  /** Processor time of one call. Above it the worker is killed. Between calls a worker has a second. */
  readonly cpuSeconds: number;
  /** Processes and threads at once. At level 3 only programs that `run` started can make more. */
  readonly processes: number;
  /** What a call may answer, log and report together, in bytes. */
  readonly outputBytes: number;
  /** Size of the private scratch directory. At level 2 whoever writes more is ended a moment later. */
  readonly scratchMb: number;
  /** After this many calls the worker ends and another takes its place. */
  readonly maxCallsPerWorker: number;
  /** A worker that had no call for this long ends. */
  readonly idleMs: number;
  /** Calls at once in one worker. When all are busy, another worker is started. */
  readonly concurrency: number;
  /**
   * Workers at once for one key. Calls above that wait. Calls that other calls wait for have as many of their own, at
   * each depth: otherwise those who wait could hold all the workers that they wait for.
   */
  readonly workers: number;
  /** Evaluating the module and `init` together. */
  readonly initMs: number;
  /** `cleanup`, before the worker is killed. */
  readonly cleanupMs: number;
  /** Between the abort of a call's signal and the end of a worker that does not heed it. */
  readonly graceMs: number;
}

export const defaultLimits: WorkerLimits = {
  memoryMb: 256,
  cpuSeconds: 60,
  processes: 64,
  outputBytes: 10 * 1024 * 1024,
  scratchMb: 64,
  maxCallsPerWorker: 1000,
  idleMs: 60_000,
  concurrency: 4,
  workers: 4,
  initMs: 10_000,
  cleanupMs: 2_000,
  graceMs: 1_000,
};

/** In milliseconds. Beyond it a timer would not be late but go off at once. */
const longestTimer = 2 ** 31 - 1;

export function withDefaultLimits(limits: Partial<WorkerLimits> | undefined): WorkerLimits {
  if (limits === undefined) return defaultLimits;
  const { initMs, cleanupMs, graceMs, ...rest } = { ...defaultLimits, ...limits };
  return {
    ...rest,
    initMs: timerMs(initMs),
    cleanupMs: timerMs(cleanupMs),
    graceMs: timerMs(graceMs),
  };
}

export function timerMs(milliseconds: number): number {
  return Math.min(milliseconds, longestTimer);
}
