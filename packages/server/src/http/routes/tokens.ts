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

/** Secrets can be written but never read back. */
export function secretRoutes({ secrets }: HttpServices): Route[] {
  const route = routesFor("secrets", "admin");
  const params = {
    name: s.text({
      minLength: 1,
      maxLength: 200,
      description: "`NAME`, or `TOOL/NAME` for the only tool that is given it, with the slash written `%2F`.",
    }),
  };
  return [
    route("GET /api/secrets", "listSecrets", "The names of the secrets; never a value", {
      answer: ["The secrets by name.", s.items(s.ref("Secret"))],
      handle: async () => ({ items: await secrets.list() }),
    }),
    route("PUT /api/secrets/{name}", "setSecret", "Sets a secret, or replaces its value", {
      description: "The value is kept encrypted, and masked in every record and log from now on.",
      params,
      body: s.closed({ value: s.text({ minLength: 1 }) }),
      answer: ["The secret, without its value.", s.ref("Secret")],
      errors: ["secret_invalid"],
      async handle({ params: { name }, body }) {
        await secrets.set(name, body.value);
        return (await secrets.list()).find((secret) => secret.name === name) ?? unknownSecret(name);
      },
    }),
    route("DELETE /api/secrets/{name}", "removeSecret", "Deletes a secret", {
      params,
      answer: ["No tool is given it any more.", s.object({ name: s.text() })],
      errors: ["secret_not_found"],
      handle: async ({ params: { name } }) => ((await secrets.remove(name)) ? { name } : unknownSecret(name)),
    }),
  ];
}

function unknownSecret(name: string): never {
  const message = `There is no secret "${name}". GET /api/secrets lists them.`;
  throw new HttpError("secret_not_found", message, { details: { name } });
}
