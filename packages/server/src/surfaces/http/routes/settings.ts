import { retentionOf } from "../../../config/retention-of.ts";
import { productVersion } from "../../mcp/product-version.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";
import { ref } from "../schemas.ts";

/** What the server runs with. It is changed in the workspace's config, not here. */
export function settingsRoutes({ workspace, config, registry, settings, program }: HttpParts): Route[] {
  const startedAt = Date.now();
  const { rateLimit, maxBody, maxCallsPerTool } = settings;
  return [
    defineRoute({
      method: "GET",
      path: "/api/server",
      id: "getServer",
      tag: "server",
      summary: "The version, the workspace and the limits of this server",
      access: "admin",
      responses: { 200: { description: "The server.", schema: ref("Server") } },
      handle: () => ({
        body: {
          version: productVersion(),
          workspace: workspace.directory,
          ...(program === undefined ? {} : { program }),
          startedAt,
          limits: {
            maxBody,
            maxCallsPerTool,
            timeout: registry.timeout,
            requestsPerSecond: rateLimit === false ? 0 : rateLimit.perSecond,
          },
          retention: retentionOf(config),
        },
      }),
    }),
  ];
}
