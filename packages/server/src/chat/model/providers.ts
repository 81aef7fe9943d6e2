import { redact } from "@toolrack/core";
import { writtenForms } from "../../access/index.ts";
import { addressProblem, type Config, type ModelTraits, shownAddress } from "../../config/index.ts";
import { ModelMissing, notListed } from "./failure.ts";

export { ModelMissing };

/** `environment`: `OPENAI_BASE_URL` and `OPENAI_API_KEY` make a provider `openai`, unless the config has one. */
interface ProvidersParts extends ReferenceSources {
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

/** Where the values come from that references in the config stand for. */
interface ReferenceSources {
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

/** One model of one provider, and how it is reached. */
export interface ModelEndpoint {
  readonly provider: string;
  /** Without a slash at the end. */
  readonly baseURL: string;
  /** The same as the config has it, for people: references stand unfilled. */
  readonly address: string;
  readonly apiKey: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** What must not be shown of all this, in every form in which it may be written; see `secretsOf`. */
  readonly secrets: readonly string[];
  /** What the provider calls it. */
  readonly model: string;
  /** `tags`: it has no tool calls of its own and writes them into its text. */
  readonly toolCalls: "native" | "tags";
  readonly images: boolean;
  /** How much it can read at a time. Undefined: the chat's own setting. */
  readonly contextTokens: number | undefined;
}

/** The address of something below the base, which may have a query of its own. */
export function addressBelow({ baseURL }: Pick<ModelEndpoint, "baseURL">, path: string): URL {
  const url = new URL(baseURL);
  url.pathname = url.pathname.replace(/\/+$/, "") + path;
  return url;
}

export function headersOf({ apiKey, headers }: ModelEndpoint): Record<string, string> {
  return {
    "content-type": "application/json",
    accept: "text/event-stream, application/json",
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...headers,
  };
}

/** What must not be shown of a provider, as far as it is filled in. */
interface ProviderSecrets {
  readonly baseURL: string;
  readonly apiKey: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** What the references in all of them stood for. */
  readonly filled: readonly string[];
}

/** A shorter word of a header stands in texts by chance. */
const SHORTEST_WORD = 8;

/** The secret values in every form in which a provider may repeat them. */
function secretsOf({ baseURL, apiKey, headers, filled }: ProviderSecrets): string[] {
  const values = Object.values(headers);
  // Of `Bearer KEY`, a provider may repeat the key alone.
  const words = values.flatMap((value) => value.split(/\s+/)).filter((word) => word.length >= SHORTEST_WORD);
  const query = [...new URL(baseURL).searchParams.values()];
  const plain = new Set([
    ...(apiKey === undefined ? [] : [apiKey]),
    ...values,
    ...words,
    ...query,
    ...filled,
  ]);
  return [...new Set([...plain].flatMap(writtenForms))];
}

/** What somebody may be shown of a provider's words: first masked, then cut, so that no half of a secret is left. */
export function shownWords(
  { secrets }: Pick<ModelEndpoint, "secrets">,
  text: string,
  longest: number,
): string {
  const masked = String(redact(text, { values: secrets })).trim();
  return masked.length <= longest ? masked : `${masked.slice(0, longest).toWellFormed()}…`;
}

type ProvidersConfig = NonNullable<Config["providers"]>;
type ProviderConfig = ProvidersConfig[string];
export type ChatConfig = NonNullable<Config["chat"]>;

/** What holds where the config says nothing. */
export const usualChat = {
  /** How often a model is asked in one turn. */
  maxRounds: 50,
  /** How long a turn may take, without the time that people take to answer. */
  maxSeconds: 900,
  /** Tokens of all requests of a turn. */
  maxTokens: 2_000_000,
  /** Characters of one answer: text, reasoning and arguments together. No model of today writes as much. */
  maxAnswer: 4_000_000,
  /** What a model can read at a time, unless its own entry says so. */
  contextTokens: 128_000,
  /** What the definitions of the tools may take of it. */
  toolBudget: 16_000,
} as const satisfies ChatConfig;

/** A message as Chat Completions has it. What else it holds is passed on as it is. */
export interface ModelMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  readonly content?: string | readonly ModelContentPart[] | null;
  readonly tool_calls?: readonly ModelToolCall[];
  readonly tool_call_id?: string;
  readonly name?: string;
  readonly [key: string]: unknown;
}

export interface ModelContentPart {
  readonly type: string;
  readonly text?: string;
  readonly [key: string]: unknown;
}

/** A call with arguments that are JSON, or one of a `custom` tool with an input that is any text. */
export type ModelToolCall = ModelFunctionCall | ModelCustomCall;

interface ModelFunctionCall {
  readonly id: string;
  /** `function`, or what the client calls its tool where the provider knows more kinds of functions. */
  readonly type: string;
  readonly function: { readonly name: string; readonly arguments: string };
  readonly custom?: undefined;
  /** What else the provider said of it. */
  readonly [key: string]: unknown;
}

interface ModelCustomCall {
  readonly id: string;
  readonly type: "custom";
  readonly custom: { readonly name: string; readonly input: string };
  readonly function?: undefined;
  readonly [key: string]: unknown;
}

/** A member of `tools`, ours or the client's. */
export interface ModelTool {
  readonly type: string;
  readonly function?: { readonly name?: unknown; readonly [key: string]: unknown };
  readonly custom?: { readonly name?: unknown; readonly [key: string]: unknown };
  readonly [key: string]: unknown;
}

/** By which the model calls a tool; undefined for one that has none, such as those that the provider runs itself. */
export function nameOf({ type, function: described, custom }: ModelTool): string | undefined {
  const name = type === "custom" ? custom?.name : described?.name;
  return typeof name === "string" && name !== "" ? name : undefined;
}

/** What a call asks for: of a `custom` tool, `written` is its input. */
export function calledIn(call: ModelToolCall): { readonly name: string; readonly written: string } {
  if (call.custom !== undefined) return { name: call.custom.name, written: call.custom.input };
  return { name: call.function.name, written: call.function.arguments };
}

/** The text of a message, without what is not text. */
export function textOf({ content }: Pick<ModelMessage, "content">): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text }) => (typeof text === "string" ? text : "")).join("");
}
