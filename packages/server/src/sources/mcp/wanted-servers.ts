import type { Logger } from "@toolrack/core";
import { isRecord } from "../../json/is-record.ts";
import type { StoredMcpServer } from "../../store/mcp-servers/mcp-server-store.ts";
import { commandFor } from "./command-for.ts";
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
  /** What is wrong with the entry as it is written now. The server goes on by `entry`, the last one that was valid. */
  readonly problem?: string;
}

interface Surroundings {
  readonly path: string;
  readonly logger: Logger;
  /** What is wanted of a server until now. */
  readonly last: (key: string) => WantedServer | undefined;
}

interface BrokenEntry {
  readonly key: string;
  readonly place: WantedServer["place"];
  readonly given: unknown;
  readonly reason: string;
  readonly remedy: string;
  /** What an operator said. */
  readonly enabled: boolean | undefined;
}

/** What the file and the store say together, by key. Of two with one key, that of the file counts. */
export async function wantedServers(
  rows: ReadonlyMap<string, StoredMcpServer>,
  file: McpFile,
  { path, logger, last }: Surroundings,
): Promise<Map<string, WantedServer>> {
  const wanted = new Map<string, WantedServer>();
  for (const row of rows.values()) {
    if (row.entry === undefined) continue;
    wanted.set(row.key, await storedServer(row.key, row.entry, row.enabled, last(row.key)));
  }
  for (const key of [...file.entries.keys(), ...file.invalid.keys()]) {
    // Said when it begins, and not whenever something else changes.
    if (wanted.has(key) && last(key)?.place !== "file") {
      logger.warn(`The MCP server "${key}" stands in ${path} and in the store. The file counts.`);
    }
  }
  for (const [key, { given, reason }] of file.invalid) {
    const { enabled } = rows.get(key) ?? {};
    const remedy = "Mend it in the file.";
    wanted.set(key, broken({ key, place: "file", given, reason, remedy, enabled }, last(key)));
  }
  for (const [key, entry] of file.entries) {
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
  last: WantedServer | undefined,
): Promise<WantedServer> {
  try {
    const entry = await readServerEntry(given);
    return { key, entry, place: "store", isEnabled: enabled ?? entry.enabled !== false };
  } catch (thrown) {
    const reason = `Its entry in the store is not valid. ${(thrown as Error).message}`;
    const remedy = `Remove it (${commandFor("remove", key)}) or give it another entry.`;
    return broken({ key, place: "store", given, reason, remedy, enabled }, last);
  }
}

/** One that runs goes on as it last was; any other has failed. */
function broken(
  { key, place, given, reason, remedy, enabled }: BrokenEntry,
  last: WantedServer | undefined,
): WantedServer {
  const { url, enabled: isOn, disabled: isOff } = isRecord(given) ? given : {};
  const isWanted = isOn !== false && isOff !== true;
  // What stood in the other place was no earlier version of this one.
  if (last?.place === place && last.invalid === undefined) {
    const { entry } = last;
    const isEnabled = enabled ?? (isWanted && entry.enabled !== false);
    return {
      key,
      entry,
      place,
      isEnabled,
      problem: `${reason} The server goes on as its entry last said. ${remedy}`,
    };
  }
  return {
    key,
    entry: typeof url === "string" ? { url } : {},
    place,
    isEnabled: enabled ?? isWanted,
    invalid: { given, reason: `${reason} ${remedy}` },
  };
}
