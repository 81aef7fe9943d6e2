import { choice as choiceOf, list, map, type Schema, type ValueOf } from "../helpers/schema.ts";

type Keys = Readonly<Record<string, Schema>>;
/** Keeps the comments of the keys, which people see in their editors. */
type Members<Group extends Keys> = { readonly [Name in keyof Group]?: ValueOf<Group[Name]> };

/** The schema of an object with these keys and no others. */
function group<Group extends Keys, Required extends keyof Group = never>(
  properties: Group,
  required: Required[] = [],
): Schema<Members<Group> & { readonly [Name in Required]: ValueOf<Group[Name]> }> {
  return { type: "object", additionalProperties: false, properties, required };
}

function integer(minimum: number, maximum?: number): Schema<number> {
  return { type: "integer", minimum, ...(maximum === undefined ? {} : { maximum }) };
}

function oneOf<const Choice extends string>(...choices: Choice[]): Schema<Choice> {
  return choiceOf(choices);
}

function anything<Value extends object>(): Schema<Value> {
  return { type: "object", additionalProperties: true };
}

const text: Schema<string> = { type: "string", minLength: 1 };
const anyText: Schema<string> = { type: "string" };
const texts = list(anyText);
const someTexts: Schema<readonly string[]> = { type: "array", items: text, minItems: 1 };
const choice: Schema<boolean> = { type: "boolean" };
const count = integer(1);
const positive: Schema<number> = { type: "number", exclusiveMinimum: 0 };
const seconds: Schema<number> = { type: "number", exclusiveMinimum: 0, maximum: 86_400 };
const notNegative: Schema<number> = { type: "number", minimum: 0 };

/**
 * The host application's services, which tools of contract 1 get as `ctx.service`. Declare yours: `declare module
 * "toolrack" { interface Services { project: ProjectService } }`.
 */
// biome-ignore lint/suspicious/noEmptyInterface: applications add their own members to it.
export interface Services {}

/** The host application's models, which tools of contract 1 get as `ctx.model`. Declared like `Services`. */
// biome-ignore lint/suspicious/noEmptyInterface: applications add their own members to it.
export interface Models {}

/** What a model can do. */
const modelTraits = {
  /** `tags`: the model has no native tool calls and writes them into its text. Default `native`. */
  toolCalls: oneOf("native", "tags"),
  /** Whether the model accepts images that tools return. Default true. */
  images: choice,
  /** The model's context size in tokens. Default: `chat.contextTokens`. */
  contextTokens: integer(1024),
  /** `tags`: the model writes its reasoning into its text, between `<think>` and `</think>`. Default `native`. */
  reasoning: oneOf("native", "tags"),
  /** A provider that sends nothing at all for this many seconds is given up. Default 300. */
  idleSeconds: seconds,
  /**
   * What a million tokens cost, in a currency of your choice, for the statistics. `cachedInput`: tokens that the provider
   * read from its cache; default as `input`.
   */
  price: group({ input: notNegative, output: notNegative, cachedInput: notNegative }, ["input", "output"]),
};

export type ModelTraits = Members<typeof modelTraits>;

const listedModel: Schema<string | (ModelTraits & { readonly id: string })> = {
  anyOf: [text, group({ id: text, ...modelTraits }, ["id"])],
};

/** A server with models. Its traits hold for models that have none of their own. */
const provider = {
  /** Including `/v1`, as for OpenAI's clients. */
  baseURL: text,
  apiKey: anyText,
  headers: map(anyText),
  /** Default: the models that the server lists. */
  models: list(listedModel),
  /** Also ask this provider for models that no provider has. Default false: such a model is not found. */
  catchAll: choice,
  ...modelTraits,
};

/** A folder of the workspace, relative to it: a text opens it for reading, `write: true` for writing too. */
const folderGrant: Schema<string | { readonly path: string; readonly write?: boolean }> = {
  anyOf: [text, group({ path: text, write: choice }, ["path"])],
};

export type FolderGrant = ValueOf<typeof folderGrant>;

const sandboxGrant = {
  /** Network hosts: `api.example.com`, `*.example.com`, `localhost:8080`, or `*` for all public hosts. */
  hosts: list(text),
  /** Tools outside the sandbox that the tool may call, as patterns: `internal_file_*`, `mcp:KEY`. */
  tools: list(text),
  /** Environment variables that are not secret. Others are set with `toolrack settings`, secrets with `toolrack secrets`. */
  environment: map(anyText),
  /** Folders of the workspace that the tool may read, or with `{ path, write: true }` write too. Default none. */
  folders: list(folderGrant),
};

/** What the operator allows one sandboxed tool, besides what every tool has. */
export type SandboxGrant = Members<typeof sandboxGrant>;

