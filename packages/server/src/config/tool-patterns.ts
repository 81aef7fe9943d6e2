import type { ToolMetadata } from "@toolrack/core";

/**
 * Whether a name matches a pattern: `*` is any run of characters, `?` one. Case is ignored, because two tools cannot
 * differ by case only.
 */
export function matchesPattern(pattern: string, name: string): boolean {
  return matchesExactly(pattern.toLowerCase(), name.toLowerCase());
}

/**
 * Like `matchesPattern`, but with regard to case, for names of other servers: there, `get` and `GET` may be
 * two tools.
 */
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
      // Only the last star takes one more character, so the time is never exponential.
      at = star + 1;
      position = ++resume;
    } else {
      return false;
    }
  }
  while (pattern[at] === "*") at++;
  return at === pattern.length;
}

/** A parsed pattern for one server: `tool` is a pattern of the server's own names. */
interface ServerPattern {
  readonly server: string;
  readonly tool: string;
}

/**
 * Returns a function that tells whether a tool, prompt or resource matches any of the patterns. `mcp:KEY` matches all
 * of that MCP server; `mcp:KEY/PATTERN` matches the server's own names, with case; any other pattern matches the name
 * on the rack. Patterns are parsed once.
 */
export function toolMatcher(patterns: readonly string[] = []): (item: RackItem) => boolean {
  const names = patterns.filter((pattern) => !isServerPattern(pattern));
  const matchesName = ({ name }: RackItem) => names.some((pattern) => matchesPattern(pattern, name));
  const serverPatterns = patterns.filter(isServerPattern).map(parseServerPattern);
  if (serverPatterns.length === 0) return matchesName;
  return (item) => matchesName(item) || matchesServer(serverPatterns, originOf(item));
}

/** Says why a pattern could never match, as a sentence; undefined when it could. */
export function problemOfToolPattern(pattern: string): string | undefined {
  if (pattern !== pattern.trim()) return `"${pattern}" begins or ends with a blank. Leave it out.`;
  if (!isServerPattern(pattern)) return undefined;
  const { server, tool } = parseServerPattern(pattern);
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

/** The prefix is unambiguous: no tool has a colon in its name. */
function isServerPattern(pattern: string): boolean {
  return pattern.slice(0, PREFIX.length).toLowerCase() === PREFIX;
}

/**
 * Keys and tool names may both have slashes. The first slash ends the key; slashes of the key are written `%2F`, as in
 * a URL. No key has a percent sign, so a pattern has one meaning whatever servers there are.
 */
function parseServerPattern(pattern: string): ServerPattern {
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

function matchesServer(wanted: readonly ServerPattern[], origin: UpstreamOrigin | undefined): boolean {
  if (origin === undefined) return false;
  return wanted.some(({ server, tool }) => server === origin.server && matchesExactly(tool, origin.tool));
}

/** The upstream MCP server that a tool, prompt or resource on the rack comes from, and its name there. */
interface UpstreamOrigin {
  readonly server: string;
  /** The server's own name for the tool, prompt or resource. */
  readonly tool: string;
  /** What the server is for, in one sentence. `isOwn`: in the words of its entry, and not of the server. */
  readonly about?: { readonly text: string; readonly isOwn: boolean } | undefined;
}

/** What patterns match: a tool, or a prompt, resource or skill, which is treated like a tool of its name. */
export interface RackItem {
  readonly name: string;
  readonly metadata?: ToolMetadata;
}

const genuineOrigins = new WeakSet<object>();

/** Registers the `mcp` metadata of an item of an upstream server as genuine. */
export function upstreamOrigin<Origin extends UpstreamOrigin>(origin: Origin): Origin {
  genuineOrigins.add(origin);
  return origin;
}

/**
 * The server that the item really comes from. Any tool may claim any metadata, so only objects made by `upstreamOrigin`
 * count: otherwise a tool could use what was granted to a server.
 */
export function originOf({ metadata }: RackItem): UpstreamOrigin | undefined {
  const origin = metadata?.mcp;
  const isGenuine = typeof origin === "object" && origin !== null && genuineOrigins.has(origin);
  return isGenuine ? (origin as UpstreamOrigin) : undefined; // Only such objects are registered.
}

/** Characters that a person can type and read in one line; tool names are derived from the key. */
const validKey = /^(?=.{1,100}$)[\p{L}\p{N}@](?:[\p{L}\p{M}\p{N} _.@/:+()-]*[\p{L}\p{M}\p{N}_.@/:+()-])?$/u;

/** Says why a text cannot be the key of a server; undefined when it can. */
export function problemOfKey(key: string): string | undefined {
  if (validKey.test(key)) return undefined;
  return `"${key.slice(0, 100)}" cannot be the key of a server. Use letters, digits, spaces and _ . - @ / : + ( ), at most 100, with a letter, a digit or @ first.`;
}
