import { issueToken } from "../../access/index.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, Reply, type Route, refuseToolPattern, routesFor, s, toolPattern } from "../wire/index.ts";

const patterns = (description: string) =>
  s.list(s.text({ minLength: 1, maxLength: 200 }), { maxItems: 1_000, description });

export function tokenRoutes(services: HttpServices): Route[] {
  const { store, authenticator, feed, grantsChanged, service } = services;
  const route = routesFor("tokens", "admin");
  return [
    route("GET /api/tokens", "listTokens", "The tokens that were made, without their texts", {
      answer: ["The tokens, oldest first. The workspace's own is not among them.", s.items(s.ref("Token"))],
      handle: async () => ({ items: await store.tokens.list() }),
    }),
    route("POST /api/tokens", "createToken", "Makes a token, and shows its text this once", {
      description: "What the scopes do not mention, the token may not do. Only a hash of its text is kept.",
      body: s.closed({
        name: s.text({ minLength: 1, maxLength: 100, pattern: "\\S" }),
        scopes: s.closed({
          "tools?": patterns(toolPattern),
          "experts?": patterns("Names of experts; `*` stands for anything."),
          "approve?": patterns(`Whose calls it may approve. ${toolPattern} Default: those of no tool.`),
          "admin?": s.boolean("May see and do everything."),
          "chat?": s.boolean("May talk to models. Default: true when it may use any tool or expert."),
        }),
        "expiresAt?": s.integer("Milliseconds since the epoch. Default never."),
      }),
      answer: ["The token and its text.", s.ref("NewToken")],
      async handle({ body }) {
        refusePast(body.expiresAt);
        for (const scope of ["tools", "approve"] as const) {
          for (const [index, pattern] of (body.scopes[scope] ?? []).entries()) {
            refuseToolPattern(`scopes.${scope}[${index}]`, pattern);
          }
        }
        const { token, stored } = await issueToken(store.tokens, body);
        return new Reply({ token, ...stored }, { headers: { "Cache-Control": "no-store" } });
      },
    }),
    route("DELETE /api/tokens/{id}", "removeToken", "Takes a token back", {
      description: "At once on this node, and within seconds on others.",
      params: { id: s.text({ minLength: 1, maxLength: 64 }) },
      answer: ["It opens nothing any more.", s.object({ id: s.text() })],
      errors: ["token_not_found"],
      async handle({ params: { id } }) {
        const isRemoved = await store.tokens.remove(id);
        authenticator.forget();
        await feed.endWithdrawn();
        await grantsChanged();
        await service.endWithdrawn();
        if (isRemoved) return { id };
        const message = `There is no token "${id}". GET /api/tokens lists them.`;
        throw new HttpError("token_not_found", message, { details: { id } });
      },
    }),
  ];
}

function refusePast(expiresAt: number | undefined): void {
  if (expiresAt === undefined || expiresAt > Date.now()) return;
  const issue = { path: "expiresAt", message: "lies in the past, so that the token could never be used" };
  const message = `The body of the request does not fit: expiresAt ${issue.message}.`;
  throw new HttpError("invalid_request", message, { details: { in: "body", issues: [issue] } });
}