/** What one worker may use. */
export const defaultLimits = {
  /**
   * The worker's heap with buffers. A worker that needs more is ended, and its calls fail. The same limit
   * holds for a program that a tool runs, together with all processes that the program started.
   */
  memoryMb: 256,
  /** Processor time of one call; above it the worker is killed. Between calls a worker may use one second. */
  cpuSeconds: 60,
  /**
   * Processes and threads at once. At sandbox level 3, only programs that a tool started with `run` can start
   * further ones.
   */
  processes: 64,
  /** Bytes of a call's result, log and progress together. */
  outputBytes: 10 * 1024 * 1024,
  /**
   * Size of the private scratch directory. At sandbox level 2, a worker that writes more is ended a moment
   * later.
   */
  scratchMb: 64,
  /** Size of a tool's lasting data folder. A worker or program that writes more is ended some seconds later. */
  dataMb: 1024,
  /** After this many calls a new worker replaces the old one. */
  maxCallsPerWorker: 1000,
  /** A worker without calls for this long ends. */
  idleMs: 60_000,
  /** Calls at once in one worker. When all workers are busy, another is started. */
  concurrency: 4,
  /**
   * Workers at once for one version of a tool's code; further calls wait. Each depth of a chain has as many
   * workers of its own: otherwise waiting calls could hold all the workers that they wait for.
   */
  workers: 4,
  /** How long evaluating the module and `init` together may take. */
  initMs: 10_000,
  /** How long `cleanup` may take before the worker is killed. */
  cleanupMs: 2_000,
  /** Milliseconds from the abort of a call's signal until a worker that ignores it is killed. */
  graceMs: 1_000,
};

export type WorkerLimits = Readonly<typeof defaultLimits>;

const limitsSchema: Schema<Partial<WorkerLimits>> = group(
  Object.fromEntries(Object.keys(defaultLimits).map((name) => [name, count])),
);

const sandboxLevel: Schema<2 | 3> = { type: "integer", enum: [2, 3] };

const sandbox = {
  /** What each tool is granted, by the name of the tool. */
  grants: map(group(sandboxGrant)),
  /** Refuse to run sandboxed tools if the sandbox is weaker than this level. */
  require: sandboxLevel,
  /** Let tools that lie outside the workspace run even if only level 2 is available. Default false. */
  allowForeign: choice,
  /** The limits of every sandboxed tool's workers. */
  limits: limitsSchema,
};

/** How unreviewed code runs. */
export type SandboxConfig = Members<typeof sandbox>;

/** What `toolrack lint` looks for. */
export const lintRules = [
  ...(["description_missing", "description_vague", "parameter_undescribed", "parameter_vague"] as const),
  ...(["near_twin", "unknown_id", "strict_lost", "provider_loss", "name_long", "tokens_high"] as const),
  ...(["annotations_contradict", "destructive_unmarked"] as const),
] as const;

export type LintRule = (typeof lintRules)[number];

/** Patterns of tools by rule; `all` stands for every rule. */
const lintPatterns: Schema<{ readonly [Rule in LintRule | "all"]?: readonly string[] }> = {
  ...map(texts),
  propertyNames: { enum: [...lintRules, "all"] },
};

