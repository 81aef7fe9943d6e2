import type { HttpParts } from "./parts.ts";
import { defineRoute, type Route } from "./route.ts";

/** Lets a program that has the workspace's token make sure that it talks to its server, before it sends the token. */
export function identityRoutes({ prove }: Pick<HttpParts, "prove">): Route[] {
  return [
    defineRoute<{ nonce: string }>({
      method: "GET",
      path: "/identity/{nonce}",
      id: "identify",
      tag: "server",
      summary: "Proves that this is the workspace's server",
      description:
        "Answers with the HMAC-SHA256 of `toolrack server`, the server's port and the nonce, each on a line, under " +
        "the workspace's own token, in base64url.",
      access: "open",
      params: {
        nonce: {
          type: "string",
          minLength: 16,
          maxLength: 128,
          description: "Random, and never used before.",
        },
      },
      responses: {
        200: {
          description: "The proof.",
          schema: { type: "object", properties: { proof: { type: "string" } }, required: ["proof"] },
        },
      },
      handle: ({ params, incoming }) => ({
        body: { proof: prove(incoming.socket.localPort ?? 0, params.nonce) },
      }),
    }),
  ];
}
