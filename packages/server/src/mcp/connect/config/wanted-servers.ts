import { lstat, readFile } from "node:fs/promises";
import type { Logger } from "@toolrack/core";
import { serversIn } from "../../../access/index.ts";
import { problemOfKey } from "../../../config/index.ts";
import { isRecord, parseJsonc, reasonOf } from "../../../helpers/index.ts";
import { McpServerError, type StoredMcpServer } from "../../../store/index.ts";
import { commandFor } from "../failures.ts";
import { readServerEntry, type ServerEntry } from "./entry.ts";
import { keepHidden } from "./hidden.ts";

/** The content of an `mcp.json`. A broken entry does not affect the others. */
export interface McpFile {
  readonly entries: ReadonlyMap<string, ServerEntry>;
  /** All entries as they are written. */
  readonly given: ReadonlyMap<string, unknown>;
  /** What is wrong with the entries that cannot be used, by key. */
  readonly problems: ReadonlyMap<string, string>;
  /** The entries that cannot be used although their key is valid. */
  readonly invalid: ReadonlyMap<string, { readonly given: unknown; readonly reason: string }>;
}

export const nothing: McpFile = {
  entries: new Map(),
  given: new Map(),
  problems: new Map(),
  invalid: new Map(),
};

/** Reads an `mcp.json`; empty when there is none. Throws when the file as a whole cannot be read. */
export async function readMcpFile(path: string): Promise<McpFile> {
  const text = await readFile(path, "utf8").catch(async (error: NodeJS.ErrnoException) => {
    // A link without a target does not mean that the file was removed: it looks like this while the file is replaced.
    if (error.code === "ENOENT" && (await lstat(path).catch(() => undefined)) === undefined) return undefined;
    throw new Error(`${path} cannot be read: ${error.message}`);
  });
  if (text === undefined) return nothing;
  return toMcpFile(parse(text, path), path);
}

/**
 * Reads the servers of a parsed file, in the form of most clients (`mcpServers`) or of VS Code (`servers`). A file may
 * have both; for a key in both, `mcpServers` counts.
 */
async function toMcpFile(document: unknown, path: string): Promise<McpFile> {
  const { mcpServers, servers } = isRecord(document) ? document : {};
  const listed = mcpServers ?? servers;
  if (listed === undefined && isRecord(document) && Object.keys(document).length === 0) return nothing;
  if (!isRecord(listed)) {
    throw new Error(`${path} has no servers. It must be an object with "mcpServers": { "name": { … } }.`);
  }
  const entries = new Map<string, ServerEntry>();
  const problems = new Map<string, string>();
  const invalid = new Map<string, { readonly given: unknown; readonly reason: string }>();
  const isSecond = listed !== servers && servers !== undefined && servers !== null;
  const others = isSecond && isRecord(servers) ? servers : {};
  if (isSecond && !isRecord(servers)) {
    problems.set("servers", `"servers" of ${path} is no object, and is left out.`);
  }
  for (const key of Object.keys(others)) {
    if (!Object.hasOwn(listed, key)) continue;
    const twice = `The entry "${key}" of ${path} stands under "mcpServers" and under "servers". The one under "mcpServers" counts. Take out the other.`;
    problems.set(`servers.${key}`, twice);
  }
  const all = serversIn(document);
  for (const [key, given] of all) {
    const wrongKey = problemOfKey(key);
    try {
      if (wrongKey !== undefined) throw new Error(wrongKey);
      entries.set(key, await readServerEntry(given));
    } catch (thrown) {
      const reason = `The entry "${key}" of ${path} is not valid. ${reasonOf(thrown)}`;
      problems.set(key, reason);
      if (wrongKey === undefined) invalid.set(key, { given, reason });
    }
  }
  return { entries, given: all, problems, invalid };
}

function parse(text: string, path: string): unknown {
  try {
    return parseJsonc(text);
  } catch (thrown) {
    throw new Error(`${path} is not valid JSON: ${reasonOf(thrown)}`);
  }
}

/** What the file and the store want of a server: its entry, where the entry is, and whether it is switched on. */
export interface WantedServer {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly place: "file" | "store";
  readonly isEnabled: boolean;
  /** The entry waits for an admin's approval, because a tool call wrote it into the file. */
  readonly isHeld?: boolean;
  /** Set when the server cannot be started because of its entry. `entry` is then the usable part. */
  readonly invalid?: {
    /** The entry as it is written. */
    readonly given: unknown;
    readonly reason: string;
  };
  /** What is wrong with the entry as it is written now. The server keeps using `entry`, the last valid one. */
  readonly problem?: string;
}

