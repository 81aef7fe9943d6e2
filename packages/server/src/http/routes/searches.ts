import type { HttpServices } from "../services.ts";
import { HttpError, type Route, routesFor, s } from "../wire/index.ts";

/** What search has learned from use: it can be seen, forgotten and switched off. */
export function searchRoutes({ service: { searches } }: HttpServices): Route[] {
  const route = routesFor("searches", "token");
  return [
    route(
      "GET /api/searches",
      "listSearches",
      "The searches that were followed by a call, the last used first",
      {
        description:
          "They help later searches with like words. An admin sees all of them; any other token its own. Nothing is kept of the calls.",
        query: { limit: s.integer({ minimum: 1, maximum: 1000, default: 100 }) },
        answer: ["The searches, how many there are, and whether more are learned.", s.ref("SearchList")],
        async handle({ query: { limit = 100 }, grant }) {
          return { learning: await searches.isLearning(), ...(await searches.list(grant, limit)) };
        },
      },
    ),
    route("PATCH /api/searches", "switchLearning", "Switches learning from searches on or off", {
      description:
        "Switched off, nothing more is learned, and what was learned helps nobody; it stays until it is deleted. The switch outlives restarts and holds for all servers of the workspace. `search.learning: false` in the config keeps it off.",
      access: "admin",
      body: s.closed({ learning: s.boolean() }),
      answer: ["Whether searches are learned now.", s.object({ learning: s.boolean() })],
      async handle({ body: { learning } }) {
        await searches.setLearning(learning);
        return { learning: await searches.isLearning() };
      },
    }),
    route("DELETE /api/searches", "clearSearches", "Forgets all searches that the token may see", {
      answer: ["How many were forgotten.", s.object({ count: s.count() })],
      handle: async ({ grant }) => ({ count: await searches.forget(grant) }),
    }),
    route("DELETE /api/searches/{id}", "forgetSearch", "Forgets a search", {
      params: { id: s.text({ minLength: 1, maxLength: 80 }) },
      answer: ["It helps no search any more.", s.object({ id: s.text() })],
      errors: ["search_not_found"],
      async handle({ params: { id }, grant }) {
        if ((await searches.forget(grant, id)) > 0) return { id };
        const message = `This token knows no search "${id}". GET /api/searches lists those that it may see.`;
        throw new HttpError("search_not_found", message, { details: { id } });
      },
    }),
  ];
}
