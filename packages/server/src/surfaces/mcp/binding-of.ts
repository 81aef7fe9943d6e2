import type { ServerContext } from "@modelcontextprotocol/server";
import type { Binding } from "./held-exchanges.ts";
import type { Viewer } from "./viewer.ts";

/** Whose request this is, and of which kind; a state that comes with it must have been given to the same for the same. */
export function bindingOf(viewer: Viewer, { mcpReq }: ServerContext): Binding {
  return { principal: viewer.principal, method: mcpReq.method };
}