interface WantedOptions {
  /** The path of the file, for messages. */
  readonly path: string;
  readonly logger: Logger;
  /** What was wanted of a server until now. */
  readonly last: (key: string) => WantedServer | undefined;
  /** Why an entry of the file waits for an admin's approval. Default: none does. */
  readonly heldBack?: ((key: string, given: unknown) => string | undefined) | undefined;
}

interface BrokenEntry extends Pick<WantedServer, "key" | "place"> {
  readonly given: unknown;
  readonly reason: string;
  readonly remedy: string;
  /** Whether an operator switched it on or off. */
  readonly enabled: boolean | undefined;
}

/** Combines the file and the store, by key. For a key in both, the file counts. */
export async function wantedServers(
  rows: ReadonlyMap<string, StoredMcpServer>,
  file: McpFile,
  { path, logger, last, heldBack }: WantedOptions,
): Promise<Map<string, WantedServer>> {
  const wanted = new Map<string, WantedServer>();
  for (const { key, entry, enabled } of rows.values())
    if (entry !== undefined) wanted.set(key, await storedServer(key, entry, enabled, last(key)));
  for (const key of [...file.entries.keys(), ...file.invalid.keys()]) {
    // Logged only when it starts, not at every later change.
    if (wanted.has(key) && last(key)?.place !== "file")
      logger.warn(`The MCP server "${key}" stands in ${path} and in the store. The file counts.`);
  }
  for (const [key, { given, reason }] of file.invalid) {
    const { enabled } = rows.get(key) ?? {};
    const remedy = "Mend it in the file.";
    wanted.set(key, broken({ key, place: "file", given, reason, remedy, enabled }, last(key)));
  }
  for (const [key, entry] of file.entries) {
    const { enabled } = rows.get(key) ?? {};
    const given = file.given.get(key);
    const reason = heldBack?.(key, given);
    if (reason === undefined) {
      wanted.set(key, { key, entry, place: "file", isEnabled: enabled ?? entry.enabled !== false });
      continue;
    }
    const remedy = `Look at it, then approve it: ${commandFor("approve", key)}`;
    const waiting = broken({ key, place: "file", given, reason, remedy, enabled }, last(key));
    wanted.set(key, { ...waiting, isHeld: true });
  }
  return wanted;
}

/** An entry in the store may have any form, if another version or a person wrote it. It is still listed, to be changed or removed. */
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
    const reason = `Its entry in the store is not valid. ${reasonOf(thrown)}`;
    const remedy = `Remove it (${commandFor("remove", key)}) or give it another entry.`;
    return broken({ key, place: "store", given, reason, remedy, enabled }, last);
  }
}

/** A server that was valid before keeps its last entry; any other has failed. */
function broken(
  { key, place, given, reason, remedy, enabled }: BrokenEntry,
  last: WantedServer | undefined,
): WantedServer {
  const { url, enabled: isOn, disabled: isOff } = isRecord(given) ? given : {};
  const isWanted = isOn !== false && isOff !== true;
  // Only an entry in the same place is an earlier version of this one.
  if (last?.place === place && last.invalid === undefined) {
    const { entry } = last;
    const isEnabled = enabled ?? (isWanted && entry.enabled !== false);
    const problem = `${reason} The server goes on as its entry last said. ${remedy}`;
    return { key, entry, place, isEnabled, problem };
  }
  const entry = typeof url === "string" ? { url } : {};
  const invalid = { given, reason: `${reason} ${remedy}` };
  return { key, entry, place, isEnabled: enabled ?? isWanted, invalid };
}

/** Checks a new entry. Throws `McpServerError`. `before`: the server whose entry it replaces. */
export async function checkedEntry(given: unknown, before?: WantedServer): Promise<ServerEntry> {
  try {
    return await readServerEntry(keepHidden(given, before?.invalid?.given ?? before?.entry));
  } catch (thrown) {
    throw new McpServerError("mcp_server_invalid", `The entry is not valid. ${reasonOf(thrown)}`);
  }
}
