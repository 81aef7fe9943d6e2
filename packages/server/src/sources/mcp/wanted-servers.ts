import type { Logger } from "@toolrack/core";
import { isRecord } from "../../json/is-record.ts";
import type { StoredMcpServer } from "../../store/mcp-servers/mcp-server-store.ts";
import type { McpFile } from "./config/read-mcp-file.ts";
import { readServerEntry, type ServerEntry } from "./config/server-entry.ts";

/** A server as it is wanted: the entry, where it stands, and whether it is switched on. */
export interface WantedServer {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly place: "file" | "store";
  readonly isEnabled: boolean;
  /** Of one that cannot be started because of its entry, of which `entry` then is the part that can be used. */
  readonly invalid?: {
    /** As it is written. */
    readonly given: unknown;
    readonly reason: string;
  };
}

/** What the file and the store say together, by key. Of two with one key, that of the file counts. */
export async function wantedServers(
  rows: ReadonlyMap<string, StoredMcpServer>,
  file: McpFile,
  { path, logger }: { readonly path: string; readonly logger: Logger },
): Promise<Map<string, WantedServer>> {
  const wanted = new Map<string, WantedServer>();
  for (const row of rows.values()) {
    if (row.entry !== undefined) wanted.set(row.key, await storedServer(row.key, row.entry, row.enabled));
  }
  for (const [key, entry] of file.entries) {
    if (wanted.has(key)) {
      logger.warn(`The MCP server "${key}" stands in ${path} and in the store. The file counts.`);
    }
    const { enabled } = rows.get(key) ?? {};
    wanted.set(key, { key, entry, place: "file", isEnabled: enabled ?? entry.enabled !== false });
  }
  return wanted;
}

/** One that another version or somebody by hand wrote may be of any form, and must be there to be changed or removed. */
async function storedServer(
  key: string,
  given: unknown,
  enabled: boolean | undefined,
): Promise<WantedServer> {
  try {
    const entry = await readServerEntry(given);
    return { key, entry, place: "store", isEnabled: enabled ?? entry.enabled !== false };
  } catch (thrown) {
    const { url, enabled: isOn, disabled: isOff } = isRecord(given) ? given : {};
    return {
      key,
      entry: typeof url === "string" ? { url } : {},
      place: "store",
      isEnabled: enabled ?? (isOn !== false && isOff !== true),
      invalid: {
        given,
        reason: `Its entry in the store is not valid. ${(thrown as Error).message} Remove it (toolrack mcp-servers remove ${key}) or give it another entry.`,
      },
    };
  }
}
