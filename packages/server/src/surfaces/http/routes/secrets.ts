import { SecretError } from "../../../secrets/secret-error.ts";
import { HttpError } from "../http-error.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";
import { ref } from "../schemas.ts";

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
