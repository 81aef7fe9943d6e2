/** What an operator said about one tool of an upstream server. */
export interface ToolOverride {
  /** Another last part of its name. */
  readonly rename?: string;
  /** Another description. */
  readonly describe?: string;
}

/** What is kept about an upstream MCP server. Also about one that a file names: then there is no entry. */
export interface StoredMcpServer {
  readonly key: string;
  /** As it would stand in `mcpServers`; what another version or somebody by hand wrote may be of any form. */
  readonly entry?: unknown;
  /** Said by an operator, over what the entry says. */
  readonly enabled?: boolean;
  /** How it talks, found out once. */
  readonly verdict?: object;
  /** What it offered when it was last seen. */
  readonly catalogue?: object;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A part that is undefined stays as it is; null takes it away. */
export interface McpServerChange {
  readonly entry?: object | null;
  readonly enabled?: boolean | null;
  readonly verdict?: object | null;
  readonly catalogue?: object | null;
}

export interface StoredMcpTool {
  readonly server: string;
  /** The name that the server gives it. */
  readonly name: string;
  /** The definition that was agreed to; the text that stands there when it is no JSON. */
  readonly approved?: unknown;
  /** The definition that it has changed to since, and that nobody has agreed to. */
  readonly pending?: object;
  readonly approvedAt?: number;
  readonly approvedBy?: string;
  readonly override?: ToolOverride;
}

/** A part that is undefined stays as it is; null takes it away. */
export interface McpToolChange {
  readonly approved?: { readonly definition: object; readonly at: number; readonly by: string };
  readonly pending?: object | null;
  readonly override?: ToolOverride | null;
}

/** A name of the rack that a server once had for something of its own. */
export interface ClaimedName {
  /** In lower case: names that differ by case only are one. */
  readonly name: string;
  readonly server: string;
}

/**
 * Whatever changes what other processes on the same store do with a server counts as a new version of the registry: its
 * entry, its switch, what was agreed to and said about its tools, its names. What a process only learnt does not, nor what
 * was there before.
 */
export interface McpServerStore {
  /** By key, without what was learnt about them: `verdict` and `catalogue`. */
  list(): Promise<StoredMcpServer[]>;
  get(key: string): Promise<StoredMcpServer | undefined>;
  /** A new one, as its entry says. False where there is an entry already, which stays as it is. */
  add(key: string, entry: object): Promise<boolean>;
  /** Makes the row when there is none. */
  put(key: string, change: McpServerChange): Promise<void>;
  /** With everything that is kept about its tools but their names. Says whether there was such a server. */
  remove(key: string): Promise<boolean>;
  /** By name. */
  tools(server: string): Promise<StoredMcpTool[]>;
  /** Makes the row when there is none. */
  putTool(server: string, name: string, change: McpToolChange): Promise<void>;
  /** Those of servers that were removed too. */
  names(): Promise<ClaimedName[]>;
  /** Another than before when there are new ones: none is ever taken away. */
  countNames(): Promise<number>;
  /** Adds to those that the server has. */
  claimNames(server: string, names: readonly string[]): Promise<void>;
  /** Counts a version for something about a server that is kept elsewhere. */
  tellOthers(): Promise<void>;
}