const keys = {
  /** Folders with tool files, relative to the workspace. Default `["tools"]`. */
  tools: texts,
  /** Whether the built-in tools are on the rack. Default true. */
  builtins: choice,
  /** The `ctx.service` of contract 1. */
  services: anything<Services & Readonly<Record<string, unknown>>>(),
  /** The `ctx.model` of contract 1. */
  models: anything<Models & Readonly<Record<string, unknown>>>(),
  /** Anything else that handlers of contract 1 expect in their `ctx`, such as `helper` or `curl`. */
  context: anything<Readonly<Record<string, unknown>>>(),
  /** Folders beside the workspace itself that file tools may touch. */
  roots: texts,
  /** Databases by name, as URLs: `sqlite:data/app.db`, `postgres://…`, `mysql://…`. */
  databases: map(anyText),
  network: group({
    /** Private hosts that network tools may reach all the same. */
    allowPrivate: texts,
  }),
  log: group({
    /** The log file. Default `log/ToolBox.log`. */
    file: text,
    /** A larger file is rotated. Default 10 MiB. */
    maxBytes: integer(1024),
    /** How many rotated files are kept. Default 5. */
    keep: integer(0, 1000),
  }),
  /** Where `toolrack serve` listens, unless its command line says otherwise. */
  server: group({
    /** The address to listen on. Default `127.0.0.1`: only this machine can connect. */
    host: text,
    /** Default 7300; 0 takes any free port. */
    port: integer(0, 65_535),
    /**
     * Values of the `Host` header that are accepted besides loopback and the address itself, such as a proxy's name.
     */
    allowedHosts: texts,
    /** Origins whose pages may call the server from a browser. Default none. */
    allowedOrigins: texts,
    /** The largest body of a request, in bytes. Default 10 MiB. */
    maxBody: integer(1024),
    /**
     * Requests per second for each token except the workspace's own, with bursts of twice as many. 0: no limit. Default
     * 100.
     */
    rateLimit: notNegative,
    /** How many calls of one tool may run at once. Default 256. */
    maxCallsPerTool: count,
    /** How long running calls may go on after the server was told to stop, in milliseconds. Default 10,000. */
    drainTimeout: integer(0),
    drainDelay: integer(0),
  }),
  /** Calls that other processes perform, where `REDIS_URL` is set. */
  workers: group({
    /** Begins the names of all keys in Redis. Default `toolrack`. */
    prefix: text,
    /** How long calls under way may go on after a worker was told to stop, in milliseconds. Default 30,000. */
    drainTimeout: integer(0),
    /** The lanes, by name. A tool can also name its lane itself, in `metadata.lane`. */
    lanes: map(
      group({
        /** Tools that run in this lane, as patterns: `render_*`, `mcp:KEY`. */
        tools: texts,
        /** How many calls may wait before new ones are refused with `busy`. Default 1,000. */
        maxWaiting: count,
        /** By tool: how many of its calls all workers together run at once, and begin in some seconds. */
        limits: map(
          group({
            concurrency: count,
            rate: group({ calls: count, seconds: positive }, ["calls", "seconds"]),
          }),
        ),
      }),
    ),
  }),
  approvals: group({
    /** How long a question waits for an answer before it counts as denied, in milliseconds. Default 5 minutes. */
    timeout: integer(1_000),
    /**
     * Own tools that run without a question although they replace a built-in tool that asks, as patterns:
     * `internal_file_delete`. Default none.
     */
    unguarded: texts,
  }),
  /** How long `toolrack serve` keeps ended calls. */
  retention: group({
    /** Calls older than this many days are deleted. Default 30. */
    days: positive,
    /** When all calls together are larger, the oldest are deleted. Default 1 GiB. */
    maxBytes: integer(1024),
  }),
  /** How the rack is shown to MCP clients, and which MCP servers it uses itself. */
  mcp: group({
    /** The file with the `mcpServers` that the rack uses, relative to the workspace. Default `mcp.json`. */
    file: text,
    /**
     * What happens when the description or schema of an MCP server's tool differs from the approved one.
     * `quarantine` (default): the tool is switched off until somebody approves the change. `trust`: the
     * change is accepted. `off`: no definitions are remembered. A tool that is seen for the first time is
     * trusted.
     */
    pinning: oneOf("quarantine", "trust", "off"),
    /**
     * Whether clients see `toolrack_search`, `toolrack_describe` and `toolrack_call` instead of all tools. Calls by any
     * name work in either case. `auto` (default): when there are more than `threshold` tools.
     */
    metaTools: oneOf("auto", "on", "off"),
    /** The number of tools above which `auto` uses the meta-tools. Default 100. */
    threshold: integer(0),
    /** Tools that are listed beside the meta-tools, as patterns: `web_*`, `mcp:KEY`. Default none. */
    alwaysListed: texts,
    /**
     * How long the first lists of an MCP client wait for MCP servers that are being started and whose tools are not known
     * yet, in milliseconds since the rack was opened. Default 5,000; 0: not at all.
     */
    listWait: integer(0, 600_000),
    /**
     * Who is asked before a dangerous tool runs for an MCP client. `client` (default): the inbox, and also the person
     * at the client if the client can ask and may approve (over HTTP its token says so); the first answer counts.
     * `stdio`: the inbox, and the client only if it started this program. `inbox`: the inbox alone.
     */
    approvals: oneOf("client", "stdio", "inbox"),
  }),
  /** Code that models write over tools (`toolrack_run`). */
  code: group({
    /**
     * Whether models are offered to write code. `auto` (default): when they see the meta-tools in place of most tools, and
     * the sandbox has level 3. `on`: always. `off`: there is no such tool.
     */
    mode: oneOf("auto", "on", "off"),
  }),
  /** How tools are found. */
  search: group({
    /** Whether tools are found by what words mean too, in English and Chinese. Needs `@toolrack/words`. Default true. */
    meaning: choice,
    /** Whether a request for several things is also looked for part by part. Default true. */
    intents: choice,
    /** Whether searches that were followed by a call are remembered and help later ones. Default true. */
    learning: choice,
  }),
  /** Tools that live in the database and in folders with a `SKILL.md`. */
  skills: group({
    /** How models call these tools: by `id` (default), or by `readable` names such as `searxng_search__web_search`. */
    toolNames: oneOf("id", "readable"),
    /** Folders of skills, relative to the workspace. Default `["skills"]`. */
    folders: texts,
    /** Lets http tools of skills reach private addresses. `TOOLRACK_ALLOW_PRIVATE_NETWORK=1` does the same. */
    allowPrivateNetwork: choice,
  }),
  /**
   * Servers with OpenAI's Chat Completions API, by name. `${NAME}` in an address, key or header is replaced by an
   * environment variable, `${secret:NAME}` by a secret of the workspace. `OPENAI_BASE_URL` and `OPENAI_API_KEY` make
   * one named `openai`.
   */
  providers: map(group(provider, ["baseURL"])),
  /** Conversations with models. */
  chat: group({
    /** The default model: `NAME`, or `PROVIDER/NAME`. Default: the first model of a provider. */
    model: text,
    /**
     * Names for models that several providers have, each with a list such as `["local/qwen3", "remote/qwen3-32b"]`: when one
     * fails, the next is asked.
     */
    models: map(someTexts),
    /** The most requests to a model in one turn. Default 50. */
    maxRounds: count,
    /** The longest turn in seconds, not counting the time that people take to answer. Default 900. */
    maxSeconds: positive,
    /** Tokens of all requests of one turn. Default 2,000,000. */
    maxTokens: count,
    /** Characters of one answer of a model: text, reasoning and arguments together. Default 4,000,000. */
    maxAnswer: integer(1000, 100_000_000),
    /** The model's context size in tokens; old results are left out before it is full. Default 128,000. */
    contextTokens: integer(1024),
    /** Tokens for tool definitions; if all tools need more, the best matching are offered. Default 16,000. */
    toolBudget: integer(0),
    /**
     * Whether a request to `/v1` that comes again after it failed or was cut off, and after a tool that does more than
     * read had begun, gets the first one's answer instead of running anew. Default true.
     */
    joinRepeats: choice,
  }),
  /** What `toolrack lint` finds in the definitions of tools. */
  lint: group({
    /** Rules that are off, each for some tools: `{ near_twin: ["mcp:KEY"], all: ["old_*"] }`. */
    off: lintPatterns,
    /** A definition that costs a model's context more tokens is reported. Default 1,000. */
    maxTokens: count,
  }),
  sandbox: group(sandbox),
  /** Longest run of a tool that sets no limit of its own, in milliseconds. Default 120,000. */
  timeout: notNegative,
  /** The permissions of callers that name none, as patterns. Default: all, since the tools are the operator's own. */
  permissions: texts,
};

