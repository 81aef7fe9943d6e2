/**
 * The host application's services, as contract 1 finds them in `ctx.service`. Say what yours are:
 * `declare module "toolrack" { interface Services { project: ProjectService } }`.
 */
// biome-ignore lint/suspicious/noEmptyInterface: applications add their own members to it.
export interface Services {}

/** The same for `ctx.model`. */
// biome-ignore lint/suspicious/noEmptyInterface: applications add their own members to it.
export interface Models {}

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
  };
  /** What `toolrack serve` keeps of calls that have ended. */
  readonly retention?: {
    /** Older ones are deleted. Default 30. */
    readonly days?: number;
    /** The oldest are deleted when all together are larger. Default 1 GiB. */
    readonly maxBytes?: number;
  };
  /** Longest run of a tool that sets no limit of its own, in milliseconds. Default 120,000. */
  readonly timeout?: number;
  /** What callers hold who do not say, as patterns. Default: everything, since the tools are the operator's own. */
  readonly permissions?: readonly string[];
}
