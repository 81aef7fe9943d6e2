import { fromJson } from "../database/stored-json.ts";
import type { StoredMcpServer, StoredMcpTool } from "./mcp-server-store.ts";
import type { McpServerRow, McpToolRow } from "./mcp-server-tables.ts";

/**
 * What somebody decided is handed on as it stands where it is no JSON, so that it can be shown and mended. What was only
 * learnt is learnt again.
 */
export function toStoredServer(row: McpServerRow): StoredMcpServer {
  const entry = jsonOrText(row.entry);
  const verdict = jsonOrNothing<object>(row.verdict);
  const catalogue = jsonOrNothing<object>(row.catalogue);
  return {
    key: row.server_key,
    ...(entry === undefined ? {} : { entry }),
    ...(row.enabled === null ? {} : { enabled: row.enabled === 1 }),
    ...(verdict === undefined ? {} : { verdict }),
    ...(catalogue === undefined ? {} : { catalogue }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export function toStoredTool(server: string, row: McpToolRow): StoredMcpTool {
  const approved = jsonOrText(row.approved);
  const pending = jsonOrNothing<object>(row.pending);
  const override = jsonOrNothing<object>(row.override);
  return {
    server,
    name: row.name,
    ...(approved === undefined ? {} : { approved }),
    ...(pending === undefined ? {} : { pending }),
    ...(row.approved_at === null ? {} : { approvedAt: row.approved_at }),
    ...(row.approved_by === null ? {} : { approvedBy: row.approved_by }),
    ...(override === undefined ? {} : { override }),
  };
}

function jsonOrText(column: string | null): unknown {
  try {
    return fromJson<unknown>(column);
  } catch {
    return column;
  }
}

function jsonOrNothing<Value>(column: string | null): Value | undefined {
  try {
    return fromJson<Value>(column);
  } catch {
    return undefined;
  }
}
