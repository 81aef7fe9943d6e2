import {
  type RegistrySnapshot,
  Tool,
  type ToolInfo,
  type ToolRegistry,
  type ToolState,
} from "@toolrack/core";
import { type ToolCallRequest, toOpenAIToolMessage, toOpenAITools } from "@toolrack/core/format";
import { estimateTokens, mayBeCalledBy, nearestNames } from "@toolrack/core/internal";
import { type Grant, masterGrant } from "../access/index.ts";
import type { CallRequest, CallService, EndedCall } from "../calls/index.ts";
import { isHelperTool, isMetaTool, isOffered, metaToolsFor, readResultName } from "../calls/index.ts";
import { pathCall, withCatalogue } from "../code/index.ts";
import { type ExtensionParts, expertsOf, findExpert, type Reach } from "../http/wire/index.ts";
import type { Expert } from "../skills/index.ts";
import type { CallStore } from "../store/index.ts";
import type { ModelTool } from "./model.ts";
import { unknownTool } from "./model-messages.ts";

interface ToolCost {
  readonly name: string;
  /** Estimated tokens of the tool's definition. */
  readonly tokens: number;
}

/** The tools that a model is offered. */
export interface OfferedTools {
  /** The definitions of the tools, in the form of Chat Completions. */
  readonly tools: readonly ModelTool[];
  readonly costs: readonly ToolCost[];
  /**
   * Names of the chosen tools, when not all fit into the budget. Passed to `getTools` again, they give the
   * same choice.
   */
  readonly chosen?: readonly string[];
  /** The tools by the names that the model uses. */
  readonly infos: ReadonlyMap<string, ToolInfo>;
  /** Translates a call of the model into the rack's form. */
  restore(call: ToolCallRequest): ToolCallRequest;
}

interface MadeOffer {
  readonly infos: readonly ToolInfo[];
  readonly offer: OfferedTools;
}

export interface ToolSelection {
  /** Tokens that the tool definitions may take. Default: `usualBudget`. */
  readonly budget?: number;
  /** The topic of the conversation: decides which tools are offered when not all fit. */
  readonly query?: string;
  /** Names of the tools that an earlier turn of the conversation chose. */
  readonly chosen?: readonly string[] | undefined;
  /** The conversation, when its model is really offered the tools: the search then counts for what is learned. */
  readonly sessionID?: string;
}

type RunContext = Omit<CallRequest, "name" | "input" | "grant" | "allow"> & {
  /** Default: all tools. */
  readonly reach?: Reach;
  /**
   * How many tools the model was offered; an error about an unknown tool names this number. Default: as many
   * as `getTools` offers.
   */
  readonly given?: number;
};

const MOST_FOUND = 500;
/** Tokens that tool definitions may take, unless the config sets a budget. */
export const usualBudget = 16_000;

/** How many offers are kept; a rack has one for each kind of token and expert that chats. */
const MOST_OFFERS = 8;

/** The owner of the process may use everything. */
const ownersReach: Reach = { grant: masterGrant };

/** What the tools of a conversation need of the call service. */
interface ToolsCalls extends Pick<CallService, "run"> {
  readonly searches?: Pick<CallService["searches"], "noteShown">;
}

/** Offers the rack's tools to models, and makes the calls that models ask for. */
export class ToolsService {
  readonly #registry: ToolRegistry;
  readonly #service: ToolsCalls;
  readonly #known = new WeakMap<ToolInfo, ReturnType<typeof format>>();
  /** For each snapshot of the registry, the tool offers that were made last, the newest first. */
  readonly #offers = new WeakMap<RegistrySnapshot, readonly MadeOffer[]>();

  constructor(registry: ToolRegistry, service: ToolsCalls) {
    this.#registry = registry;
    this.#service = service;
  }

