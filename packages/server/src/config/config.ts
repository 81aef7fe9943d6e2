import type { SandboxConfig } from "./sandbox.ts";

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

const USUAL_DAYS = 30;
const USUAL_BYTES = 1024 ** 3;

/** How long, and how much of, what ended is kept. */
export function retentionOf({
  retention = {},
}: Pick<Config, "retention">): Required<NonNullable<Config["retention"]>> {
  const { days = USUAL_DAYS, maxBytes = USUAL_BYTES } = retention;
  return { days, maxBytes };
}

/** The directory that Toolrack opened, and what tools in it may touch. */
export interface Workspace {
  /** Absolute. Relative paths of tools resolve here, never against the process's own directory. */
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
  /** Absolute folders, each of whose folders may be a skill. */
  readonly skillFolders?: readonly string[];
  /** Absolute: the file that names MCP servers. */
  readonly mcpFile?: string;
  /** Absolute. */
  readonly logFile?: string;
  /** Absolute paths of files elsewhere that run all the same: what tools and the config import, what skills and MCP servers start. */
  readonly usedFiles?: () => Promise<readonly string[]>;
  /** Whether whoever is behind the call that was given this has an admin grant. Without it: no. */
  readonly isAdmin?: boolean;
}
