import { problemOfKey } from "../sources/mcp/config/problem-of-key.ts";
import { matchesExactly, matchesPattern } from "./matches-pattern.ts";
import { originOf, type RackItem, type UpstreamOrigin } from "./upstream-origin.ts";

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
