/** What the HTTP API says of upstream MCP servers, as far as the console reads it. */

export type McpServerState = "starting" | "ready" | "needs-auth" | "backoff" | "failed" | "disabled";

export interface McpServer {
  readonly key: string;
  /** `file`: it stands in the workspace's file and is changed there. */
  readonly place: "file" | "store";
  readonly enabled: boolean;
  /** What is wrong with its entry as it is written now, or which of its lists were not read to their ends. */
  readonly problem?: string;
  readonly problemOf?: "entry" | "lists";
  /** As it stands in `mcpServers`; values that may be secret are hidden. */
  readonly entry: Readonly<Record<string, unknown>>;
  readonly state: McpServerState;
  readonly reason?: string;
  /** The last line that its process wrote, while it cannot be used. */
  readonly lastWord?: string;
  readonly since: number;
  /** Nobody called it for a while, so its process was ended; the next call starts it. */
  readonly resting?: boolean;
  readonly circuit: "closed" | "open" | "half-open";
  readonly failures?: number;
  readonly nextAttemptAt?: number;
  readonly transport: "stdio" | "http" | "sse";
  readonly protocolVersion?: string;
  readonly serverInfo?: { readonly name?: string; readonly version?: string };
  readonly pid?: number;
  readonly inFlight?: number;
  readonly waiting?: number;
  readonly noise?: number;
  readonly tools: number;
  /** Those that its entry lets in and that cannot be used; why, is in `refused`. */
  readonly leftOut?: number;
  readonly quarantined: number;
  readonly prompts?: number;
  readonly resources?: number;
  readonly refused?: readonly { readonly name: string; readonly reason: string }[];
  /** Only of servers at an address that want the rack to sign in, or may. */
  readonly signIn?: {
    readonly signedIn: boolean;
    /** Somebody was sent to sign in and has not come back. */
    readonly pending: boolean;
    /** Why the last attempt came to nothing. */
    readonly problem?: string;
  };
}

export interface McpServerList {
  readonly items: readonly McpServer[];
  /** Why the workspace's file cannot be read; its last good state goes on. */
  readonly fileProblem?: string;
  /** Entries of the file that cannot be used: the reason by key. Those whose key is one are among the items too. */
  readonly problems: Readonly<Record<string, string>>;
}

export interface McpServerTool {
  /** As the server names it. */
  readonly name: string;
  readonly rackName: string;
  readonly description?: string;
  /** Of its definition as it is now: who approves says with it what they have seen. */
  readonly hash: string;
  /** Whether the entry lets it in. */
  readonly offered: boolean;
  readonly pin: "approved" | "quarantined" | "unpinned";
  /** Of a tool that is offered: what of its schemas is not checked. */
  readonly unchecked?: readonly { readonly part: string; readonly reason: string }[];
  readonly changes: readonly { readonly path: string; readonly before?: unknown; readonly after?: unknown }[];
  readonly approvedAt?: number;
  readonly approvedBy?: string;
  readonly override: { readonly rename?: string; readonly describe?: string };
}

export interface McpServerLogLine {
  readonly at: number;
  readonly from: "stderr" | "log" | "rack";
  readonly text: string;
}
