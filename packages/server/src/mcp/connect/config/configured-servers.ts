import { lstat, readFile } from "node:fs/promises";
import type { Logger } from "@toolrack/core";
import { serversIn } from "../../../access/index.ts";
import { problemOfKey } from "../../../config/index.ts";
import { asRecord, isRecord, parseJsonc, reasonOf } from "../../../helpers/index.ts";
import { McpServerError, type StoredMcpServer } from "../../../store/index.ts";
import { commandFor } from "../failures.ts";
import { fromApiForm } from "./api-entry.ts";
import { readServerEntry, type ServerEntry } from "./entry.ts";
import { keepHidden } from "./secret-values.ts";

/** An entry as it is written, and why it cannot be used. */
interface InvalidEntry {
  readonly given: unknown;
  readonly reason: string;
}

/** An entry that can be used, as it is written and in Toolrack's own form. */
interface ValidEntry {
  readonly given: unknown;
  readonly entry: ServerEntry;
}

/** The content of an `mcp.json`. A broken entry does not affect the others. */
export interface McpFile {
  /** The entries whose key is valid. */
  readonly entries: ReadonlyMap<string, ValidEntry | InvalidEntry>;
  /**
   * What is wrong with entries, by key. The key is `servers.KEY` for an entry that is ignored because
   * `mcpServers` has an entry with the same key, and `servers` if that part of the file is no object.
   */
  readonly problems: ReadonlyMap<string, string>;
}

export const nothing: McpFile = { entries: new Map(), problems: new Map() };

/**
 * Reads an `mcp.json` in the form of most clients (`mcpServers`) or of VS Code (`servers`). A file may have both; for a
 * key in both, `mcpServers` counts. Empty when there is no file. Throws when the file as a whole cannot be read.
 */
export async function readMcpFile(path: string): Promise<McpFile> {
  const document = await readJsonFile(path);
  if (document === undefined) return nothing;
  const { mcpServers, servers } = asRecord(document);
  const listed = mcpServers ?? servers;
  if (listed === undefined && isRecord(document) && Object.keys(document).length === 0) return nothing;
  if (!isRecord(listed)) {
    throw new Error(`${path} has no servers. It must be an object with "mcpServers": { "name": { … } }.`);
  }
  const problems = new Map<string, string>();
  const others = listed === servers ? {} : (servers ?? {});
  if (!isRecord(others)) problems.set("servers", `"servers" of ${path} is no object, and is left out.`);
  for (const key of Object.keys(others).filter((key) => Object.hasOwn(listed, key))) {
    const twice = `The entry "${key}" of ${path} stands under "mcpServers" and under "servers". The one under "mcpServers" counts. Take out the other.`;
    problems.set(`servers.${key}`, twice);
  }
  return readEntries(path, serversIn(document), problems);
}

/** Reads an `apis.json`. Empty when there is no file. Throws when the file as a whole cannot be read. */
export async function readApisFile(path: string): Promise<McpFile> {
  const document = await readJsonFile(path);
  if (document === undefined) return nothing;
  const { apis } = asRecord(document);
  if (!isRecord(apis))
    throw new Error(`${path} has no APIs. It must be an object with "apis": { "name": { … } }.`);
  const given = Object.entries(apis).map(
    // Without a description, an entry would be taken for that of an MCP server.
    ([key, entry]) => [key, isRecord(entry) ? { ...entry, spec: entry.spec ?? "" } : entry] as const,
  );
  return readEntries(path, new Map(given), new Map());
}

/** The entries of both files. A key of `apis.json` that `mcp.json` has too is refused. */
export function joinedFiles(servers: McpFile, apis: McpFile, path: string): McpFile {
  const twice = [...apis.entries.keys()].filter((key) => servers.entries.has(key));
  const problem = (key: string) =>
    `The API "${key}" of ${path} has the key of an MCP server, which stays. Give it another key.`;
  return {
    entries: new Map([...apis.entries, ...servers.entries]),
    problems: new Map([
      ...apis.problems,
      ...servers.problems,
      ...twice.map((key) => [`apis.${key}`, problem(key)] as const),
    ]),
  };
}

async function readJsonFile(path: string): Promise<unknown> {
  const text = await readFile(path, "utf8").catch(async (error: NodeJS.ErrnoException) => {
    // A symbolic link without a target does not mean that the file was removed: it looks like this while the
    // file is replaced.
    if (error.code === "ENOENT" && (await lstat(path).catch(() => undefined)) === undefined) return undefined;
    throw new Error(`${path} cannot be read: ${error.message}`);
  });
  return text === undefined ? undefined : parse(text, path);
}

async function readEntries(
  path: string,
  all: ReadonlyMap<string, unknown>,
  problems: Map<string, string>,
): Promise<McpFile> {
  const entries = new Map<string, ValidEntry | InvalidEntry>();
  for (const [key, given] of all) {
    const wrongKey = problemOfKey(key);
    try {
      if (wrongKey !== undefined) throw new Error(wrongKey);
      entries.set(key, { given, entry: await readServerEntry(given) });
    } catch (thrown) {
      const reason = `The entry "${key}" of ${path} is not valid. ${reasonOf(thrown)}`;
      problems.set(key, reason);
      if (wrongKey === undefined) entries.set(key, { given, reason });
    }
  }
  return { entries, problems };
}

