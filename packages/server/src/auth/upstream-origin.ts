import type { ToolMetadata } from "@toolrack/core";

/** Which upstream MCP server something on the rack is of, and what it is called there. */
export interface UpstreamOrigin {
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
