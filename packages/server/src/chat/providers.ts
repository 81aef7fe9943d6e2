import { isSecretName, Mask } from "@toolrack/core/internal";
import { writtenForms } from "../access/index.ts";
import { addressProblem, type Config, type ModelTraits, shownAddress } from "../config/index.ts";
import { ChatError, failure, ProviderError } from "./errors.ts";
import type { ModelEndpoint } from "./model.ts";
import { askProvider } from "./provider.ts";
import { ProviderHealth } from "./provider-health.ts";

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
  /** Names of models, each with the models that are asked in turn until one answers. */
  readonly models?: Readonly<Record<string, readonly string[]>> | undefined;
  /** The secrets of the workspace, as they are now. Default: none. */
  readonly secretMask?: () => Mask;
}

export const howToConfigure =
  "No model provider is configured. Set OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's, in the " +
  'environment or in .env; or write into toolrack.config.ts: providers: { local: { baseURL: "http://127.0.0.1:11434/v1", ' +
  'models: ["qwen3"] } }. Then start the server again.';

/** `id`: the name under which the rack accepts the model. */
export interface ListedModel {
  readonly id: string;
  readonly provider: string;
  /** For a name that stands for several models: these, in their order, and how they are. */
  readonly providers?: readonly (Readonly<Record<string, unknown>> & { readonly id: string })[];
}

const OPENAI = "https://api.openai.com/v1";
const LIST_PATIENCE = 10_000;
const LIST_FRESH = 60_000;
/** Seconds. Models that think in silence may take minutes. */
const USUAL_IDLE = 300;

type Found = readonly [provider: string, model: string];

export class Providers {
  readonly health = new ProviderHealth();
  readonly #options: ProvidersOptions;
  readonly #all: ReadonlyMap<string, ProviderConfig>;
  readonly #fallbacks: ReadonlyMap<string, readonly string[]>;
  /** The lists of providers. `at`: when it was asked for, or could not be had, in milliseconds since 1970. */
  readonly #lists = new Map<string, { at: number; hasFailed: boolean; readonly models: Promise<string[]> }>();
  readonly #connections = new Map<string, Connection>();

