import { issueToken, SecretError, type TokenWish } from "../../access/index.ts";
import type { HttpParts } from "../app.ts";
import { ref } from "../schemas/common.ts";
import { defineRoute, HttpError, type Route, refuseToolPattern, toolPattern } from "../wire/index.ts";

const patterns = { type: "array", items: { type: "string", minLength: 1, maxLength: 200 }, maxItems: 1_000 };

export function tokenRoutes({
  store: { tokens },
  authenticator,
  feed,
  grantsChanged,
  desk,
}: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/tokens",
      id: "listTokens",
      tag: "tokens",
      summary: "The tokens that were made, without their texts",
      access: "admin",
      responses: {
        200: {
          description: "The tokens, oldest first. The workspace's own is not among them.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("Token") } },
            required: ["items"],
          },
        },
      },
      handle: async () => ({ body: { items: await tokens.list() } }),
    }),
    defineRoute<object, object, TokenWish>({
      method: "POST",
      path: "/api/tokens",
      id: "createToken",
      tag: "tokens",
      summary: "Makes a token, and shows its text this once",
      description: "What the scopes do not mention, the token may not do. Only a hash of its text is kept.",
      access: "admin",
      body: {
        required: true,
        schema: {
          type: "object",
          properties: {
            name: { type: "string", minLength: 1, maxLength: 100, pattern: "\\S" },
            scopes: {
              type: "object",
              properties: {
                tools: { ...patterns, description: toolPattern },
                experts: { ...patterns, description: "Names of experts; `*` stands for anything." },
                approve: {
                  ...patterns,
                  description: `Whose calls it may approve. ${toolPattern} Default: those of no tool.`,
                },
                admin: { type: "boolean", description: "May see and do everything." },
                chat: {
                  type: "boolean",
                  description: "May talk to models. Default: true when it may use any tool or expert.",
                },
              },
              additionalProperties: false,
            },
            expiresAt: { type: "integer", description: "Milliseconds since the epoch. Default never." },
          },
          required: ["name", "scopes"],
          additionalProperties: false,
        },
      },
      responses: { 200: { description: "The token and its text.", schema: ref("NewToken") } },
      async handle({ body }) {
        refusePast(body);
        for (const scope of ["tools", "approve"] as const) {
          for (const [index, pattern] of (body.scopes[scope] ?? []).entries()) {
            refuseToolPattern(`scopes.${scope}[${index}]`, pattern);
          }
        }
        const { token, stored } = await issueToken(tokens, body);
        return { body: { token, ...stored }, headers: { "Cache-Control": "no-store" } };
      },
    }),
    defineRoute<{ id: string }>({
      method: "DELETE",
      path: "/api/tokens/{id}",
      id: "removeToken",
      tag: "tokens",
      summary: "Takes a token back",
      description: "At once on this node, and within seconds on others.",
      access: "admin",
      params: { id: { type: "string", minLength: 1, maxLength: 64 } },
      responses: {
        200: {
          description: "It opens nothing any more.",
          schema: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
        },
      },
      errors: ["token_not_found"],
      async handle({ params: { id } }) {
        const isRemoved = await tokens.remove(id);
        authenticator.forget();
        await feed.dropUnwelcome();
        await grantsChanged();
        await desk.dropUnwelcome();
        if (isRemoved) return { body: { id } };
        const message = `There is no token "${id}". GET /api/tokens lists them.`;
        throw new HttpError("token_not_found", message, { details: { id } });
      },
    }),
  ];
}

function refusePast({ expiresAt }: TokenWish): void {
  if (expiresAt === undefined || expiresAt > Date.now()) return;
  const issue = { path: "expiresAt", message: "lies in the past, so that the token could never be used" };
  throw new HttpError(
    "invalid_request",
    `The body of the request does not fit: expiresAt ${issue.message}.`,
    {
      details: { in: "body", issues: [issue] },
    },
  );
}

const named = {
  name: {
    type: "string",
    minLength: 1,
    maxLength: 200,
    description: "`NAME`, or `TOOL/NAME` for the only tool that is given it, with the slash written `%2F`.",
  },
};

/** Values can be written and never read back. */
export function secretRoutes({ secrets }: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/secrets",
      id: "listSecrets",
      tag: "secrets",
      summary: "The names of the secrets; never a value",
      access: "admin",
      responses: {
        200: {
          description: "The secrets by name.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("Secret") } },
            required: ["items"],
          },
        },
      },
      handle: async () => ({ body: { items: await secrets.list() } }),
    }),
    defineRoute<{ name: string }, object, { value: string }>({
      method: "PUT",
      path: "/api/secrets/{name}",
      id: "setSecret",
      tag: "secrets",
      summary: "Sets a secret, or replaces its value",
      description: "The value is kept encrypted, and masked in every record and log from now on.",
      access: "admin",
      params: named,
      body: {
        required: true,
        schema: {
          type: "object",
          properties: { value: { type: "string", minLength: 1 } },
          required: ["value"],
          additionalProperties: false,
        },
      },
      responses: { 200: { description: "The secret, without its value.", schema: ref("Secret") } },
      errors: ["secret_invalid"],
      async handle({ params: { name }, body }) {
        await secrets.set(name, body.value).catch(blame);
        const items = await secrets.list();
        return { body: items.find((secret) => secret.name === name) ?? unknownSecret(name) };
      },
    }),
    defineRoute<{ name: string }>({
      method: "DELETE",
      path: "/api/secrets/{name}",
      id: "removeSecret",
      tag: "secrets",
      summary: "Deletes a secret",
      access: "admin",
      params: named,
      responses: {
        200: {
          description: "No tool is given it any more.",
          schema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
        },
      },
      errors: ["secret_not_found"],
      async handle({ params: { name } }) {
        return { body: (await secrets.remove(name)) ? { name } : unknownSecret(name) };
      },
    }),
  ];
}

function unknownSecret(name: string): never {
  const message = `There is no secret "${name}". GET /api/secrets lists them.`;
  throw new HttpError("secret_not_found", message, { details: { name } });
}

function blame(thrown: unknown): never {
  if (thrown instanceof SecretError) throw new HttpError("secret_invalid", thrown.message);
  throw thrown;
}
