import {
  type RegistrySnapshot,
  Tool,
  type ToolCallRequest,
  type ToolInfo,
  type ToolRegistry,
  type ToolState,
  toOpenAIToolMessage,
  toOpenAITools,
} from "@toolrack/core";
import { nearestNames } from "@toolrack/core/internal";
import { type Grant, masterGrant } from "../access/index.ts";
import type { CallRequest, CallService, EndedCall } from "../calls/index.ts";
import { isMetaTool } from "../calls/index.ts";
import { findExpert, type Reach } from "../http/wire/index.ts";
import type { Expert, Experts } from "../skills/index.ts";
import type { CallStore } from "../store/index.ts";
import type { ModelTool } from "./model.ts";
import { unknownTool } from "./notices.ts";

interface ToolCost {
  readonly name: string;
  /** Of its definition, about. */
  readonly tokens: number;
}

/** The tools that a model is offered. */
export interface OfferedTools {
  /** As Chat Completions takes them, by name. */
  readonly tools: readonly ModelTool[];
  readonly costs: readonly ToolCost[];
  /** The names of those that were chosen, when not all could be offered; to be handed in again for the same choice. */
  readonly chosen?: readonly string[];
  /** The tools by the names that the model knows. */
  readonly infos: ReadonlyMap<string, ToolInfo>;
  /** The call as the rack understands it. */
  restore(call: ToolCallRequest): ToolCallRequest;
}

export interface ToolWish {
  /** Tokens that the definitions may take. Default: what the config says where nothing else is said. */
  readonly budget?: number;
  /** What the conversation is about: decides which are offered when not all can be. */
  readonly query?: string;
  /** What was chosen for the conversation before. */
  readonly chosen?: readonly string[] | undefined;
}

type RunContext = Omit<CallRequest, "name" | "input" | "grant" | "allow"> & {
  /** Default: everything. */
  readonly reach?: Reach;
  /** How many tools the model was given. Default: as many as it would be given. */
  readonly given?: number;
};

interface Formatted {
  readonly tool: ModelTool;
  readonly tokens: number;
  restore(call: ToolCallRequest): ToolCallRequest;
}

const MOST_FOUND = 500;
/** Tokens that the definitions may take of what a model can read, unless the config says so. */
export const usualBudget = 16_000;

/** Whoever has the process has the rack. */
const ownersReach: Reach = { grant: masterGrant };

/** The tools as a model is shown them, and the way its calls take to the rack. */
export class ToolsService {
  readonly #registry: ToolRegistry;
  readonly #service: Pick<CallService, "run">;
  readonly #known = new WeakMap<ToolInfo, Formatted>();

  constructor(registry: ToolRegistry, service: Pick<CallService, "run">) {
    this.#registry = registry;
    this.#service = service;
  }

