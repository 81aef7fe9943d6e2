import { McpServerError } from "../../store/mcp-servers/mcp-server-error.ts";
import { keepHidden } from "./config/keep-hidden.ts";
import { readServerEntry, type ServerEntry } from "./config/server-entry.ts";
import type { WantedServer } from "./wanted-servers.ts";

/** An entry as it is kept. Throws `McpServerError`. `before` is the one whose place it takes. */
export async function checkedEntry(given: unknown, before?: WantedServer): Promise<ServerEntry> {
  try {
    return await readServerEntry(keepHidden(given, before?.invalid?.given ?? before?.entry));
  } catch (thrown) {
    throw new McpServerError("mcp_server_invalid", `The entry is not valid. ${(thrown as Error).message}`);
  }
}
