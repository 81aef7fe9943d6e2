import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Authenticator, ToolSwitches, ToolValues } from "../access/index.ts";
import type {
  ApprovalInbox,
  CallBook,
  CallLog,
  CallRecorder,
  CallService,
  Loops,
  Offerings,
  Schedules,
} from "../calls/index.ts";
import type { Config, Workspace } from "../config/index.ts";
import type { LoadReport, ToolFiles } from "../files/index.ts";
import type { LaneView, Nodes } from "../fleet/index.ts";
import type { McpServers } from "../mcp/connect/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { SkillLibrary } from "../skills/index.ts";
import type { Store } from "../store/index.ts";
import type { ConnectedClients, ReloadLog } from "./event-publishers.ts";
import type { EventFeed } from "./events.ts";
import type { Metrics } from "./metrics.ts";
import type { RequestGuard } from "./request-guard.ts";
import type { Forwarder } from "./wire/index.ts";

/** The parts of an opened workspace that the server uses. */
export interface ServedApp {
  readonly workspace: Workspace;
  readonly config: Config;
  readonly registry: ToolRegistry;
  readonly files: ToolFiles;
  readonly skills: SkillLibrary;
  /** The load report of opening the workspace. */
  readonly report: LoadReport;
  readonly sandbox: () => Promise<Sandbox>;
  /** Knows the caller of every call. */
  readonly book: CallBook;
  readonly log: CallLog;
  readonly offerings: Offerings;
}

/** The parts of the server that the routes use. */
export interface HttpServices extends ServedApp {
  readonly store: Store;
  /** The servers and workers on the same database. */
  readonly nodes: Nodes;
  /** The lanes with their workers. Undefined without Redis. */
  readonly lanes: { list(): Promise<readonly LaneView[]> } | undefined;
  /** Sends requests on to the nodes that they belong to. Undefined when there can be no others. */
  readonly forwarder: Forwarder | undefined;
  /** Ends this node, or asks another to end, once its calls have. */
  readonly drain: (node: string) => Promise<void>;
  readonly approvals: ApprovalInbox;
  readonly schedules: Schedules;
  readonly switches: ToolSwitches;
  readonly loops: Loops;
  /** Settings and secrets. */
  readonly values: ToolValues;
  readonly reloads: ReloadLog;
  /** Undefined when no MCP clients are served. */
  readonly clients: ConnectedClients | undefined;
  /** The command that starts the program from any folder; undefined when the server is part of another program. */
  readonly program: readonly string[] | undefined;
  /** Undefined when there are no upstream MCP servers. */
  readonly mcpServers: McpServers | undefined;
  /** Tells the other surfaces of this HTTP server, such as chat, that the rights of a token changed. */
  readonly grantsChanged: () => Promise<void>;
  readonly authenticator: Authenticator;
  readonly service: CallService;
  readonly feed: EventFeed;
  readonly metrics: Metrics;
  readonly guard: RequestGuard;
  readonly settings: HttpSettings;
  readonly logger: Logger;
  readonly recorder: CallRecorder;
  /** Proves to a caller with the workspace's token that this is its server; see `serverProof`. */
  readonly prove: (port: number, nonce: string) => string;
}

/** How the HTTP surface behaves. Every value has a safe default. */
export interface HttpSettings {
  /** Host names under which the server may be reached, beside `localhost` and IP addresses. */
  readonly allowedHosts: readonly string[];
  /** Origins such as `https://app.example` whose pages may use the API. Default: only the server's own pages. */
  readonly allowedOrigins: readonly string[];
  /** The largest body of a request, in bytes. Default 10 MiB. */
  readonly maxBody: number;
  /** How many requests a token other than the master token may make. `false` sets no limit. */
  readonly rateLimit: false | { readonly perSecond: number; readonly burst: number };
  /** How many calls of one tool through this surface may run at once. Default 256. */
  readonly maxCallsPerTool: number;
  /** How long the headers of a request may take to arrive, in milliseconds. Default 10,000. */
  readonly headersTimeout: number;
  /** How long a whole request may take to arrive, in milliseconds. Default 60,000. */
  readonly requestTimeout: number;
  /** How long calls may go on after the server was told to stop, in milliseconds. Default 10,000. */
  readonly drainTimeout: number;
  /**
   * How long the server still takes calls after it was told to stop, while `GET /readyz` answers 503, so that a load
   * balancer sends them elsewhere. Milliseconds. Default 5,000 where nodes may share the database, otherwise 0.
   */
  readonly drainDelay: number | undefined;
  /** Interval of heartbeats on a silent event stream, in milliseconds. Default 15,000. */
  readonly heartbeat: number;
  /** How many past events a reconnecting reader can still get. Default 10,000. */
  readonly feedSize: number;
}

export const defaultHttpSettings: HttpSettings = {
  allowedHosts: [],
  allowedOrigins: [],
  maxBody: 10 * 1024 * 1024,
  rateLimit: { perSecond: 100, burst: 200 },
  maxCallsPerTool: 256,
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  drainTimeout: 10_000,
  drainDelay: undefined,
  heartbeat: 15_000,
  feedSize: 10_000,
};