  /**
   * The tools within reach, if their definitions fit into the budget. Else those that fit the query best, then others, as
   * many as the budget allows, and two through which the model finds and calls all others. Nothing about a choice changes
   * while the conversation lasts, so that the provider's prompt cache holds. Within reach is everything, unless told.
   */
  async getTools(reach: Reach = ownersReach, wish: ToolWish = {}): Promise<OfferedTools> {
    const { budget = usualBudget } = wish;
    const snapshot = this.#registry.snapshot();
    const visible = snapshot.list().filter((tool) => sees(reach, tool));
    const own = visible.filter(({ name }) => !isHelper(name));
    const reader = visible.filter(({ name }) => isHelper(name) && !isMetaTool(name));
    const all = own.length === 0 ? [] : [...own, ...reader];
    const isAffordable = wish.chosen === undefined && this.#total(all) <= budget;
    if (isAffordable) return this.#offer(all);
    const meta = visible.filter(({ name }) => isMetaTool(name));
    const left = budget - this.#total([...meta, ...reader]);
    const known = wish.chosen && new Set(wish.chosen);
    const chosen = known
      ? own.filter(({ name }) => known.has(name))
      : this.#choose(snapshot, own, wish.query ?? "", left);
    return { ...this.#offer([...chosen, ...meta, ...reader]), chosen: chosen.map(({ name }) => name) };
  }

  /** What each tool within reach would take, the most expensive first. */
  getCosts(reach: Reach): ToolCost[] {
    const visible = this.#registry.list().filter((tool) => sees(reach, tool) && !isHelper(tool.name));
    return this.#costsOf(visible).sort((one, other) => other.tokens - one.tokens);
  }

  /** Makes a call through the one pipeline. Rejects with `CallRefused` for what never became a call. */
  async runTools(name: string, args: unknown, context: RunContext = {}): Promise<EndedCall> {
    const { reach = ownersReach, given, ...others } = context;
    const { grant, allow } = reach;
    const ended = await this.#service.run({ ...others, name, input: args, grant, ...(allow && { allow }) });
    const { error } = ended.result;
    const isUnknown = error?.code === "tool_not_found" && this.#registry.get(name) === undefined;
    // The registry has named the nearest tools already, in the words that every caller is told.
    if (!isUnknown || /nearest/.test(error.message)) return ended;
    // The rack counts tools that are not offered as long as all others are.
    const count = given ?? (await this.getTools(reach)).tools.length;
    const message = this.unknown(reach, name, count);
    return { ...ended, result: { ...ended.result, content: message, error: { ...error, message } } };
  }

  /** What a model is told that called a tool which is not there. `given`: how many tools it was given. */
  unknown(reach: Reach, name: string, given: number): string {
    return unknownTool(name, this.nearest(reach, name), given);
  }

  /** Names within reach that come closest to one that is not there. */
  nearest(reach: Reach, name: string): string[] {
    const seen = this.#registry.list().filter((tool) => sees(reach, tool) && !isHelper(tool.name));
    const names = new Set(seen.map((tool) => tool.name));
    // Models put the name of a group before it: `functions.read_file`.
    const bare = name.replace(/^.*[.:/]/s, "").slice(0, 128);
    const spelled = names.has(bare) ? [bare] : nearestNames(bare, names);
    if (spelled.length > 0) return spelled;
    const found = this.#registry.search(bare.replaceAll(/[_-]+/g, " "), 50).map((tool) => tool.name);
    const alike = found.filter((candidate) => names.has(candidate)).slice(0, MOST_NEAREST);
    return alike.length > 0 ? alike : withWordLike(bare, names);
  }

  /** What the search finds, and behind it the others by their names: an order that is the same the next time. */
  #choose(snapshot: RegistrySnapshot, own: readonly ToolInfo[], query: string, budget: number): ToolInfo[] {
    const usable = new Set(own);
    const chosen: ToolInfo[] = [];
    let left = budget;
    for (const tool of [...snapshot.search(query, MOST_FOUND), ...own.toSorted(byName)]) {
      const { tokens } = this.#format(tool);
      if (tokens > left || !usable.delete(tool)) continue;
      chosen.push(tool);
      left -= tokens;
    }
    return chosen;
  }

  #offer(infos: readonly ToolInfo[]): OfferedTools {
    // Names on the rack are all such that they are sent as they are.
    const known = new Map(infos.map((info) => [info.name, info]));
    const sorted = [...known.values()].sort(byName);
    return {
      tools: sorted.map((info) => this.#format(info).tool),
      costs: this.#costsOf(sorted),
      infos: known,
      restore: (call) => {
        const info = known.get(call.name);
        return info === undefined ? call : this.#format(info).restore(call);
      },
    };
  }

