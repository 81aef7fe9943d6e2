import type { IncomingHttpHeaders } from "node:http";
import type { McpParts } from "../mcp-parts.ts";
import type { Viewer } from "../viewer.ts";
import { paramMismatch } from "./param-headers.ts";

const taskMethods: ReadonlySet<unknown> = new Set(["tasks/get", "tasks/update", "tasks/cancel"]);

/** Says how headers and body disagree, where the SDK does not look: at arguments, and at the ids of tasks. */
export function headerMismatch(
  { registry }: Pick<McpParts, "registry">,
  viewer: Viewer,
  body: unknown,
  headers: IncomingHttpHeaders,
): string | undefined {
  const { method, params } = body as {
    method?: unknown;
    params?: { name?: unknown; taskId?: unknown; arguments?: unknown };
  };
  if (taskMethods.has(method)) {
    const isSame = headers["mcp-name"] === params?.taskId;
    return isSame ? undefined : "The header Mcp-Name and the taskId in the body differ.";
  }
  if (method !== "tools/call" || typeof params?.name !== "string") return undefined;
  const tool = registry.get(params.name);
  return tool === undefined || !viewer.sees(tool)
    ? undefined
    : paramMismatch(tool, params.arguments, headers);
}
