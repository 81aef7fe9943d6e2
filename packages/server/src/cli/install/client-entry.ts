import { isAbsolute, resolve } from "node:path";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { isRecord } from "../../helpers/index.ts";
import type { ClientEntry } from "./clients.ts";

/** An entry of a client's file that points to a rack. */
export type RackEntry =
  | { readonly transport: "stdio"; readonly workspace: string; readonly expert?: string }
  | { readonly transport: "http"; readonly url: string; readonly token: string };

/** What identifies this rack in an entry. */
export interface OwnRack {
  readonly workspace: string;
  /** The addresses of the rack's server. */
  readonly addresses: readonly string[];
  /** The folder in which the client starts programs, for relative paths. Undefined when it is not known. */
  readonly startedIn?: string | undefined;
}

/** Keys that decide how a server is reached. All others are the user's own settings. */
const connectionKeys = new Set([
  "type",
  "source",
  "command",
  "args",
  "url",
  "bearer_token_env_var",
  "enabled",
  "disabled",
]);

/** Keys that hold headers, of which only `Authorization` is ours. */
const headerKeys = new Set(["headers", "http_headers", "env_http_headers"]);

/** Reads an entry that points to a rack. Undefined for the entry of any other server. */
export function readRackEntry(entry: unknown): RackEntry | undefined {
  if (!isRecord(entry)) return undefined;
  const { command, args = [], url } = entry;
  if (command !== undefined) return readWords([command, args].flat());
  const [header] = [entry.headers, entry.http_headers].flatMap((headers) => authorizations(headers));
  const token = typeof header === "string" ? /^Bearer (trk_\S+)$/.exec(header)?.[1] : undefined;
  if (typeof url !== "string" || !/\/mcp(?:\/[^/]*)?$/.test(url) || token === undefined) return undefined;
  return { transport: "http", url, token };
}

/** The token of an entry. A placeholder that was copied from a page is no token. */
export function tokenOf(entry: RackEntry | undefined): string | undefined {
  return entry?.transport === "http" && /^trk_[\w-]+$/.test(entry.token) ? entry.token : undefined;
}

export function isOfRack(entry: RackEntry, { workspace, addresses, startedIn }: OwnRack): boolean {
  if (entry.transport === "stdio") {
    if (startedIn === undefined && !isAbsolute(entry.workspace)) return false;
    return resolve(startedIn ?? "", entry.workspace) === workspace;
  }
  return addresses.some(
    (address) => entry.url === `${address}/mcp` || entry.url.startsWith(`${address}/mcp/`),
  );
}

/** Whether both entries connect in the same way. Tokens and the user's own settings may differ. */
export function isSameConnection(existing: unknown, wanted: ClientEntry): boolean {
  if (!isRecord(existing)) return false;
  const { disabled, enabled, ...others } = connectionOf(existing);
  const { enabled: _, ...own } = connectionOf(wanted);
  const isOff = disabled === true || String(enabled) === "false";
  return !isOff && isDeepStrictEqual(withoutTokens(others), withoutTokens(own));
}

/**
 * The wanted entry with the user's own settings from the existing one, unless the kind of connection changes.
 */
export function mergeEntry(existing: unknown, wanted: ClientEntry): ClientEntry {
  if (!isRecord(existing) || "url" in existing !== "url" in wanted) return wanted;
  const others = Object.entries(existing).flatMap(([key, value]) => {
    if (connectionKeys.has(key)) return [];
    if (!headerKeys.has(key)) return [[key, value]];
    const kept = Object.entries(headersOf(value)).filter(([name]) => !isAuthorization(name));
    return kept.length === 0 ? [] : [[key, { ...Object.fromEntries(kept), ...headersOf(wanted[key]) }]];
  });
  return { ...wanted, ...Object.fromEntries(others) };
}

/** The texts in a merged entry that the user wrote, which may be secrets. */
export function ownTexts(merged: ClientEntry, wanted: ClientEntry): string[] {
  const known = new Set(textsIn(wanted));
  return textsIn(merged).filter((text) => text !== "" && !known.has(text));
}

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** Reads `… mcp --dir WORKSPACE` or `… --dir WORKSPACE mcp`, however the program is started. */
function readWords(words: readonly unknown[]): RackEntry | undefined {
  if (!words.every((word) => typeof word === "string")) return undefined;
  const found = words.flatMap((word, at) => {
    if (word !== "mcp") return [];
    const from = words[at - 2] === "--dir" ? at - 2 : words[at - 1]?.startsWith("--dir=") ? at - 1 : at;
    return readOptions([...words.slice(from, at), ...words.slice(at + 1)]) ?? [];
  });
  return found[0];
}

/** Undefined when `toolrack mcp` would not take these options. */
function readOptions(args: string[]): RackEntry | undefined {
  const text = { type: "string" } as const;
  try {
    const options = { dir: text, expert: text, "no-watch": { type: "boolean" } } as const;
    const { dir, expert } = parseArgs({ args, options }).values;
    if (dir === undefined) return undefined;
    return { transport: "stdio", workspace: dir, ...(expert === undefined ? {} : { expert }) };
  } catch {
    return undefined;
  }
}

function connectionOf(entry: ClientEntry): Record<string, unknown> {
  const keys = Object.entries(entry).filter(([key]) => connectionKeys.has(key));
  const headers = [...headerKeys].map((key) => [key, authorizations(entry[key])]);
  return Object.fromEntries([...keys, ...headers]);
}

function authorizations(headers: unknown): unknown[] {
  return Object.entries(headersOf(headers)).flatMap(([name, value]) =>
    isAuthorization(name) ? [value] : [],
  );
}

function headersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}

function isAuthorization(header: string): boolean {
  return header.toLowerCase() === "authorization";
}

function withoutTokens(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll(/Bearer trk_[^"\\]*/g, "Bearer trk_"));
}
