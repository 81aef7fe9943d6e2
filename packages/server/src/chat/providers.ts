import { writtenForms } from "../access/index.ts";
import { addressProblem, type Config, type ModelTraits, shownAddress } from "../config/index.ts";
import type { ModelEndpoint } from "./model.ts";
import { askProvider, failure } from "./provider.ts";

type ProvidersConfig = NonNullable<Config["providers"]>;
type ProviderConfig = ProvidersConfig[string];

/** Where references in the config get their values. */
interface ReferenceSources {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly readSecret?: ((name: string) => Promise<string | undefined>) | undefined;
}

/** `environment`: `OPENAI_BASE_URL` and `OPENAI_API_KEY` make a provider `openai`, unless the config has one. */
interface ProvidersOptions extends ReferenceSources {
  readonly providers: ProvidersConfig;
  readonly model?: string | undefined;
}

export const howToConfigure =
  "No model provider is configured. Set OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's, in the " +
  'environment or in .env; or write into toolrack.config.ts: providers: { local: { baseURL: "http://127.0.0.1:11434/v1", ' +
  'models: ["qwen3"] } }. Then start the server again.';

/** No provider is configured, or the model does not exist. The message says what to do. */
export class ModelMissing extends Error {
  override readonly name = "ModelMissing";
  readonly code: "provider_missing" | "model_not_found";

