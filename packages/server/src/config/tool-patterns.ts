import type { ToolMetadata } from "@toolrack/core";

/**
 * Whether a name fits a pattern in which `*` stands for any run of characters and `?` for one. Case does not
 * count: two tools whose names differ by case only are one tool.
 */
export function matchesPattern(pattern: string, name: string): boolean {
  return matchesExactly(pattern.toLowerCase(), name.toLowerCase());
}

/** The same where case counts, as with names that are given elsewhere: there, `get` and `GET` may be two tools. */
function matchesExactly(pattern: string, text: string): boolean {
  let at = 0;
  let position = 0;
  let star = -1;
  let resume = 0;
  while (position < text.length) {
    if (pattern[at] === "*") {
      star = at++;
      resume = position;
    } else if (at < pattern.length && (pattern[at] === "?" || pattern[at] === text[position])) {
      at++;
      position++;
    } else if (star !== -1) {
      // The last star takes one character more. Earlier ones never need to, so this is never exponential.
      at = star + 1;
      position = ++resume;
    } else {
      return false;
    }
  }
  while (pattern[at] === "*") at++;
  return at === pattern.length;
}

/** The tools of one server: all of them, or those whose own names fit the pattern. */
interface OfServer {
  readonly server: string;
  readonly tool: string;
}

/**
 * Whether a tool, prompt or resource fits any of the patterns. One of the form `mcp:KEY` is for what exactly that MCP
 * server offers, and `mcp:KEY/PATTERN` for what of it the server itself calls so, case included; any other is for the
 * name on the rack. The patterns are read once, and where none is of that form, nothing but the name is ever looked at.
 */
export function toolMatcher(patterns: readonly string[] = []): (item: RackItem) => boolean {
  const names = patterns.filter((pattern) => !speaksOfServer(pattern));
  const fitsName = ({ name }: RackItem) => names.some((pattern) => matchesPattern(pattern, name));
  const ofServers = patterns.filter(speaksOfServer).map(read);
  if (ofServers.length === 0) return fitsName;
  return (item) => fitsName(item) || isOf(ofServers, originOf(item));
}

/** Why a pattern could never fit anything, as a sentence; undefined when it could. */
export function problemOfToolPattern(pattern: string): string | undefined {
  if (pattern !== pattern.trim()) return `"${pattern}" begins or ends with a blank. Leave it out.`;
  if (!speaksOfServer(pattern)) return undefined;
  const { server, tool } = read(pattern);
  if (server.trim() === "") {
    return `"${pattern}" names no MCP server. Write mcp:KEY for all tools of one, or mcp:KEY/PATTERN for some of them.`;
  }
  if (/[*?]/.test(server)) {
    return `"${pattern}" is for one MCP server, whose key has no * or ?. Write mcp_* for the tools of all servers.`;
  }
  const problem = problemOfKey(server);
  if (problem !== undefined) return `"${pattern}" is for no MCP server: ${problem}`;
  if (tool === "") {
    const all = pattern.slice(0, -1);
    return `"${pattern}" names no tool behind the slash. Write ${all} for all tools of the server, or ${all}/PATTERN for some of them. A slash of the key is written %2F.`;
  }
  return undefined;
}

const PREFIX = "mcp:";

/** No tool has a colon in its name. */
function speaksOfServer(pattern: string): boolean {
  return pattern.slice(0, PREFIX.length).toLowerCase() === PREFIX;
}

/**
 * Keys and the names that servers give may both have slashes. The first one ends the key, whose own are written `%2F`, so
 * that a pattern means one thing whatever servers there are: a key is written as in an address, since none has a percent
 * sign.
 */
function read(pattern: string): OfServer {
  const rest = pattern.slice(PREFIX.length);
  const end = rest.indexOf("/");
  if (end === -1) return { server: keyOf(rest), tool: "*" };
  return { server: keyOf(rest.slice(0, end)), tool: rest.slice(end + 1) };
}

function keyOf(written: string): string {
  try {
    return decodeURIComponent(written);
  } catch {
    return written;
  }
}

function isOf(wanted: readonly OfServer[], origin: UpstreamOrigin | undefined): boolean {
  if (origin === undefined) return false;
  return wanted.some(({ server, tool }) => server === origin.server && matchesExactly(tool, origin.tool));
}

/** Which upstream MCP server something on the rack is of, and what it is called there. */
interface UpstreamOrigin {
  /** The key of the server. */
  readonly server: string;
  /** The name that the server itself gives it. */
  readonly tool: string;
}

/**
 * Something that patterns speak of: a tool, or a prompt, resource or skill, which is judged as a tool of its name would
 * be.
 */
export interface RackItem {
  readonly name: string;
  readonly metadata?: ToolMetadata;
}

const ours = new WeakSet<object>();

/** What the metadata of a thing of an upstream server has as its `mcp`. */
export function upstreamOrigin<Origin extends UpstreamOrigin>(origin: Origin): Origin {
  ours.add(origin);
  return origin;
}

/**
 * The server that really stands behind it. Whoever writes a tool may write any metadata, so that only what this rack
 * made itself counts: no other tool gets into what was granted of a server by claiming to be of it.
 */
export function originOf({ metadata }: RackItem): UpstreamOrigin | undefined {
  const origin = metadata?.mcp;
  const isOurs = typeof origin === "object" && origin !== null && ours.has(origin);
  return isOurs ? (origin as UpstreamOrigin) : undefined; // Only such were let in above.
}

/** What a person can type and read in one line, as other programs let them: names of tools are made of it all the same. */
const validKey = /^(?=.{1,100}$)[\p{L}\p{N}@](?:[\p{L}\p{M}\p{N} _.@/:+()-]*[\p{L}\p{M}\p{N}_.@/:+()-])?$/u;

/** Why a text cannot be the key of a server; undefined when it can. */
export function problemOfKey(key: string): string | undefined {
  if (validKey.test(key)) return undefined;
  return `"${key.slice(0, 100)}" cannot be the key of a server. Use letters, digits, spaces and _ . - @ / : + ( ), at most 100, with a letter, a digit or @ first.`;
}
