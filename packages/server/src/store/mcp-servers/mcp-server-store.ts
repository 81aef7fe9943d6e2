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
  /** As it would stand in `mcpServers`. */
  readonly entry?: object;
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
  /** The definition that was agreed to. */
  readonly approved?: object;
  /** The definition that it has changed to since, and that nobody has agreed to. */
  readonly pending?: object;
  readonly approvedAt?: number;
  readonly approvedBy?: string;
  readonly override?: ToolOverride;
}

export interface McpServerStore {
  /** By key. */
  list(): Promise<StoredMcpServer[]>;
  get(key: string): Promise<StoredMcpServer | undefined>;
  /** Makes the row when there is none. */
  put(key: string, change: McpServerChange): Promise<void>;
  /** With everything that is kept about its tools. Says whether there was such a server. */
  remove(key: string): Promise<boolean>;
  /** By name. */
  tools(server: string): Promise<StoredMcpTool[]>;
  /** Replaces the row that is there. */
  putTool(tool: StoredMcpTool): Promise<void>;
}
