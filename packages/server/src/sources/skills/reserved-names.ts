/** What names of the rack's own tools, and of those of MCP servers, begin with. Scopes of tokens rely on it. */
const prefixes = ["internal_", "builtin_", "toolrack_", "mcp_"];

/** Whether a name would pass for one that only the rack itself gives. A skill may come from anywhere. */
export function isReservedName(name: string): boolean {
  const lower = name.toLowerCase();
  return prefixes.some((prefix) => lower.startsWith(prefix));
}

/** For people, in the place where such a name was refused. */
export const reservedNameReason = `It must not begin with ${prefixes.slice(0, -1).join(", ")} or ${prefixes.at(-1)}: such names are the rack's own.`;
