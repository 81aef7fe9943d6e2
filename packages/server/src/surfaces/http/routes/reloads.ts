import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";
import { ref } from "../schemas.ts";

export function reloadRoutes({ reloads }: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/reloads",
      id: "listReloads",
      tag: "files",
      summary: "The last loads of the tool files, newest first",
      description: "At most 100 since the start, the first load among them. Each list has at most 200 names.",
      access: "admin",
      responses: {
        200: {
          description: "The loads.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("Reload") } },
            required: ["items"],
          },
        },
      },
      handle: () => ({ body: { items: reloads.list() } }),
    }),
  ];
}