export interface Config extends Members<typeof keys> {}

/** The schema of a config. The environment variables and their documentation are derived from it. */
export const configSchema: Schema<Config> = group(keys);

/** Gives a workspace's `toolrack.config.ts` its types. */
export function defineConfig(config: Config): Config {
  return config;
}

export function retentionOf({ retention = {} }: Pick<Config, "retention">) {
  const { days = 30, maxBytes = 1024 ** 3 } = retention;
  return { days, maxBytes };
}

/** Milliseconds. A timer with a longer delay would fire at once. */
const longestTimer = 2 ** 31 - 1;

export function timerMs(milliseconds: number): number {
  return Math.min(milliseconds, longestTimer);
}

export function withDefaultLimits(limits: Partial<WorkerLimits> | undefined): WorkerLimits {
  if (limits === undefined) return defaultLimits;
  const given = { ...defaultLimits, ...limits };
  const { initMs, cleanupMs, graceMs } = given;
  return { ...given, initMs: timerMs(initMs), cleanupMs: timerMs(cleanupMs), graceMs: timerMs(graceMs) };
}

/** The opened directory, and what its tools may touch. */
export interface Workspace {
  /** Absolute. Tools resolve relative paths here, never against the process's directory. */
  readonly directory: string;
  /** Absolute directories that file tools may touch; the workspace itself comes first. */
  readonly roots: readonly string[];
  /** Databases by name, as URLs: `sqlite:data/app.db`, `postgres://…`, `mysql://…`. */
  readonly databases: Readonly<Record<string, string>>;
  readonly network: {
    /** Hosts (`*.internal.example`, `10.0.0.5`) that may be reached although they are private. */
    readonly allowPrivate: readonly string[];
  };
  /** Absolute folders whose files become tools. */
  readonly toolFolders?: readonly string[];
  /** Absolute folders whose subfolders may be skills. */
  readonly skillFolders?: readonly string[];
  /** Absolute: the file that names MCP servers. */
  readonly mcpFile?: string;
  /** The absolute path of the log file. */
  readonly logFile?: string;
  /**
   * Absolute paths of files outside these folders whose code runs too: imports of tools and the config, programs of
   * skills and MCP servers.
   */
  readonly usedFiles?: () => Promise<readonly string[]>;
  /** Whether the caller has an admin grant. Default: no. */
  readonly isAdmin?: boolean;
}