  constructor(options: ProvidersOptions) {
    this.#options = options;
    const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey } = options.environment;
    const openai = { baseURL: baseURL || OPENAI, ...(apiKey ? { apiKey } : {}) };
    const own = baseURL || apiKey ? { openai } : {};
    this.#all = new Map(Object.entries({ ...own, ...options.providers }));
    this.#fallbacks = new Map(Object.entries(options.models ?? {}));
  }

  get isConfigured(): boolean {
    return this.#all.size > 0;
  }

  /** Finds a model by its name on the rack, or the default model. Throws `ChatError` or `ProviderError`. */
  async resolve(name: string | undefined): Promise<ModelEndpoint> {
    if (!this.isConfigured) throw new ChatError("provider_missing", howToConfigure);
    const wanted = name || this.#options.model;
    const list = wanted && this.#fallbacks.get(wanted);
    if (list) return this.#resolveList(list);
    const [provider, model] = wanted ? await this.#find(wanted) : await this.#firstModel();
    return this.#endpoint(provider, model);
  }

  /**
   * Opens a model that `resolve` found before, by its provider's own name for it. `name`: what `resolve` was given; a name
   * that stands for several models gives the others as alternatives. Throws `ChatError` or `ProviderError`.
   */
  async reopen(provider: string, model: string, name?: string): Promise<ModelEndpoint> {
    const list = this.#fallbacks.get(name || this.#options.model || "");
    if (list) return this.#resolveList(list, (one) => one.provider === provider && one.model === model);
    if (this.#all.has(provider)) return this.#endpoint(provider, model);
    const message = `The model provider "${provider}" is no longer configured. Name another model.`;
    throw new ChatError("provider_missing", message);
  }

  /** All models that are configured or that the providers list. A provider that cannot be reached adds none. */
  async list(): Promise<ListedModel[]> {
    const named = [...this.#fallbacks].map(async ([id, list]): Promise<ListedModel> => {
      const providers = await Promise.all(
        list.map(async (entry) => {
          try {
            const { provider, model } = await this.#endpoint(...(await this.#find(entry)));
            return { id: entry, provider, model, ...this.health.stateOf({ provider, model }) };
          } catch (thrown) {
            if (!(thrown instanceof ChatError)) throw thrown;
            return { id: entry, health: "missing", reason: thrown.message };
          }
        }),
      );
      return { id, provider: "toolrack", providers };
    });
    const own = await this.#listOwn();
    return [...(await Promise.all(named)), ...own.filter(({ id }) => !this.#fallbacks.has(id))];
  }

  /** Lists the models of all providers, without the names in the config that stand for several models. */
  async #listOwn(): Promise<ListedModel[]> {
    const lists = [...this.#all.keys()].map(async (provider) => {
      const models = await this.#modelsOf(provider).catch(() => []);
      return models.map((model) => ({ id: this.#all.size === 1 ? model : `${provider}/${model}`, provider }));
    });
    return (await Promise.all(lists)).flat();
  }

  /** The healthiest of several models, or the preferred one, with the others as its alternatives. */
  async #resolveList(
    list: readonly string[],
    isPreferred: (endpoint: ModelEndpoint) => boolean = () => false,
  ): Promise<ModelEndpoint> {
    let problem: unknown;
    const found: ModelEndpoint[] = [];
    for (const entry of list) {
      try {
        found.push(await this.#endpoint(...(await this.#find(entry))));
      } catch (thrown) {
        // A provider whose key is missing must not stand in the way of the others. `list` tells of it.
        if (!(thrown instanceof ChatError)) throw thrown;
        problem ??= thrown;
      }
    }
    const sorted = this.health.sorted(found);
    const [first, ...alternatives] = sorted.toSorted(
      (a, b) => Number(isPreferred(b)) - Number(isPreferred(a)),
    );
    if (first === undefined) throw problem;
    return { ...first, alternatives };
  }

  async #find(wanted: string): Promise<Found> {
    const [, provider = "", rest = ""] = /^([^/]*)\/(.*)$/s.exec(wanted) ?? [];
    const isNamed = this.#all.has(provider);
    // A name such as `openai/gpt-4o` may be a provider and a model, or the whole name of a model on a server
    // that offers models of others. The provider's list decides. If the list has both, the first meaning wins
    // when there are several providers, because the rack then lists its models as `provider/model`.
    const names = !isNamed ? [] : this.#all.size === 1 ? [wanted, rest] : [rest, wanted];
    for (const name of names) if (await this.#hasModel(provider, name)) return [provider, name];
    for (const [name, { models }] of this.#all) {
      if (models?.some((model) => idOf(model) === wanted)) return [name, wanted];
    }
    const all = [...this.#all.keys()].map(
      async (name) => [name, await this.#hasModel(name, wanted)] as const,
    );
    const told = await Promise.all(all);
    const listing = told.find(([, hasIt]) => hasIt);
    if (listing !== undefined) return [listing[0], wanted];
    // A provider that does not tell its models may have any.
    const untold = new Set(told.filter(([, hasIt]) => hasIt === undefined).map(([name]) => name));
    const takesAny = (name: string) => this.#all.get(name)?.catchAll === true || untold.has(name);
    if (isNamed && takesAny(provider)) return [provider, rest];
    const others = isNamed ? [] : [...this.#all.keys()].filter(takesAny);
    const last = others.find((name) => this.#all.get(name)?.catchAll) ?? others[0];
    if (last !== undefined) return [last, wanted];
    const ids = (await this.#listOwn()).map(({ id }) => id);
    const known = [...new Set([...this.#fallbacks.keys(), ...ids])].join(", ");
    const message = `No provider has the model "${wanted}". There are: ${known || "none"}. To have others asked for too, set catchAll of a provider.`;
    throw new ChatError("model_not_found", message, "model");
  }

  /** Whether a provider has a model; undefined when it does not tell its models. */
  async #hasModel(provider: string, model: string): Promise<boolean | undefined> {
    const { models: configured } = this.#all.get(provider)!;
    if (configured !== undefined) return configured.some((entry) => idOf(entry) === model);
    const isIn = (models: string[] | undefined) => (models?.length ? models.includes(model) : undefined);
    const known = this.#lists.get(provider);
    // Models change seldom, so an older list is good enough to find one.
    if (isIn(await known?.models.catch(() => undefined))) return true;
    if (known?.hasFailed && Date.now() - known.at < LIST_FRESH) return undefined;
    return isIn(await this.#modelsOf(provider).catch(() => undefined));
  }

  async #firstModel(): Promise<Found> {
    for (const provider of this.#all.keys()) {
      const [first] = await this.#modelsOf(provider);
      if (first !== undefined) return [provider, first];
    }
    const message =
      "No model was named, and no provider lists one. Name it in the request, or set chat.model in toolrack.config.ts.";
    throw new ChatError("model_not_found", message, "model");
  }

  async #endpoint(provider: string, model: string): Promise<ModelEndpoint> {
    const config = this.#all.get(provider)!;
    const found = config.models?.find((entry) => idOf(entry) === model);
    const own: ModelTraits = typeof found === "object" ? found : {};
    const traits: EndpointTraits = {
      model,
      toolCalls: own.toolCalls ?? config.toolCalls ?? "native",
      images: own.images ?? config.images ?? true,
      contextTokens: own.contextTokens ?? config.contextTokens,
      reasoning: own.reasoning ?? config.reasoning ?? "native",
      idleSeconds: own.idleSeconds ?? config.idleSeconds ?? USUAL_IDLE,
      price: own.price ?? config.price,
    };
    const known = this.#connections.get(provider);
    const connection = known?.isFixed ? known : await openConnection(provider, config, this.#options, known);
    this.#connections.set(provider, connection);
    return { ...connection.endpoint, ...traits };
  }

  #modelsOf(provider: string): Promise<string[]> {
    const { models } = this.#all.get(provider)!;
    if (models !== undefined) return Promise.resolve(models.map(idOf));
    const known = this.#lists.get(provider);
    // A list that failed is asked for again the next time.
    if (known?.hasFailed === false && Date.now() - known.at < LIST_FRESH) return known.models;
    const asked = { at: Date.now(), hasFailed: false, models: this.#askModels(provider) };
    this.#lists.set(provider, asked);
    asked.models.catch(() => {
      asked.hasFailed = true;
      asked.at = Date.now();
    });
    return asked.models;
  }

  async #askModels(provider: string): Promise<string[]> {
    const endpoint = await this.#endpoint(provider, "");
    try {
      const { data } = Object(
        await askProvider(endpoint, "/models", { signal: AbortSignal.timeout(LIST_PATIENCE) }),
      );
      const list = Array.isArray(data) ? data : [];
      return list.map((entry) => Object(entry).id).filter((id) => typeof id === "string");
    } catch (thrown) {
      throw thrown instanceof ProviderError
        ? thrown
        : failure("unreachable", endpoint, "does not list its models", thrown);
    }
  }
}

function idOf(model: NonNullable<ProviderConfig["models"]>[number]): string {
  return typeof model === "string" ? model : model.id;
}

const reference = /\$\{(secret:)?([A-Za-z_][A-Za-z0-9_.-]*)\}/g;
/** Shorter words of a header are not masked, because they occur in texts by chance. */
const SHORTEST_WORD = 8;
/** Headers that say who asks and in which form, and nothing that is secret. */
const openHeaders =
  /^(?:(?:http-)?referer|origin|user-agent|x-title|accept.*|content-.*|.*-(?:version|beta))$/i;

type EndpointTraits = Pick<
  ModelEndpoint,
  "model" | "toolCalls" | "images" | "contextTokens" | "reasoning" | "idleSeconds" | "price"
>;

/**
 * `filled`: the values of the config with all references filled in, as JSON. `isFixed`: there are no references, so that it
 * never changes.
 */
interface Connection {
  readonly isFixed: boolean;
  readonly filled: string;
  readonly endpoint: Omit<ModelEndpoint, keyof EndpointTraits>;
}

/**
 * How a provider is reached, with all references filled in: `${NAME}` stands for a variable of the environment,
 * `${secret:NAME}` for a secret of the workspace. `last`: what was opened before; it is used again if nothing has changed.
 * Throws `ChatError` if a reference cannot be filled in.
 */
async function openConnection(
  provider: string,
  { baseURL, apiKey, headers: given = {} }: ProviderConfig,
  { environment, readSecret, secretMask = () => Mask.none }: ProvidersOptions,
  last?: Connection,
): Promise<Connection> {
  const missing = (message: string) =>
    new ChatError("provider_missing", `The model provider "${provider}" ${message}`);
  const filled = new Map<string, string>();
  const fill = async (text: string) => {
    // A shortcut: this runs for every request, and most texts contain no reference.
    if (!text.includes("${")) return text;
    for (const [whole, secret, name = ""] of text.matchAll(reference)) {
      const value = secret === undefined ? environment[name] : await readSecret?.(name);
      const remedy =
        secret === undefined ? `Set the variable ${name}` : `Set it with: toolrack secrets set ${name}`;
      if (!value) throw missing(`needs ${whole}, which is not set. ${remedy}.`);
      filled.set(whole, value);
    }
    return text.replaceAll(reference, (whole) => filled.get(whole) ?? whole);
  };
  const base = await fill(baseURL);
  const key = apiKey === undefined ? undefined : await fill(apiKey);
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) headers[name.toLowerCase()] = await fill(value);
  const text = JSON.stringify([base, key, headers]);
  if (last?.filled === text) return last;
  const problem = addressProblem(base);
  if (problem !== undefined) throw missing(`cannot be asked: its baseURL ${problem}`);
  // A header without secrets, such as a title, has words that a model may well use.
  const isOpen = (name: string, written: string) =>
    !isSecretName(name) &&
    !written.includes("${") &&
    (openHeaders.test(name) || written.length < SHORTEST_WORD);
  const hidden = Object.entries(given).flatMap(([name, written]) =>
    isOpen(name, written) ? [] : [headers[name.toLowerCase()] ?? ""],
  );
  // A provider may repeat only the key of `Bearer KEY`.
  const words = hidden.flatMap((value) => value.split(/\s+/)).filter((word) => word.length >= SHORTEST_WORD);
  const { origin, pathname, search, searchParams } = new URL(base);
  const url = { origin, path: pathname.replace(/\/+$/, ""), query: search };
  const query = searchParams.values();
  const plain = [...(key === undefined ? [] : [key]), ...hidden, ...words, ...query, ...filled.values()];
  const secrets = [...new Set(plain.flatMap(writtenForms))];
  const address = shownAddress(baseURL);
  return {
    isFixed: ![baseURL, apiKey ?? "", ...Object.values(given)].some((value) => value.includes("${")),
    filled: text,
    endpoint: { provider, url, apiKey: key, headers, address, mask: maskOf(secrets, secretMask) },
  };
}

/**
 * The mask of a provider's secrets and of those of the workspace, which is made anew when the latter have changed. One mask
 * with all values is faster than applying two masks one after the other.
 */
function maskOf(secrets: readonly string[], workspace: () => Mask): () => Mask {
  let known: Mask | undefined;
  let mask = Mask.none;
  return () => {
    const now = workspace();
    if (now !== known) mask = new Mask([...now, ...secrets]);
    known = now;
    return mask;
  };
}
