import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { resolve } from "node:path";

/**
 * The environment variable that a rack sets for its upstream servers: its own id, and those of the racks that started
 * it. A rack that finds its own id there was started by itself, perhaps through others.
 */
export const RACKS = "TOOLRACK_RACKS";

/**
 * The member of `_meta` by which racks notice, over any transport, that they are upstreams of each other in a
 * circle. A rack that lists a server's tools sends `true`; a server that is a rack replies with its own id
 * and the ids of all racks that it leads to.
 */
export const racksKey = "toolrack/racks";

/**
 * How many ids are read at most: more than any sensible chain of racks has, and few enough to be sent with
 * every list.
 */
const MOST_RACKS = 1_000;
const LONGEST_ID = 64;

/** Which rack this process serves: the same for all processes on one workspace. */
export interface RackIdentity {
  readonly id: string;
  /** The racks that started this process, the nearest first. */
  readonly above: readonly string[];
}

/**
 * The id depends on the folder, because a copy of a workspace has the same token but is another rack. The id
 * tells nothing about the token.
 */
export function identityOf(workspace: string, token: string): RackIdentity {
  const id = createHash("sha256")
    .update(`rack ${realPath(workspace)} ${token}`)
    .digest("hex")
    .slice(0, 32);
  return { id, above: readRacks((process.env[RACKS] ?? "").split(",")) };
}

/** The value of `TOOLRACK_RACKS` for a process that this rack starts. */
export function racksFor({ id, above }: RackIdentity): string {
  return [id, ...above].join(",");
}

/** Parses ids that another program sent. */
export function readRacks(told: unknown): readonly string[] {
  if (!Array.isArray(told)) return [];
  const ids = told.filter((id) => typeof id === "string" && id !== "" && id.length <= LONGEST_ID);
  return [...new Set<string>(ids)].slice(0, MOST_RACKS);
}

/** Why this process may start no servers: it was started by its own rack, and they would start it again. */
export function problemOfStart({ id, above }: RackIdentity): string | undefined {
  if (!above.includes(id)) return undefined;
  return "This rack was started as an upstream server of itself, so it starts none of its own. Remove the entry that starts it.";
}

/**
 * Why a server that leads to these racks may not be used: one of them is this rack, or has started this rack.
 */
export function problemOfCircle(racks: readonly string[], { id, above }: RackIdentity): string | undefined {
  if (racks[0] === id) return `It is this rack itself. ${REMOVE}`;
  if (racks.includes(id)) {
    return "It is a rack that has this one among its own servers, directly or through others, so that their tools would go round in a circle. Remove one of the two entries.";
  }
  if (racks.some((rack) => above.includes(rack))) {
    return `It leads back to the rack that started this one, so that their tools would go round in a circle. ${REMOVE}`;
  }
  return undefined;
}

const REMOVE = "Remove its entry, or switch it off.";

/** The fields of an MCP server entry that show which server it is. */
interface ServerEntry {
  readonly command?: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  readonly url?: string;
  readonly api?: { readonly spec?: string; readonly baseUrl?: string };
}

/**
 * Why an entry is refused, if it plainly is this rack itself: the command that `toolrack install` writes for
 * other programs, or the URL at which the workspace is served. Starts nothing.
 */
export function problemOfOwnEntry(
  entry: ServerEntry,
  directory: string,
  address: string | undefined,
): string | undefined {
  const isOwn = startsWorkspace(entry, directory) || isServedAt(entry, address);
  return isOwn ? `It is this rack itself. ${REMOVE}` : undefined;
}

function startsWorkspace({ command, args = [], cwd }: ServerEntry, directory: string): boolean {
  const words = [command ?? "", ...args];
  const program = words.slice(0, Math.max(0, words.indexOf("mcp")));
  if (!program.some((word) => /toolrack/i.test(word) || word === process.argv[1])) return false;
  const named = words.flatMap((word, at) => {
    if (word === "--dir") return words[at + 1] ?? [];
    return word.startsWith("--dir=") ? word.slice("--dir=".length) : [];
  });
  const from = resolve(directory, cwd ?? "");
  // Without `--dir`, the program looks for a workspace in its working directory.
  return realPath(resolve(from, named.at(-1) ?? "")) === realPath(directory);
}

function isServedAt({ url, api }: ServerEntry, address: string | undefined): boolean {
  const own = URL.parse(address ?? "");
  const isOwn = (text: string | undefined, path: RegExp) => {
    const given = URL.parse(text ?? "");
    if (given === null || own === null || given.port !== own.port) return false;
    const isSameHost = given.hostname === own.hostname || (isLoopback(given) && isLoopback(own));
    return isSameHost && path.test(given.pathname);
  };
  return isOwn(url, /^\/mcp(\/|$)/) || isOwn(api?.spec, /^/) || isOwn(api?.baseUrl, /^/);
}

function isLoopback({ hostname }: URL): boolean {
  return hostname === "localhost" || hostname === "[::1]" || hostname.startsWith("127.");
}

/** Resolves the links in a path. Returns the absolute path, with its links, when there is no such folder. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}
