import { addressProblem, shownAddress } from "../../../config/provider-address.ts";
import type { ProviderConfig } from "./chat-config.ts";
import type { ModelEndpoint } from "./endpoint.ts";
import { ModelMissing } from "./model-missing.ts";
import { secretsOf } from "./provider-secrets.ts";

/** Where the values come from that references in the config stand for. */
export interface ReferenceSources {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly readSecret?: ((name: string) => Promise<string | undefined>) | undefined;
}

type Traits = Pick<ModelEndpoint, "toolCalls" | "images" | "contextTokens">;

/** A model of a provider with every reference filled in. Throws `ModelMissing` where that cannot be done. */
export async function openEndpoint(
  provider: string,
  { baseURL, apiKey, headers = {} }: ProviderConfig,
  { model, ...traits }: Traits & { readonly model: string },
  sources: ReferenceSources,
): Promise<ModelEndpoint> {
  const filled: string[] = [];
  const fill = (text: string) => fillReferences(text, provider, sources, filled);
  const base = (await fill(baseURL)).replace(/\/+$/, "");
  const problem = addressProblem(base);
  if (problem !== undefined) {
    const message = `The model provider "${provider}" cannot be asked: its baseURL ${problem}`;
    throw new ModelMissing("provider_missing", message);
  }
  const key = apiKey === undefined ? undefined : await fill(apiKey);
  const entries = Object.entries(headers).map(async ([name, value]) => [name, await fill(value)] as const);
  const reached = { baseURL: base, apiKey: key, headers: Object.fromEntries(await Promise.all(entries)) };
  const secrets = secretsOf({ ...reached, filled });
  return { provider, ...reached, address: shownAddress(baseURL), secrets, model, ...traits };
}

const reference = /\$\{(secret:)?([A-Za-z_][A-Za-z0-9_.-]*)\}/g;

/** `${NAME}` stands for a variable of the environment, `${secret:NAME}` for a secret of the workspace. */
async function fillReferences(
  text: string,
  provider: string,
  { environment, readSecret }: ReferenceSources,
  filled: string[],
): Promise<string> {
  const values = await Promise.all(
    [...text.matchAll(reference)].map(async ([whole, secret, name = ""]) => {
      const value = secret === undefined ? environment[name] : await readSecret?.(name);
      if (value !== undefined && value !== "") return value;
      const remedy =
        secret === undefined ? `Set the variable ${name}` : `Set it with: toolrack secrets set ${name}`;
      throw new ModelMissing(
        "provider_missing",
        `The model provider "${provider}" needs ${whole}, which is not set. ${remedy}.`,
      );
    }),
  );
  filled.push(...values);
  let at = 0;
  return text.replaceAll(reference, () => values[at++]!);
}