  #costsOf(infos: readonly ToolInfo[]): ToolCost[] {
    return infos.map((info) => ({ name: info.name, tokens: this.#format(info).tokens }));
  }

  #total(infos: readonly ToolInfo[]): number {
    return infos.reduce((sum, info) => sum + this.#format(info).tokens, 0);
  }

  /** Formatting a schema takes a while: once for each tool, as long as it is the same. */
  #format(info: ToolInfo): Formatted {
    let own = this.#known.get(info);
    if (own === undefined) {
      const { tools, restore } = toOpenAITools([info]);
      // One whose schema cannot be sent is shown without parameters: its own validation says what it takes.
      const tool: ModelTool = { ...(tools[0] ?? { type: "function", function: { name: info.name } }) };
      own = { tool, tokens: estimateTokens(JSON.stringify(tool)), restore };
      this.#known.set(info, own);
    }
    return own;
  }
}

const MOST_NEAREST = 3;

/** Names that have a word spelled like this one. */
function withWordLike(name: string, names: Iterable<string>): string[] {
  const byWord = Map.groupBy(
    [...names].flatMap((own) => own.split(/[_-]+/).map((word) => ({ word, own }))),
    ({ word }) => word,
  );
  const words = nearestNames(name, byWord.keys());
  const found = words.flatMap((word) => byWord.get(word)!.map(({ own }) => own));
  return [...new Set(found)].slice(0, MOST_NEAREST);
}

function byName(one: ToolInfo, other: ToolInfo): number {
  return one.name < other.name ? -1 : 1;
}

/** Tools that show and reach nothing beyond what their caller may use, so that everybody may use them. */
function isHelper(name: string): boolean {
  return isMetaTool(name) || name === readResultName;
}

/** A caller that may use an expert may use the tools of it, and no others there. */
export function chatReach(grant: Grant, expert?: Expert): Reach {
  if (expert !== undefined) {
    const allow = (tool: ToolInfo) => isHelper(tool.name) || expert.allows(tool);
    return { grant: { ...grant, mayUse: () => true }, allow, expert };
  }
  if (grant.admin) return { grant };
  return { grant: { ...grant, mayUse: (tool) => isHelper(tool.name) || grant.mayUse(tool) } };
}

function sees({ grant, allow }: Reach, tool: ToolInfo): boolean {
  return grant.mayUse(tool) && allow?.(tool) !== false;
}

export const readResultName = "toolrack_read_result";

const USUAL_LIMIT = 20_000;
const LARGEST_LIMIT = 40_000;

/**
 * Lets a model read what was cut out of a long result, or taken out of the conversation to make room. It shows calls of
 * its own session and caller, and nothing else.
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
        callId: { type: "string", minLength: 1, maxLength: 200 },
        offset: { type: "integer", minimum: 0, default: 0, description: "The first character to read." },
        limit: { type: "integer", minimum: 1, maximum: LARGEST_LIMIT, default: USUAL_LIMIT },
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
 * About how many tokens a text takes. Four letters of Latin text are one; a character of Chinese, Japanese or Korean is
 * nearly one by itself. Good enough for budgets, for any model.
 */
export function estimateTokens(text: string): number {
  let wide = 0;
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x2e7f) wide++;
  return Math.ceil((text.length - wide) / 4 + wide * 0.8);
}

/**
 * The reach of somebody who talks to a model: as the expert that the request names, or as the only one that the token is
 * for. Throws `expert_not_found`.
 */
export function requestedReach(
  {
    skills: { experts },
    registry,
  }: { readonly skills: { readonly experts: Experts }; readonly registry: ToolRegistry },
  grant: Grant,
  named: string | undefined,
): Reach {
  if (named !== undefined) return chatReach(grant, findExpert(grant, experts, named));
  if (grant.admin || registry.list().some((tool) => grant.mayUse(tool))) return chatReach(grant);
  const own = experts.list().filter(({ name, id }) => grant.mayUseExpert(name) || grant.mayUseExpert(id));
  return chatReach(grant, own.length === 1 ? own[0] : undefined);
}

/** The state of a call that has ended. What the model reads of the result is what is kept. */
export function stateOf({ record, result }: Pick<EndedCall, "result"> & EndedRecord): ToolState {
  const { attachments, ...bare } = result;
  const text = toOpenAIToolMessage("", bare).content;
  const time = { start: record.timestamp, end: record.timestamp + Math.round(record.duration) };
  const input = record.parameters;
  if (result.type === "error") return { status: "error", input, error: text, time };
  return { status: "completed", input, output: text, ...(attachments ? { attachments } : {}), time };
}

interface EndedRecord {
  readonly record: Pick<EndedCall["record"], "parameters" | "timestamp" | "duration">;
}
