import {
  type RegistrySnapshot,
  type ToolCallRequest,
  type ToolInfo,
  type ToolRegistry,
  toOpenAITools,
} from "@toolrack/core";
import type { CallDesk, CallRequest, EndedCall } from "../../../calls/call-desk.ts";
import { isMetaTool } from "../../../meta-tools/meta-tools.ts";
import type { ModelTool } from "../model/model-message.ts";
import { estimateTokens } from "./estimate-tokens.ts";
import { type ChatReach, isHelper, sees } from "./reach.ts";

export interface ToolCost {
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
  /** Tokens that the definitions may take. */
  readonly budget: number;
  /** What the conversation is about: decides which are offered when not all can be. */
  readonly query?: string;
  /** What was chosen for the conversation before. */
  readonly chosen?: readonly string[] | undefined;
}

export type RunContext = Omit<CallRequest, "name" | "input" | "grant" | "allow"> & {
  readonly reach: ChatReach;
};

interface Formatted {
  readonly tool: ModelTool;
  readonly tokens: number;
  restore(call: ToolCallRequest): ToolCallRequest;
}

const MOST_FOUND = 500;

/** The tools as a model is shown them, and the way its calls take to the rack. */
export class ToolsService {
  readonly #registry: ToolRegistry;
  readonly #desk: Pick<CallDesk, "run">;
  readonly #known = new WeakMap<ToolInfo, Formatted>();

  constructor(registry: ToolRegistry, desk: Pick<CallDesk, "run">) {
    this.#registry = registry;
    this.#desk = desk;
  }

  /**
   * The tools within reach, if their definitions fit into the budget. Else those that fit the query best, as many as the
   * budget allows, and two through which the model finds and calls all others. Nothing about a choice changes while the
   * conversation lasts, so that the provider's prompt cache holds.
   */
  async getTools(reach: ChatReach, wish: ToolWish): Promise<OfferedTools> {
    const snapshot = this.#registry.snapshot();
    const visible = snapshot.list().filter((tool) => sees(reach, tool));
    const own = visible.filter(({ name }) => !isHelper(name));
    const reader = visible.filter(({ name }) => isHelper(name) && !isMetaTool(name));
    const isAffordable = wish.chosen === undefined && this.#total(own) <= wish.budget;
    if (isAffordable) return this.#offer([...own, ...(own.length === 0 ? [] : reader)]);
    const chosen = wish.chosen === undefined ? this.#choose(snapshot, own, wish) : named(own, wish.chosen);
    const meta = visible.filter(({ name }) => isMetaTool(name));
    return { ...this.#offer([...chosen, ...meta, ...reader]), chosen: chosen.map(({ name }) => name) };
  }

  /** What each tool within reach would take, the most expensive first. */
  getCosts(reach: ChatReach): ToolCost[] {
    const visible = this.#registry.list().filter((tool) => sees(reach, tool) && !isHelper(tool.name));
    return this.#costsOf(visible).sort((one, other) => other.tokens - one.tokens);
  }

  /** Makes a call through the one pipeline. Rejects with `CallRefused` for what never became a call. */
  runTools(name: string, args: unknown, { reach, ...context }: RunContext): Promise<EndedCall> {
    const { grant, allow } = reach;
    return this.#desk.run({
      ...context,
      name,
      input: args,
      grant,
      ...(allow === undefined ? {} : { allow }),
    });
  }

  /** Names within reach that come closest to one that is not there. */
  nearest(reach: ChatReach, name: string): string[] {
    const words = name.replaceAll(/[_-]+/g, " ");
    const found = this.#registry
      .search(words, 50)
      .filter((tool) => sees(reach, tool) && !isHelper(tool.name));
    return found.slice(0, 3).map((tool) => tool.name);
  }

  #choose(
    snapshot: RegistrySnapshot,
    own: readonly ToolInfo[],
    { query = "", budget }: ToolWish,
  ): ToolInfo[] {
    const usable = new Set(own);
    const chosen: ToolInfo[] = [];
    let left = budget;
    for (const tool of snapshot.search(query, MOST_FOUND)) {
      const { tokens } = this.#format(tool);
      if (!usable.has(tool) || tokens > left) continue;
      chosen.push(tool);
      left -= tokens;
    }
    return chosen;
  }

  #offer(infos: readonly ToolInfo[]): OfferedTools {
    // Names on the rack are all such that they are sent as they are.
    const byName = new Map(infos.map((info) => [info.name, info]));
    const sorted = [...byName.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
    return {
      tools: sorted.map((info) => this.#format(info).tool),
      costs: this.#costsOf(sorted),
      infos: byName,
      restore: (call) => {
        const info = byName.get(call.name);
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

function named(own: readonly ToolInfo[], names: readonly string[]): ToolInfo[] {
  const wanted = new Set(names);
  return own.filter(({ name }) => wanted.has(name));
}