  /**
   * Returns all tools within reach if their definitions fit into the budget. Otherwise returns the tools that
   * match the query best, then others up to the budget, and the meta-tools, with which the model finds and calls
   * all the rest. The choice does not change during a conversation, so that the provider's prompt cache stays
   * valid. Default reach: all tools.
   */
  async getTools(reach: Reach = ownersReach, wish: ToolSelection = {}): Promise<OfferedTools> {
    const { budget = usualBudget } = wish;
    const snapshot = this.#registry.snapshot();
    const visible = snapshot.list().filter((tool) => sees(reach, tool));
    const usable = visible.filter(({ name }) => !isHelperTool(name));
    const own = usable.filter(({ metadata }) => mayBeCalledBy("model", metadata));
    const metaFor = (isShortened: boolean) => {
      const offered = visible.filter((tool) => isMetaTool(tool.name) && isOffered(tool, isShortened));
      return withCatalogue(metaToolsFor(offered, own), usable, this.#registry);
    };
    const reader = visible.filter(({ name }) => isHelperTool(name) && !isMetaTool(name));
    const all = own.length === 0 ? [] : [...own, ...metaFor(false), ...reader];
    const isAffordable = wish.chosen === undefined && this.#total(all, budget) <= budget;
    if (isAffordable) return this.#offer(snapshot, all);
    const meta = metaFor(true);
    const left = budget - this.#total([...meta, ...reader]);
    const known = wish.chosen && new Set(wish.chosen);
    if (known === undefined) await this.#registry.prepareSearch();
    const chosen = known
      ? own.filter(({ name }) => known.has(name))
      : this.#choose(snapshot, own, wish, reach, left);
    const offer = this.#offer(snapshot, [...chosen, ...meta, ...reader]);
    return { ...offer, chosen: chosen.map(({ name }) => name) };
  }

  /**
   * The estimated tokens of the definition of each tool within reach but those in `names`, the most expensive first. With
   * more than `most` of them only their number: estimating tens of thousands would stop everything else.
   */
  getOtherCosts(
    reach: Reach,
    names: ReadonlySet<string>,
    most: number,
  ): { readonly costs: readonly ToolCost[]; readonly unlisted: number } {
    const others = this.#own(reach).filter(({ name }) => !names.has(name));
    if (others.length > most) return { costs: [], unlisted: others.length };
    return { costs: this.#costsOf(others).sort((one, other) => other.tokens - one.tokens), unlisted: 0 };
  }

  /** Makes a call through the pipeline. Rejects with `CallRefused` when the call was refused before it began. */
  async runTools(name: string, args: unknown, context: RunContext = {}): Promise<EndedCall> {
    const { reach = ownersReach, given, ...others } = context;
    const { grant, allow, expert } = reach;
    const via = others.sessionID ? `chat ${others.sessionID}` : "chat";
    const by = { via, ...(expert && { expert: expert.name }) };
    const byPath = pathCall(this.#registry, name);
    const call = {
      ...by,
      ...others,
      name: byPath?.toolName ?? name,
      input: args,
      grant,
      byModel: true,
      ...(allow && { allow }),
    };
    const ended = await this.#service.run(call);
    const { error } = ended.result;
    if (byPath !== undefined) {
      const content = `${ended.result.content}\n\n${byPath.note}`;
      return { ...ended, result: { ...ended.result, content, type: error === undefined ? "text" : "error" } };
    }
    const isUnknown = error?.code === "tool_not_found" && this.#registry.get(name) === undefined;
    // If the registry's message already names the nearest tools, it stays.
    if (!isUnknown || /nearest/.test(error.message)) return ended;
    // The registry's message counts all tools of the rack. The model is told how many it was offered.
    const count = given ?? (await this.getTools(reach)).tools.length;
    const message = this.unknown(reach, name, count);
    return { ...ended, result: { ...ended.result, content: message, error: { ...error, message } } };
  }

  /** The text for a model that called an unknown tool. `given`: how many tools it was given. */
  unknown(reach: Reach, name: string, given: number): string {
    return unknownTool(name, this.#nearest(reach, name), given);
  }

  /** The names within reach that are most similar to an unknown name. */
  #nearest(reach: Reach, name: string): string[] {
    const names = new Set(this.#own(reach).map((tool) => tool.name));
    // Some models prefix the name with a group: `functions.read_file`.
    const bare = name.replace(/^.*[.:/]/s, "").slice(0, 128);
    const spelled = names.has(bare) ? [bare] : nearestNames(bare, names);
    if (spelled.length > 0) return spelled;
    const words = bare.replaceAll(/[_-]+/g, " ");
    const found = this.#registry.search(words, MOST_NEAREST, (tool) => names.has(tool.name));
    const alike = found.map((tool) => tool.name);
    return alike.length > 0 ? alike : withWordLike(bare, names);
  }

  #own(reach: Reach): ToolInfo[] {
    return this.#registry.list().filter((tool) => sees(reach, tool) && !isHelperTool(tool.name));
  }

  /** Chooses search results first, then all others by name, so that the order is always the same. */
  #choose(
    snapshot: RegistrySnapshot,
    own: readonly ToolInfo[],
    { query = "", sessionID }: ToolSelection,
    { grant }: Reach,
    budget: number,
  ): ToolInfo[] {
    const usable = new Set(own);
    const found = snapshot.search(query, MOST_FOUND, (tool) => usable.has(tool));
    if (sessionID !== undefined) this.#service.searches?.noteShown(grant, query, found, sessionID);
    const chosen: ToolInfo[] = [];
    let left = budget;
    let misses = 0;
    const rest = snapshot.sorted().filter((tool) => usable.has(tool));
    for (const tool of [...found, ...rest]) {
      if (left < LEAST_TOKENS) break;
      const { tokens } = this.#format(tool);
      if (tokens > left || !usable.delete(tool)) {
        if (++misses >= MOST_MISSES) break;
        continue;
      }
      misses = 0;
      chosen.push(tool);
      left -= tokens;
    }
    return chosen;
  }

  /**
   * Most requests offer the same tools as one before. Which tools are within reach was found anew, so that an offer is
   * used again only for exactly the same tools. For 100 tools, a request then takes 11 µs instead of 38.
   */
  #offer(snapshot: RegistrySnapshot, infos: readonly ToolInfo[]): OfferedTools {
    const made = this.#offers.get(snapshot) ?? [];
    const isSame = (others: readonly ToolInfo[]) =>
      others.length === infos.length && others.every((info, at) => info === infos[at]);
    const known = made.find((one) => isSame(one.infos));
    if (known !== undefined) return known.offer;
    const offer = this.#newOffer(infos);
    this.#offers.set(snapshot, [{ infos, offer }, ...made].slice(0, MOST_OFFERS));
    return offer;
  }

  #newOffer(infos: readonly ToolInfo[]): OfferedTools {
    // Names on the rack are valid for providers and need no translation.
    const known = new Map(infos.map((info) => [info.name, info]));
    const sorted = [...known.values()].sort(byName);
    const restore = (call: ToolCallRequest) => {
      const info = known.get(call.name);
      return info === undefined ? call : this.#format(info).restore(call);
    };
    const tools = sorted.map((info) => this.#format(info).tool);
    return { tools, costs: this.#costsOf(sorted), infos: known, restore };
  }

  #costsOf(infos: readonly ToolInfo[]): ToolCost[] {
    return infos.map((info) => ({ name: info.name, tokens: this.#format(info).tokens }));
  }

  /** Stops adding up once the sum is above `enough`. */
  #total(infos: readonly ToolInfo[], enough = Number.POSITIVE_INFINITY): number {
    let sum = 0;
    for (const info of infos) {
      if (sum > enough) break;
      sum += this.#format(info).tokens;
    }
    return sum;
  }

  /** Formatting a schema is slow, so the result is kept per tool. */
  #format(info: ToolInfo): ReturnType<typeof format> {
    const own = this.#known.get(info) ?? format(info);
    this.#known.set(info, own);
    return own;
  }
}

function format(info: ToolInfo) {
  const { tools, restore } = toOpenAITools([info]);
  // A tool whose schema cannot be sent is offered without parameters; when it is called wrongly, the
  // validation error tells the model what the tool takes.
  const tool: ModelTool = { ...(tools[0] ?? { type: "function", function: { name: info.name } }) };
  return { tool, tokens: estimateTokens(JSON.stringify(tool)), restore };
}

const MOST_NEAREST = 3;
/** The smallest number of tokens that any tool definition takes. */
const LEAST_TOKENS = 20;
/** After so many tools in a row that do not fit, no further ones are tried: there may be tens of thousands. */
const MOST_MISSES = 200;

/** Names of tools that contain a word spelled like `name`. */
function withWordLike(name: string, names: ReadonlySet<string>): string[] {
  const wordsOf = (one: string) => one.split(/[_-]+/);
  const words = nearestNames(name, new Set([...names].flatMap(wordsOf)));
  const found = words.flatMap((word) => [...names].filter((one) => wordsOf(one).includes(word)));
  return [...new Set(found)].slice(0, MOST_NEAREST);
}

function byName(one: ToolInfo, other: ToolInfo): number {
  return one.name < other.name ? -1 : 1;
}

/**
 * The tools that a caller may use in a chat: exactly those of the expert, if there is one, otherwise those of
 * the grant. Helper tools are added to both: they reach nothing beyond their caller's grant, so everybody may use them.
 */
export function chatReach(grant: Grant, expert?: Expert): Reach {
  if (expert !== undefined) {
    const allow = (tool: ToolInfo) => isHelperTool(tool.name) || expert.allows(tool);
    return { grant: { ...grant, mayUse: () => true }, allow, expert };
  }
  if (grant.admin) return { grant };
  return { grant: { ...grant, mayUse: (tool) => isHelperTool(tool.name) || grant.mayUse(tool) } };
}

function sees({ grant, allow }: Reach, tool: ToolInfo): boolean {
  return grant.mayUse(tool) && allow?.(tool) !== false;
}

const USUAL_LIMIT = 20_000;
const LARGEST_LIMIT = 40_000;

/**
 * Lets a model read the rest of a long result, or a result that was removed from the conversation. The tool
 * shows only results of calls from the same session by the same caller.
 */
export function readResultTool(calls: Pick<CallStore, "get" | "readResult">): ToolInfo {
  return Tool.define({
    name: readResultName,
    title: "Read a result",
    description:
      "Reads a part of the whole result of an earlier call of this conversation: one that was cut because it is long, " +
      "or taken out to make room. Both say the callId to ask for.",
    parameters: {
      type: "object",
      properties: {
        callId: { type: "string", minLength: 1, maxLength: 200, description: "As the cut result names it." },
        offset: { type: "integer", minimum: 0, default: 0, description: "The first character to read." },
        limit: {
          type: "integer",
          minimum: 1,
          maximum: LARGEST_LIMIT,
          default: USUAL_LIMIT,
          description: "How many characters at most.",
        },
      },
      required: ["callId"],
      additionalProperties: false,
    },
    metadata: { readOnly: true, idempotent: true, openWorld: false },
    execute: async ({ input, sessionID, caller }) => {
      const { callId, offset = 0, limit = USUAL_LIMIT } = Object(input);
      const call = await calls.get(callId);
      const isOwn =
        call !== undefined && sessionID !== "" && call.sessionID === sessionID && call.caller === caller;
      const page = isOwn ? await calls.readResult(callId, offset, limit) : undefined;
      if (page === undefined) {
        const content = `This conversation has no call "${callId}". Use a callId that a result names.`;
        return { type: "error", content };
      }
      const end = offset + page.text.length;
      if (page.text === "") return `There is nothing at ${offset}: the result has ${page.total} characters.`;
      return end < page.total
        ? `${page.text}\n… characters ${offset} to ${end} of ${page.total}; read on from offset ${end} …`
        : page.text;
    },
  });
}

/**
 * The tools that a chat request may use: those of the expert that it names; otherwise those of its token, or
 * of the only expert of a token that may use no tool itself. Throws `expert_not_found`.
 */
export function requestedReach(
  { skills: { experts }, registry }: Pick<ExtensionParts, "skills" | "registry">,
  grant: Grant,
  named: string | undefined,
): Reach {
  if (named !== undefined) return chatReach(grant, findExpert(grant, experts, named));
  if (grant.admin || registry.list().some((tool) => grant.mayUse(tool))) return chatReach(grant);
  const own = expertsOf(grant, experts);
  return chatReach(grant, own.length === 1 ? own[0] : undefined);
}

/** The state of a finished call. It holds the result as the model reads it. */
export function stateOf({ record, result }: EndedCallView): ToolState {
  const { attachments, ...bare } = result;
  const text = toOpenAIToolMessage("", bare).content;
  const end = record.timestamp + Math.round(record.duration);
  // The time for which the call waited for a person is not the tool's.
  const time = { start: Math.min(end, record.timestamp + Math.round(record.flags?.waited ?? 0)), end };
  const input = record.parameters;
  if (result.type === "error") return { status: "error", input, error: text, time };
  return { status: "completed", input, output: text, ...(attachments ? { attachments } : {}), time };
}

interface EndedCallView extends Pick<EndedCall, "result"> {
  readonly record: Pick<EndedCall["record"], "parameters" | "timestamp" | "duration" | "flags">;
}
