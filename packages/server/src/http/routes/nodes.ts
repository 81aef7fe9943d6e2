import { NodeSilent } from "../../fleet/index.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, type Route, routesFor, s } from "../wire/index.ts";

/** The servers and workers that share the database. */
export function nodeRoutes({ nodes, drain }: HttpServices): Route[] {
  const route = routesFor("server", "admin");
  return [
    route("GET /api/nodes", "listNodes", "The servers and workers on the same database", {
      description:
        "The one that answers comes first. What others tell of themselves is some seconds old. With SQLite there is one.",
      answer: ["The nodes.", s.items(s.ref("Node"))],
      handle: () => ({ items: nodes.list() }),
    }),
    route("POST /api/nodes/{id}/drain", "drainNode", "Has a node hand over and end", {
      description:
        "From then on `GET /readyz` of that node answers 503. After `server.drainDelay` it takes no more calls, and ends when those under way have, or after `server.drainTimeout`.",
      params: { id: s.text({ minLength: 1 }) },
      answer: ["It will.", s.object({ id: s.text() })],
      errors: ["node_not_found"],
      async handle({ params: { id } }) {
        // One that has just started is not in the list yet.
        await drain(id).catch((thrown) => {
          throw thrown instanceof NodeSilent ? unknownNode(id) : thrown;
        });
        return { id };
      },
    }),
  ];
}

function unknownNode(id: string): HttpError {
  return new HttpError(
    "node_not_found",
    `No node "${id}" answers. GET /api/nodes lists those that are there.`,
  );
}
