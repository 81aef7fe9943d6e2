import { HttpError } from "../http-error.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";

export function eventRoutes({ feed, authenticator }: HttpParts): Route[] {
  return [
    defineRoute<object, { since?: string; token?: string }>({
      method: "GET",
      path: "/api/events",
      id: "readEvents",
      tag: "events",
      summary: "What happens on the rack, as it happens",
      description: [
        "A stream of `call.queued`, `call.started`, `call.updated`, `call.progress`, `call.log`, `call.approval_requested`,",
        "`call.approval_resolved`, `call.completed`, `call.failed`, `call.cancelled`, `loop.detected`,",
        "`approval.changed`, `tools.changed`, `tool.switched`, `skill.changed`, `skill.removed`, `expert.changed`,",
        "`expert.removed`, `mcp.server`, `mcp.file`, `client.connected`, `reload.started`, `reload.finished` and `reload.failed`. It opens with `ready`.",
        "A reader that comes back with",
        "`Last-Event-ID` is given what it missed, or `reset` when that is not known any more: then it reads the lists",
        "anew. Events hold ids and summaries. An admin is told of everything, any other token of its own calls.",
      ].join(" "),
      access: "token",
      tokenInQuery: true,
      query: {
        since: { type: "string", maxLength: 64, description: "Like `Last-Event-ID`, for a first request." },
        token: {
          type: "string",
          description:
            "The token, for readers that cannot send headers. No other path takes it from the URL.",
        },
      },
      responses: {
        200: { description: "The stream.", contentType: "text/event-stream", schema: { type: "string" } },
      },
      errors: ["stopping"],
      handle({ query, grant, incoming, outgoing }) {
        if (incoming.method === "HEAD") {
          throw new HttpError("method_not_allowed", "A stream has no HEAD.", { headers: { Allow: "GET" } });
        }
        const header = incoming.headers["last-event-id"];
        const lastEventId = typeof header === "string" ? header : query.since;
        const { authorization } = incoming.headers;
        const isWelcome = async () =>
          (await authenticator.authenticate({ authorization, query: query.token })).ok;
        feed.subscribe(outgoing, grant, lastEventId, isWelcome);
        return "sent";
      },
    }),
  ];
}
