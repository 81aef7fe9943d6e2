/** The tables of upstream MCP servers as queries see them. */
export interface McpServerTables {
  mcp_servers: McpServerRow;
  mcp_tools: McpToolRow;
  mcp_names: McpNameRow;
}

export interface McpServerRow {
  server_key: string;
  enabled: number | null;
  created_at: number;
  updated_at: number;
  entry: string | null;
  verdict: string | null;
  catalogue: string | null;
}

export interface McpToolRow {
  server_key: string;
  tool_key: string;
  approved_at: number | null;
  approved_by: string | null;
  name: string;
  approved: string | null;
  pending: string | null;
  override: string | null;
}

export interface McpNameRow {
  name_key: string;
  server_key: string;
}
