import { declaresSecret, SettingError, toolSecretName } from "../../access/index.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, type Route, routesFor, s } from "../wire/index.ts";

const params = {
  name: s.text("`NAME`, or `TOOL/NAME` for the only tool that is given it, with the slash written `%2F`.", {
    minLength: 1,
    maxLength: 200,
  }),
};

/** Secrets can be written but never read back. */
export function secretRoutes({ values, registry }: HttpServices): Route[] {
  const route = routesFor("secrets", "admin");
  return [
    route("GET /api/secrets", "listSecrets", "The names of the secrets; never a value", {
      answer: ["The secrets by name.", s.items(s.ref("Secret"))],
      handle: async () => ({ items: await values.secrets.list() }),
    }),
    route("PUT /api/secrets/{name}", "setSecret", "Sets a secret, or replaces its value", {
      description:
        "The value is kept encrypted, and masked in every record and log from now on. It needs 8 characters or more: shorter ones occur in many texts by chance. A setting of the same name is removed.",
      params,
      body: s.closed({ value: s.text({ minLength: 1 }) }),
      answer: ["The secret, without its value.", s.ref("Secret")],
      errors: ["secret_invalid"],
      async handle({ params, body }) {
        const { name } = ownerOf(registry, params.name);
        await values.setSecret(name, body.value);
        return (
          (await values.secrets.list()).find((secret) => secret.name === name) ?? unknown("secret", name)
        );
      },
    }),
    route("DELETE /api/secrets/{name}", "removeSecret", "Deletes a secret", {
      params,
      answer: ["No tool is given it any more.", s.object({ name: s.text() })],
      errors: ["secret_not_found"],
      handle: async ({ params: { name } }) =>
        (await values.removeSecret(name)) ? { name } : unknown("secret", name),
    }),
  ];
}

/** Settings are values that tools need and that nobody has to hide. */
export function settingRoutes({ values, registry }: HttpServices): Route[] {
  const route = routesFor("settings", "admin");
  return [
    route("GET /api/settings", "listSettings", "The settings of tools, with their values", {
      answer: ["The settings by name.", s.items(s.ref("Setting"))],
      handle: async () => ({ items: await values.settings() }),
    }),
    route("PUT /api/settings/{name}", "setSetting", "Sets a setting, or replaces its value", {
      description: "The value is kept as it is, shown to admins, and never masked.",
      params,
      body: s.closed({ value: s.text() }),
      answer: ["The setting.", s.ref("Setting")],
      errors: ["setting_invalid"],
      async handle({ params, body }) {
        const { name, isSecret } = ownerOf(registry, params.name);
        const [tool, variable] = name.split("/");
        if (isSecret) {
          throw new SettingError(
            `The tool "${tool}" declares ${variable} as a secret. Set it with PUT /api/secrets/${tool}%2F${variable}, or: toolrack secrets set ${tool} ${variable}`,
          );
        }
        await values.setSetting(name, body.value);
        return (await values.settings()).find((setting) => setting.name === name) ?? unknown("setting", name);
      },
    }),
    route("DELETE /api/settings/{name}", "removeSetting", "Deletes a setting", {
      params,
      answer: ["No tool is given it any more.", s.object({ name: s.text() })],
      errors: ["setting_not_found"],
      handle: async ({ params: { name } }) =>
        (await values.removeSetting(name)) ? { name } : unknown("setting", name),
    }),
  ];
}

/** The name under which the tool of `TOOL/NAME`, or of an alias, finds the value, and whether it declares it as a secret. */
function ownerOf(registry: HttpServices["registry"], said: string): { name: string; isSecret: boolean } {
  const [tool = "", variable] = said.split("/");
  const info = variable === undefined ? undefined : registry.get(tool);
  if (info === undefined || variable === undefined) return { name: said, isSecret: false };
  return { name: toolSecretName(info.name, variable), isSecret: declaresSecret(info, variable) };
}

function unknown(kind: "secret" | "setting", name: string): never {
  const message = `There is no ${kind} "${name}". GET /api/${kind}s lists them.`;
  throw new HttpError(`${kind}_not_found`, message, { details: { name } });
}