function parse(text: string, path: string): unknown {
  try {
    return parseJsonc(text);
  } catch (thrown) {
    throw new Error(`${path} is not valid JSON: ${reasonOf(thrown)}`);
  }
}

/** A server as the file and the store want it: its entry, where the entry is, and whether the server is switched on. */
export interface WantedServer {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly place: "file" | "store";
  readonly isEnabled: boolean;
  /** The entry waits for an admin's approval, because a tool call wrote it into the file. */
  readonly isHeld?: boolean;
  /** Set when the server cannot be started because of its entry. `entry` is then the usable part. */
  readonly invalid?: InvalidEntry;
  /** What is wrong with the entry as it is written now. The server keeps using `entry`, the last valid one. */
  readonly problem?: string;
}

interface WantedOptions {
  /** The path of the file, for error messages. */
  readonly path: string;
  readonly logger: Logger;
  /** Returns what the file and the store wanted of a server before this change. */
  readonly last: (key: string) => WantedServer | undefined;
  /** Returns why an entry of the file waits for an admin's approval; undefined if it does not. */
  readonly heldBack: (key: string, given: unknown) => string | undefined;
}

/**
 * Combines the file and the store, by key. For a key in both, the file counts. An entry in the store may be invalid if
 * another version of the rack or a person wrote it; its server is still listed, to be changed or removed.
 */
export async function wantedServers(
  rows: ReadonlyMap<string, StoredMcpServer>,
  file: McpFile,
  { path, logger, last, heldBack }: WantedOptions,
): Promise<Map<string, WantedServer>> {
  const wanted = new Map<string, WantedServer>();
  const put = (key: string, place: WantedServer["place"], found: ServerEntry | InvalidEntry, remedy = "") => {
    const { enabled } = rows.get(key) ?? {};
    const server =
      "reason" in found
        ? broken({ key, place, enabled, remedy, ...found }, last(key))
        : { key, entry: found, place, isEnabled: enabled ?? found.enabled !== false };
    wanted.set(key, server);
    return server;
  };
  for (const { key, entry: given } of rows.values()) {
    if (given === undefined) continue;
    const remedy = `Remove it (${commandFor("remove", key)}) or give it another entry.`;
    const found = await readServerEntry(given).catch((thrown: unknown) => {
      return { given, reason: `Its entry in the store is not valid. ${reasonOf(thrown)}` };
    });
    put(key, "store", found, remedy);
  }
  for (const [key, found] of file.entries) {
    // Logged only when the file takes over a server of the store, not at every later change.
    if (wanted.has(key) && last(key)?.place !== "file")
      logger.warn(`The MCP server "${key}" stands in ${path} and in the store. The file counts.`);
    if ("reason" in found) {
      put(key, "file", found, "Mend it in the file.");
      continue;
    }
    const { given, entry } = found;
    const reason = heldBack(key, given);
    if (reason === undefined) put(key, "file", entry);
    else {
      const remedy = `Look at it, then approve it: ${commandFor("approve", key)}`;
      wanted.set(key, { ...put(key, "file", { given, reason }, remedy), isHeld: true });
    }
  }
  return wanted;
}

interface BrokenEntry extends InvalidEntry, Pick<WantedServer, "key" | "place"> {
  readonly remedy: string;
  /** True or false if an operator switched the server on or off; undefined if the entry decides. */
  readonly enabled: boolean | undefined;
}

/** A server whose entry was valid before keeps that entry; any other server gets the state `failed`. */
function broken(
  { key, place, given, reason, remedy, enabled }: BrokenEntry,
  last: WantedServer | undefined,
): WantedServer {
  const { url, spec, api: ownApi, enabled: isOn, disabled: isOff } = asRecord(given);
  const isWanted = isOn !== false && isOff !== true;
  // Only an entry in the same place is an earlier version of this one.
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
  // The invalid entry still says whether it means a server or an API, so that it appears in the right list.
  const api = spec === undefined && !isRecord(ownApi) ? {} : { api: { spec: String(spec ?? "") } };
  const entry = typeof url === "string" ? { url } : api;
  const invalid = { given, reason: `${reason} ${remedy}` };
  return { key, entry, place, isEnabled: enabled ?? isWanted, invalid };
}

/** Checks a new entry. Throws `McpServerError` when it is invalid. `before`: the server whose entry it replaces. */
export async function checkedEntry(given: unknown, before?: WantedServer): Promise<ServerEntry> {
  try {
    // Both in one form, so that the hidden values are found.
    const kept = fromApiForm(before?.invalid?.given ?? before?.entry);
    return await readServerEntry(keepHidden(fromApiForm(given), kept));
  } catch (thrown) {
    throw new McpServerError("mcp_server_invalid", `The entry is not valid. ${reasonOf(thrown)}`);
  }
}
