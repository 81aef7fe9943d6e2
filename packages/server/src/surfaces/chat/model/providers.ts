import type { ModelTraits } from "../../../config/config.ts";
import type { ProviderConfig, ProvidersConfig } from "./chat-config.ts";
import type { ModelEndpoint } from "./endpoint.ts";
import { ProviderError } from "./provider-error.ts";
import { headersOf } from "./stream-completion.ts";

export interface ProvidersParts {
  readonly providers: ProvidersConfig;
  /** The model that is used when nobody names one. */
  readonly model?: string | undefined;
  /** `OPENAI_BASE_URL` and `OPENAI_API_KEY` make a provider `openai`, unless the config has one. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly readSecret?: ((name: string) => Promise<string | undefined>) | undefined;
}

/** There is nobody to ask, or no such model. The message says what to do about it. */
export class ModelMissing extends Error {
  readonly code: "provider_missing" | "model_not_found";

  constructor(code: ModelMissing["code"], message: string) {
    super(message);
    this.name = "ModelMissing";
    this.code = code;
  }
}

export const howToConfigure =
  "No model provider is configured. Set OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's, in the " +
  'environment or in .env; or write into toolrack.config.ts: providers: { local: { baseURL: "http://127.0.0.1:11434/v1", ' +
  'models: ["qwen3"] } }. Then start the server again.';

export interface ListedModel {
  /** By which the rack takes it. */
  readonly id: string;
  readonly provider: string;
}

const OPENAI = "https://api.openai.com/v1";
const LIST_PATIENCE = 10_000;
const LIST_FRESH = 60_000;

/** The servers that models are asked on. */
export class Providers {
  readonly #parts: ProvidersParts;
  readonly #all: ReadonlyMap<string, ProviderConfig>;
  readonly #lists = new Map<string, { readonly at: number; readonly models: Promise<string[]> }>();

  constructor(parts: ProvidersParts) {
    this.#parts = parts;
    this.#all = new Map(Object.entries({ ...fromEnvironment(parts.environment), ...parts.providers }));
  }

  get isConfigured(): boolean {
    return this.#all.size > 0;
  }

  /** The model by the name of the rack, or the usual one. Throws `ModelMissing`, or `ProviderError`. */
  async resolve(name: string | undefined): Promise<ModelEndpoint> {
    if (!this.isConfigured) throw new ModelMissing("provider_missing", howToConfigure);
    const wanted = name || this.#parts.model || (await this.#firstModel());
    const [provider, model] = await this.#find(wanted);
    return this.#endpoint(provider, model);
  }

  /** Every model that the providers have, or are configured to have. One that cannot be reached has none. */
  async list(): Promise<ListedModel[]> {
    const names = [...this.#all.keys()];
    const lists = await Promise.all(names.map((name) => this.#modelsOf(name).catch(() => [])));
    return names.flatMap((provider, at) =>
      lists[at]!.map((model) => ({ id: this.#all.size === 1 ? model : `${provider}/${model}`, provider })),
    );
  }

  async #find(wanted: string): Promise<[provider: string, model: string]> {
    const slash = wanted.indexOf("/");
    const before = wanted.slice(0, slash);
    if (slash > 0 && this.#all.has(before)) return [before, wanted.slice(slash + 1)];
    for (const [name, { models }] of this.#all) {
      if (models?.some((model) => idOf(model) === wanted)) return [name, wanted];
    }
    // A provider whose models are not listed may have any.
    for (const [name, { models }] of this.#all) if (models === undefined) return [name, wanted];
    const known = (await this.list()).map(({ id }) => id);
    throw new ModelMissing(
      "model_not_found",
      `No provider has the model "${wanted}". There are: ${known.join(", ") || "none"}.`,
    );
  }

  async #endpoint(provider: string, model: string): Promise<ModelEndpoint> {
    const {
      baseURL,
      apiKey,
      headers = {},
      models,
      toolCalls,
      images,
      contextTokens,
    } = this.#all.get(provider)!;
    const found = models?.find((entry) => idOf(entry) === model);
    const own: ModelTraits = typeof found === "object" ? found : {};
    const fill = (text: string) => this.#fill(text, provider);
    const filled = Object.entries(headers).map(async ([key, value]) => [key, await fill(value)] as const);
    return {
      provider,
      baseURL: (await fill(baseURL)).replace(/\/+$/, ""),
      apiKey: apiKey === undefined ? undefined : await fill(apiKey),
      headers: Object.fromEntries(await Promise.all(filled)),
      model,
      toolCalls: own.toolCalls ?? toolCalls ?? "native",
      images: own.images ?? images ?? true,
      contextTokens: own.contextTokens ?? contextTokens,
    };
  }

  /** `${NAME}` stands for a variable of the environment, `${secret:NAME}` for a secret of the workspace. */
  async #fill(text: string, provider: string): Promise<string> {
    const references = [...text.matchAll(/\$\{(secret:)?([A-Za-z_][A-Za-z0-9_.-]*)\}/g)];
    const values = await Promise.all(
      references.map(async ([whole, secret, name = ""]) => {
        const { environment, readSecret } = this.#parts;
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
    let at = 0;
    return text.replaceAll(/\$\{(?:secret:)?[A-Za-z_][A-Za-z0-9_.-]*\}/g, () => values[at++]!);
  }

  async #firstModel(): Promise<string> {
    for (const provider of this.#all.keys()) {
      const [first] = await this.#modelsOf(provider);
      if (first !== undefined) return `${provider}/${first}`;
    }
    throw new ModelMissing(
      "model_not_found",
      "No model was named, and no provider lists one. Name it in the request, or set chat.model in toolrack.config.ts.",
    );
  }

  #modelsOf(provider: string): Promise<string[]> {
    const { models } = this.#all.get(provider)!;
    if (models !== undefined) return Promise.resolve(models.map(idOf));
    const known = this.#lists.get(provider);
    if (known !== undefined && Date.now() - known.at < LIST_FRESH) return known.models;
    const asked = this.#askModels(provider);
    this.#lists.set(provider, { at: Date.now(), models: asked });
    // A list that could not be had is asked for again.
    asked.catch(() => this.#lists.delete(provider));
    return asked;
  }

  async #askModels(provider: string): Promise<string[]> {
    const endpoint = await this.#endpoint(provider, "");
    const signal = AbortSignal.timeout(LIST_PATIENCE);
    const address = `${endpoint.baseURL}/models`;
    try {
      const response = await fetch(address, { signal, redirect: "error", headers: headersOf(endpoint) });
      if (!response.ok) throw new Error(`it answered ${response.status}`);
      const { data } = Object(await response.json()) as { data?: unknown };
      const list = Array.isArray(data) ? data : [];
      return list.map((entry) => Object(entry).id).filter((id) => typeof id === "string");
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new ProviderError("unreachable", provider, `${address} does not list its models: ${reason}.`, {
        cause,
      });
    }
  }
}

function idOf(model: NonNullable<ProviderConfig["models"]>[number]): string {
  return typeof model === "string" ? model : model.id;
}

function fromEnvironment(environment: ProvidersParts["environment"]): ProvidersConfig {
  const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey } = environment;
  if (!baseURL && !apiKey) return {};
  return { openai: { baseURL: baseURL || OPENAI, ...(apiKey ? { apiKey } : {}) } };
}
