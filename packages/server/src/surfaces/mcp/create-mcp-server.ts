import type { ServerCapabilities, ServerContext } from "@modelcontextprotocol/server";
import { bindingOf } from "./binding-of.ts";
import { listCache } from "./list-cache.ts";
import type { McpParts } from "./mcp-parts.ts";
import { RackServer } from "./rack-server.ts";
import { serveOfferings } from "./serve-offerings.ts";
import { serveSkills } from "./serve-skills.ts";
import { serveTools } from "./serve-tools.ts";
import type { ServerPlace } from "./server-place.ts";
import { serveTasks } from "./tasks/serve-tasks.ts";
import { tasksExtension } from "./tasks/task-support.ts";
import type { Viewer } from "./viewer.ts";

/** The rack as one viewer's MCP server. It holds nothing of its own, so that it can be made for a single request. */
export function createMcpServer(parts: McpParts, viewer: Viewer, place: ServerPlace): RackServer {
  const options = {
    capabilities: capabilities(place),
    instructions: instructionsFor(parts, viewer),
    cacheHints: {
      "tools/list": listCache,
      "prompts/list": listCache,
      "resources/list": listCache,
      "resources/templates/list": listCache,
      "server/discover": listCache,
    },
    requestState: {
      verify: (state: string, context: ServerContext) => parts.held.take(state, bindingOf(viewer, context)),
    },
  };
  const server = new RackServer(parts.serverInfo, options, place.era);
  server.onerror = (error) => parts.logger.debug("MCP:", error.message);
  serveTools(server, parts, viewer, place);
  serveOfferings(server, parts, viewer, place);
  serveSkills(server, parts, viewer);
  serveTasks(server, parts, viewer, place);
  return server;
}

function capabilities({ era }: ServerPlace): ServerCapabilities {
  return {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true, subscribe: true },
    completions: {},
    logging: {},
    extensions: {
      "io.modelcontextprotocol/skills": { directoryRead: true },
      ...(era === "modern" ? { [tasksExtension]: {} } : {}),
    },
  };
}

function instructionsFor({ lists }: McpParts, viewer: Viewer): string {
  const own = viewer.expert?.instructions;
  const meta = lists.of(viewer).isShortened
    ? "There are more tools than are listed: toolrack_search finds them and toolrack_call calls them."
    : undefined;
  return [own, meta].filter((text) => text !== undefined).join("\n\n");
}
