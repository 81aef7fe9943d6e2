import type { SandboxConfig } from "./sandbox.ts";

/**
 * The host application's services, which tools of contract 1 get as `ctx.service`. Declare yours: `declare module
 * "toolrack" { interface Services { project: ProjectService } }`.
 */
// biome-ignore lint/suspicious/noEmptyInterface: applications add their own members to it.
export interface Services {}

/** The same for `ctx.model`. */
// biome-ignore lint/suspicious/noEmptyInterface: applications add their own members to it.
export interface Models {}

/** What a model can do. */
export interface ModelTraits {
  /** `tags`: the model has no native tool calls and writes them into its text. Default `native`. */
  readonly toolCalls?: "native" | "tags";
  /** Whether the model accepts images that tools return. Default true. */
  readonly images?: boolean;
  /** Default: `chat.contextTokens`. */
  readonly contextTokens?: number;
}

/** A server with models. Its traits hold for models that have none of their own. */
export interface ModelProvider extends ModelTraits {
  /** Including `/v1`, as for OpenAI's clients. */
  readonly baseURL: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the models that the server lists. */
  readonly models?: readonly (string | (ModelTraits & { readonly id: string }))[];
}

export interface Config {
  /** Folders with tool files, relative to the workspace. Default `["tools"]`. */
  readonly tools?: readonly string[];
  /** Whether the built-in tools are on the rack. Default true. */
  readonly builtins?: boolean;
  /** The `ctx.service` of contract 1. */
  readonly services?: Services & Readonly<Record<string, unknown>>;
  /** The `ctx.model` of contract 1. */
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
    /** A larger file is rotated. Default 10 MiB. */
    readonly maxBytes?: number;
    /** How many rotated files are kept. Default 5. */
    readonly keep?: number;
  };
  /** Where `toolrack serve` listens, unless its command line says otherwise. */
  readonly server?: {
    /** Default `127.0.0.1`: only this machine. */
    readonly host?: string;
    /** Default 7300; 0 takes any free port. */
    readonly port?: number;
    /**
     * Values of the `Host` header that are accepted besides loopback and the address itself, such as a proxy's name.
     */
    readonly allowedHosts?: readonly string[];
    /** Origins whose pages may call the server from a browser. Default none. */
    readonly allowedOrigins?: readonly string[];
    /** The largest body of a request, in bytes. Default 10 MiB. */
    readonly maxBody?: number;
    /**
     * Requests per second for each token except the workspace's own, with bursts of twice as many. 0: no limit. Default
     * 100.
     */
    readonly rateLimit?: number;
    /** How many calls of one tool may run at once. Default 256. */
    readonly maxCallsPerTool?: number;
    /** How long running calls may go on after the server was told to stop, in milliseconds. Default 10,000. */
    readonly drainTimeout?: number;
  };
  readonly approvals?: {
    /** How long a question waits for an answer before it counts as denied, in milliseconds. Default 5 minutes. */
    readonly timeout?: number;
  };
  /** How long `toolrack serve` keeps ended calls. */
  readonly retention?: {
    /** Older calls are deleted. Default 30. */
    readonly days?: number;
    /** When all calls together are larger, the oldest are deleted. Default 1 GiB. */
    readonly maxBytes?: number;
  };
  /** How the rack is shown to MCP clients, and which MCP servers it uses itself. */
  readonly mcp?: {
    /** The file with the `mcpServers` that the rack uses, relative to the workspace. Default `mcp.json`. */
    readonly file?: string;
    /**
     * What happens when the description or schema of such a server's tool differs from the approved one. `quarantine`
     * (default): the tool is switched off until somebody approves the change. `trust`: the change is accepted. `off`:
     * nothing is remembered. A tool that is seen for the first time is trusted.
     */
    readonly pinning?: "quarantine" | "trust" | "off";
    /**
     * Whether clients see `toolrack_search` and `toolrack_call` instead of all tools. Calls by any name work in either
     * case. `auto` (default): when there are more than `threshold` tools.
     */
    readonly metaTools?: "auto" | "on" | "off";
    /** Default 100. */
    readonly threshold?: number;
    /** Tools that are listed beside the meta-tools, as patterns: `web_*`, `mcp:KEY`. Default none. */
    readonly alwaysListed?: readonly string[];
    /**
     * Who is asked before a dangerous tool runs for an MCP client. `client` (default): the inbox, and also the person
     * at the client if the client can ask and may approve (over HTTP its token says so); the first answer counts.
     * `stdio`: the inbox, and the client only if it started this program. `inbox`: the inbox alone.
     */
    readonly approvals?: "client" | "stdio" | "inbox";
  };
  /** Tools that live in the database and in folders with a `SKILL.md`. */
  readonly skills?: {
    /** How models call these tools: by `id` (default), or by `readable` names such as `searxng_search__web_search`. */
    readonly toolNames?: "id" | "readable";
    /** Folders of skills, relative to the workspace. Default `["skills"]`. */
    readonly folders?: readonly string[];
    /** Lets http tools of skills reach private addresses. `TOOLRACK_ALLOW_PRIVATE_NETWORK=1` does the same. */
    readonly allowPrivateNetwork?: boolean;
  };
  /**
   * Servers with OpenAI's Chat Completions API, by name. `${NAME}` in an address, key or header is replaced by an
   * environment variable, `${secret:NAME}` by a secret of the workspace. `OPENAI_BASE_URL` and `OPENAI_API_KEY` make
   * one named `openai`.
   */
  readonly providers?: Readonly<Record<string, ModelProvider>>;
  /** Conversations with models. */
  readonly chat?: {
    /** The default model: `NAME`, or `PROVIDER/NAME`. Default: the first model of a provider. */
    readonly model?: string;
    /** The most requests to a model in one turn. Default 50. */
    readonly maxRounds?: number;
    /** The longest turn in seconds, not counting the time that people take to answer. Default 900. */
    readonly maxSeconds?: number;
    /** Tokens of all requests of one turn. Default 2,000,000. */
    readonly maxTokens?: number;
    /** Characters of one answer of a model: text, reasoning and arguments together. Default 4,000,000. */
    readonly maxAnswer?: number;
    /** The model's context size in tokens; old results are left out before it is full. Default 128,000. */
    readonly contextTokens?: number;
    /** Tokens for tool definitions; if all tools need more, the best matching are offered. Default 16,000. */
    readonly toolBudget?: number;
  };
  readonly sandbox?: SandboxConfig;
  /** Longest run of a tool that sets no limit of its own, in milliseconds. Default 120,000. */
  readonly timeout?: number;
  /** The permissions of callers that name none, as patterns. Default: all, since the tools are the operator's own. */
  readonly permissions?: readonly string[];
}

/** Gives a workspace's `toolrack.config.ts` its types. */
export function defineConfig(config: Config): Config {
  return config;
}

const DEFAULT_DAYS = 30;
const DEFAULT_BYTES = 1024 ** 3;

export function retentionOf({
  retention = {},
}: Pick<Config, "retention">): Required<NonNullable<Config["retention"]>> {
  const { days = DEFAULT_DAYS, maxBytes = DEFAULT_BYTES } = retention;
  return { days, maxBytes };
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
  /** Absolute. */
  readonly logFile?: string;
  /**
   * Absolute paths of files outside these folders whose code runs too: imports of tools and the config, programs of
   * skills and MCP servers.
   */
  readonly usedFiles?: () => Promise<readonly string[]>;
  /** Whether the caller has an admin grant. Default: no. */
  readonly isAdmin?: boolean;
}