  constructor(code: ModelMissing["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/** `id`: the name under which the rack accepts the model. */
export interface ListedModel {
  readonly id: string;
  readonly provider: string;
}

const OPENAI = "https://api.openai.com/v1";
const LIST_PATIENCE = 10_000;
const LIST_FRESH = 60_000;

type Found = readonly [provider: string, model: string];

export class Providers {
  readonly #options: ProvidersOptions;
  readonly #all: ReadonlyMap<string, ProviderConfig>;
  readonly #lists = new Map<string, { readonly at: number; readonly models: Promise<string[]> }>();

  constructor(options: ProvidersOptions) {
    this.#options = options;
    const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey } = options.environment;
    const openai = { baseURL: baseURL || OPENAI, ...(apiKey ? { apiKey } : {}) };
    const own = baseURL || apiKey ? { openai } : {};
    this.#all = new Map(Object.entries({ ...own, ...options.providers }));
  }

  get isConfigured(): boolean {
    return this.#all.size > 0;
  }

  /** Finds a model by its name on the rack, or the default model. Throws `ModelMissing` or `ProviderError`. */
  async resolve(name: string | undefined): Promise<ModelEndpoint> {
    if (!this.isConfigured) throw new ModelMissing("provider_missing", howToConfigure);
    const wanted = name || this.#options.model;
    const [provider, model] = wanted ? await this.#find(wanted) : await this.#firstModel();
    return this.#endpoint(provider, model);
  }

  /** Opens a model that `resolve` found before, by its provider's own name for it. Throws `ModelMissing`. */
  async reopen(provider: string, model: string): Promise<ModelEndpoint> {
    if (this.#all.has(provider)) return this.#endpoint(provider, model);
    const message = `The model provider "${provider}" is no longer configured. Name another model.`;
    throw new ModelMissing("provider_missing", message);
  }

  /** All models that are configured or that the providers list. A provider that cannot be reached adds none. */
  async list(): Promise<ListedModel[]> {
    const lists = [...this.#all.keys()].map(async (provider) => {
      const models = await this.#modelsOf(provider).catch(() => []);
      return models.map((model) => ({ id: this.#all.size === 1 ? model : `${provider}/${model}`, provider }));
    });
    return (await Promise.all(lists)).flat();
  }

  async #find(wanted: string): Promise<Found> {
    const [, provider = "", rest = ""] = /^([^/]*)\/(.*)$/s.exec(wanted) ?? [];
    if (this.#all.has(provider)) {
      // A name such as `openai/gpt-4o` may be a provider and a model, or the whole name of a model on a
      // server that offers models of others. The provider's list decides; models change seldom, so an older
      // list is good enough. If the list has both, the first meaning wins when there are several providers,
      // because the rack then lists its models as `provider/model`.
      const known = this.#lists.get(provider)?.models ?? this.#modelsOf(provider);
      const models = await known.catch((): string[] => []);
      const names = this.#all.size === 1 ? [wanted, rest] : [rest, wanted];
      const found = names.find((name) => models.includes(name));
      if (found !== undefined) return [provider, found];
    }
    for (const [name, { models }] of this.#all) {
      if (models?.some((model) => idOf(model) === wanted)) return [name, wanted];
    }
    if (this.#all.has(provider)) return [provider, rest];
    // A provider without configured models may have any model.
    for (const [name, { models }] of this.#all) if (models === undefined) return [name, wanted];
    const known = (await this.list()).map(({ id }) => id).join(", ");
    const message = `No provider has the model "${wanted}". There are: ${known || "none"}.`;
    throw new ModelMissing("model_not_found", message);
  }

  async #firstModel(): Promise<Found> {
    for (const provider of this.#all.keys()) {
      const [first] = await this.#modelsOf(provider);
      if (first !== undefined) return [provider, first];
    }
    const message =
      "No model was named, and no provider lists one. Name it in the request, or set chat.model in toolrack.config.ts.";
    throw new ModelMissing("model_not_found", message);
  }

  #endpoint(provider: string, model: string): Promise<ModelEndpoint> {
    const config = this.#all.get(provider)!;
    const found = config.models?.find((entry) => idOf(entry) === model);
    const own: ModelTraits = typeof found === "object" ? found : {};
    const traits = {
      model,
      toolCalls: own.toolCalls ?? config.toolCalls ?? "native",
      images: own.images ?? config.images ?? true,
      contextTokens: own.contextTokens ?? config.contextTokens,
    } as const;
    return openEndpoint(provider, config, traits, this.#options);
  }

  #modelsOf(provider: string): Promise<string[]> {
    const { models } = this.#all.get(provider)!;
    if (models !== undefined) return Promise.resolve(models.map(idOf));
    const known = this.#lists.get(provider);
    if (known !== undefined && Date.now() - known.at < LIST_FRESH) return known.models;
    const asked = this.#askModels(provider);
    this.#lists.set(provider, { at: Date.now(), models: asked });
    // A failed list is fetched again the next time.
    asked.catch(() => this.#lists.delete(provider));
    return asked;
  }

  async #askModels(provider: string): Promise<string[]> {
    const endpoint = await this.#endpoint(provider, "");
    try {
      const response = await askProvider(endpoint, "/models", { signal: AbortSignal.timeout(LIST_PATIENCE) });
      if (!response.ok) {
        await response.body?.cancel();
        throw new Error(`it answered ${response.status}`);
      }
      const { data } = Object(await response.json());
      const list = Array.isArray(data) ? data : [];
      return list.map((entry) => Object(entry).id).filter((id) => typeof id === "string");
    } catch (thrown) {
      throw failure("unreachable", endpoint, "does not list its models", thrown);
    }
  }
}

function idOf(model: NonNullable<ProviderConfig["models"]>[number]): string {
  return typeof model === "string" ? model : model.id;
}

const reference = /\$\{(secret:)?([A-Za-z_][A-Za-z0-9_.-]*)\}/g;
/** Shorter words of a header are not masked, because they occur in texts by chance. */
const SHORTEST_WORD = 8;

/**
 * A model with all references filled in: `${NAME}` stands for a variable of the environment, `${secret:NAME}` for a
 * secret of the workspace. Throws `ModelMissing` if one cannot be filled in.
 */
export async function openEndpoint(
  provider: string,
  { baseURL, apiKey, headers: given = {} }: ProviderConfig,
  traits: Pick<ModelEndpoint, "model" | "toolCalls" | "images" | "contextTokens">,
  { environment, readSecret }: ReferenceSources,
): Promise<ModelEndpoint> {
  const missing = (message: string) =>
    new ModelMissing("provider_missing", `The model provider "${provider}" ${message}`);
  const filled = new Map<string, string>();
  const fill = async (text: string) => {
    for (const [whole, secret, name = ""] of text.matchAll(reference)) {
      const value = secret === undefined ? environment[name] : await readSecret?.(name);
      const remedy =
        secret === undefined ? `Set the variable ${name}` : `Set it with: toolrack secrets set ${name}`;
      if (!value) throw missing(`needs ${whole}, which is not set. ${remedy}.`);
      filled.set(whole, value);
    }
    return text.replaceAll(reference, (whole) => filled.get(whole) ?? whole);
  };
  const base = (await fill(baseURL)).replace(/\/+$/, "");
  const problem = addressProblem(base);
  if (problem !== undefined) throw missing(`cannot be asked: its baseURL ${problem}`);
  const key = apiKey === undefined ? undefined : await fill(apiKey);
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) headers[name] = await fill(value);
  const values = Object.values(headers);
  // An error of the provider may quote only the key of `Bearer KEY`.
  const words = values.flatMap((value) => value.split(/\s+/)).filter((word) => word.length >= SHORTEST_WORD);
  const query = new URL(base).searchParams.values();
  // An error of the provider may quote a secret in any form.
  const plain = [...(key === undefined ? [] : [key]), ...values, ...words, ...query, ...filled.values()];
  const secrets = [...new Set(plain.flatMap(writtenForms))];
  return {
    provider,
    baseURL: base,
    apiKey: key,
    headers,
    address: shownAddress(baseURL),
    secrets,
    ...traits,
  };
}
