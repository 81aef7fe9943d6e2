import type { ModelTraits } from "../../../config/config.ts";
import type { ProviderConfig, ProvidersConfig } from "./chat-config.ts";
import { addressBelow, headersOf, type ModelEndpoint } from "./endpoint.ts";
import { ModelMissing } from "./model-missing.ts";
import { openEndpoint, type ReferenceSources } from "./open-endpoint.ts";
import { notListed } from "./provider-failure.ts";

export { ModelMissing };

/** `environment`: `OPENAI_BASE_URL` and `OPENAI_API_KEY` make a provider `openai`, unless the config has one. */
export interface ProvidersParts extends ReferenceSources {
  readonly providers: ProvidersConfig;
  /** The model that is used when nobody names one. */
  readonly model?: string | undefined;
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
    const wanted = name || this.#parts.model;
    const [provider, model] = wanted ? await this.#find(wanted) : await this.#firstModel();
    return this.#endpoint(provider, model);
  }

  /** A model that was resolved before, by what its provider calls it. Throws `ModelMissing`. */
  async reopen(provider: string, model: string): Promise<ModelEndpoint> {
    if (this.#all.has(provider)) return this.#endpoint(provider, model);
    throw new ModelMissing(
      "provider_missing",
      `The model provider "${provider}" is no longer configured. Name another model.`,
    );
  }

  /** Every model that the providers have, or are configured to have. One that cannot be reached has none. */
  async list(): Promise<ListedModel[]> {
    const names = [...this.#all.keys()];
    const lists = await Promise.all(names.map((name) => this.#modelsOf(name).catch(() => [])));
    return names.flatMap((provider, at) =>
      lists[at]!.map((model) => ({ id: this.#all.size === 1 ? model : `${provider}/${model}`, provider })),
    );
  }

  async #find(wanted: string): Promise<Found> {
    const [before, after] = splitAt(wanted, "/");
    if (this.#all.has(before)) return this.#findPrefixed(wanted, before, after);
    const configured = this.#configured(wanted);
    if (configured !== undefined) return configured;
    // A provider whose models are not listed may have any.
    for (const [name, { models }] of this.#all) if (models === undefined) return [name, wanted];
    const known = (await this.list()).map(({ id }) => id);
    throw new ModelMissing(
      "model_not_found",
      `No provider has the model "${wanted}". There are: ${known.join(", ") || "none"}.`,
    );
  }

  /**
   * What begins like a provider's name may be the name of a model too: a server that offers models of others calls one
   * `openai/gpt-4o`. The name that is listed is meant, and it is listed with the provider where there are several.
   */
  async #findPrefixed(wanted: string, provider: string, rest: string): Promise<Found> {
    // Which of them are there changes seldom: an older list will do.
    const known = this.#lists.get(provider)?.models ?? this.#modelsOf(provider);
    const models = await known.catch((): string[] => []);
    const names = this.#all.size === 1 ? [wanted, rest] : [rest, wanted];
    const found = names.find((name) => models.includes(name));
    if (found !== undefined) return [provider, found];
    return this.#configured(wanted) ?? [provider, rest];
  }

  #configured(wanted: string): Found | undefined {
    for (const [name, { models }] of this.#all) {
      if (models?.some((model) => idOf(model) === wanted)) return [name, wanted];
    }
    return undefined;
  }

  #endpoint(provider: string, model: string): Promise<ModelEndpoint> {
    const config = this.#all.get(provider)!;
    const found = config.models?.find((entry) => idOf(entry) === model);
    const own: ModelTraits = typeof found === "object" ? found : {};
    const traits = {
      toolCalls: own.toolCalls ?? config.toolCalls ?? "native",
      images: own.images ?? config.images ?? true,
      contextTokens: own.contextTokens ?? config.contextTokens,
    } as const;
    return openEndpoint(provider, config, { model, ...traits }, this.#parts);
  }

  async #firstModel(): Promise<Found> {
    for (const provider of this.#all.keys()) {
      const [first] = await this.#modelsOf(provider);
      if (first !== undefined) return [provider, first];
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
    try {
      const address = addressBelow(endpoint, "/models");
      const response = await fetch(address, { signal, redirect: "error", headers: headersOf(endpoint) });
      if (!response.ok) {
        await response.body?.cancel();
        throw new Error(`it answered ${response.status}`);
      }
      const { data } = Object(await response.json()) as { data?: unknown };
      const list = Array.isArray(data) ? data : [];
      return list.map((entry) => Object(entry).id).filter((id) => typeof id === "string");
    } catch (thrown) {
      throw notListed(endpoint, thrown);
    }
  }
}

type Found = readonly [provider: string, model: string];

function splitAt(text: string, mark: string): [before: string, after: string] {
  const at = text.indexOf(mark);
  return at === -1 ? ["", text] : [text.slice(0, at), text.slice(at + 1)];
}

function idOf(model: NonNullable<ProviderConfig["models"]>[number]): string {
  return typeof model === "string" ? model : model.id;
}

function fromEnvironment(environment: ProvidersParts["environment"]): ProvidersConfig {
  const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey } = environment;
  if (!baseURL && !apiKey) return {};
  return { openai: { baseURL: baseURL || OPENAI, ...(apiKey ? { apiKey } : {}) } };
}
