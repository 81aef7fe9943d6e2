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
  /** The default model. */
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

export interface ListedModel {
  /** The name under which the rack accepts the model. */
  readonly id: string;
  readonly provider: string;
}

const OPENAI = "https://api.openai.com/v1";
const LIST_PATIENCE = 10_000;
const LIST_FRESH = 60_000;

type Found = readonly [provider: string, model: string];

/** The configured model providers. */
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

  /** Opens a model that was resolved before, by its provider's name for it. Throws `ModelMissing`. */
  async reopen(provider: string, model: string): Promise<ModelEndpoint> {
    if (this.#all.has(provider)) return this.#endpoint(provider, model);
    const message = `The model provider "${provider}" is no longer configured. Name another model.`;
    throw new ModelMissing("provider_missing", message);
  }

  /** All models that are configured or that the providers list. A provider that cannot be reached adds none. */
  async list(): Promise<ListedModel[]> {
    const names = [...this.#all.keys()];
    const lists = await Promise.all(names.map((name) => this.#modelsOf(name).catch(() => [])));
    return names.flatMap((provider, at) =>
      lists[at]!.map((model) => ({ id: this.#all.size === 1 ? model : `${provider}/${model}`, provider })),
    );
  }

  async #find(wanted: string): Promise<Found> {
    const slash = wanted.indexOf("/");
    const before = wanted.slice(0, Math.max(0, slash));
    if (this.#all.has(before)) return this.#findPrefixed(wanted, before, wanted.slice(slash + 1));
    const configured = this.#configured(wanted);
    if (configured !== undefined) return configured;
    // A provider without configured models may have any model.
    for (const [name, { models }] of this.#all) if (models === undefined) return [name, wanted];
    const known = (await this.list()).map(({ id }) => id).join(", ");
    const message = `No provider has the model "${wanted}". There are: ${known || "none"}.`;
    throw new ModelMissing("model_not_found", message);
  }

  /**
   * A name such as `openai/gpt-4o` may be a provider and a model, or the whole name of a model on a server that offers
   * models of others. The provider's list decides; with several providers, listed names begin with the provider.
   */
  async #findPrefixed(wanted: string, provider: string, rest: string): Promise<Found> {
    // Models change seldom, so an older list is good enough.
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
      model,
      toolCalls: own.toolCalls ?? config.toolCalls ?? "native",
      images: own.images ?? config.images ?? true,
      contextTokens: own.contextTokens ?? config.contextTokens,
    } as const;
    return openEndpoint(provider, config, traits, this.#options);
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

/** A model with all references filled in. Throws `ModelMissing` if one cannot be filled in. */
export async function openEndpoint(
  provider: string,
  { baseURL, apiKey, headers = {} }: ProviderConfig,
  traits: Pick<ModelEndpoint, "model" | "toolCalls" | "images" | "contextTokens">,
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
  return {
    provider,
    ...reached,
    address: shownAddress(baseURL),
    secrets: secretsOf(reached, filled),
    ...traits,
  };
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
      const message = `The model provider "${provider}" needs ${whole}, which is not set. ${remedy}.`;
      throw new ModelMissing("provider_missing", message);
    }),
  );
  filled.push(...values);
  let at = 0;
  return text.replaceAll(reference, () => values[at++]!);
}

/** Shorter words of a header are not masked, because they occur in texts by chance. */
const SHORTEST_WORD = 8;

/** Values to mask, in every form in which a provider may repeat them. `filled`: the values of references. */
function secretsOf(
  { baseURL, apiKey, headers }: Pick<ModelEndpoint, "baseURL" | "apiKey" | "headers">,
  filled: readonly string[],
): string[] {
  const values = Object.values(headers);
  // A provider may repeat only the key of `Bearer KEY`.
  const words = values.flatMap((value) => value.split(/\s+/)).filter((word) => word.length >= SHORTEST_WORD);
  const query = new URL(baseURL).searchParams.values();
  const plain = new Set([
    ...(apiKey === undefined ? [] : [apiKey]),
    ...values,
    ...words,
    ...query,
    ...filled,
  ]);
  return [...new Set([...plain].flatMap(writtenForms))];
}
