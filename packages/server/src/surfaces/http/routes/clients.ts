import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";
import { ref } from "../schemas.ts";

export function clientRoutes({ clients }: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/clients",
      id: "listClients",
      tag: "server",
      summary: "The MCP clients that were seen since the start",
      description: "Of very many, those that were seen last. A client over stdio has a server of its own.",
      access: "admin",
      responses: {
        200: {
          description: "The clients, the one that was seen last first.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("Client") } },
            required: ["items"],
          },
        },
      },
      handle: () => ({ body: { items: clients?.list() ?? [] } }),
    }),
  ];
}
