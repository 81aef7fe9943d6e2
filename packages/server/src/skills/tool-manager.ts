import {
  type CallOptions,
  parseOpenAIToolCalls,
  type ToolInfo,
  type ToolRegistry,
  type ToolResult,
  toOpenAITools,
} from "@toolrack/core";
import type { StoredSkillTool } from "../store/index.ts";
import { type LoadedSkill, type SkillToolInfo, skillToolInfo } from "./skill.ts";
import type { SkillLibrary } from "./skill-library.ts";

export interface ToolManagerParts {
  readonly registry: ToolRegistry;
  readonly library: SkillLibrary;
  /** The id or name of the expert whose tools are used. Default: all tools of the rack. */
  readonly expertId?: string;
}

export interface ToolCallOutcome {
  readonly toolCallId: string;
  /** The tool's name, exactly as the model wrote it. */
  readonly toolName: string;
  readonly displayName: string;
  readonly success: boolean;
  readonly data?: unknown;
  readonly error?: string;
  readonly result: ToolResult;
}

export interface ToolMessage {
  readonly role: "tool";
  readonly tool_call_id: string;
  readonly name: string;
  readonly content: string;
}

/** The tools of one expert, for a chat service: definitions out, calls in, messages out. */
export class ToolManager {
  readonly skillLoader: SkillLoader;
  readonly #parts: ToolManagerParts;

  constructor(parts: ToolManagerParts) {
    this.#parts = parts;
    this.skillLoader = new SkillLoader(parts);
  }

  /** The expert's skills, or all skills without one. Throws `SkillMissingError` for an unknown expert. */
  async initialize(): Promise<LoadedSkill[]> {
    const { library, expertId } = this.#parts;
    return expertId === undefined ? library.list() : this.skillLoader.loadSkillsForExpert(expertId);
  }

  /** Information on the skills' tools, by the name that models use. */
  get toolRegistry(): ReadonlyMap<string, SkillToolInfo> {
    const entries = this.#tools().map((info) => [info.name, skillToolInfo(info)] as const);
    return new Map(entries.flatMap(([name, skill]) => (skill === undefined ? [] : [[name, skill] as const])));
  }

  /** The `tools` of a request to a model, without `_meta`, which models must not see. */
  getToolDefinitions(): OpenAITool[] {
    return [...toOpenAITools(this.#tools().map(withModelName)).tools];
  }

  /** Runs all calls at once; the outcomes are in the order of the calls. Never rejects for a call that fails. */
  executeToolCalls(toolCalls: unknown, context: CallOptions = {}): Promise<ToolCallOutcome[]> {
    const { library, expertId } = this.#parts;
    const isGone = expertId !== undefined && library.experts.find(expertId) === undefined;
    const { restore } = toOpenAITools(isGone ? [] : this.#tools().map(withModelName));
    const run = async (call: ReturnType<typeof parseOpenAIToolCalls>[number]): Promise<ToolCallOutcome> => {
      const meant = restore(call);
      const result = await this.executeTool(meant.name, meant.arguments, context);
      const isSuccess = result.type !== "error";
      return {
        toolCallId: call.id,
        toolName: call.name,
        displayName: this.formatToolDisplay(meant.name),
        success: isSuccess,
        ...(isSuccess ? { data: result.structured ?? result.content } : { error: result.content }),
        result,
      };
    };
    return Promise.all(parseOpenAIToolCalls(toolCalls).map(run));
  }

  /**
   * Runs one tool, by its id or any of its names. Refuses tools that the expert does not have, and every tool when the
   * expert was deleted. Never rejects.
   */
  executeTool(toolId: string, params: unknown, context: CallOptions = {}): Promise<ToolResult> {
    const { registry, library, expertId } = this.#parts;
    if (expertId === undefined) return registry.execute(toolId, params, context);
    const expert = library.experts.find(expertId);
    const allow = (tool: ToolInfo) => expert?.allows(tool) === true && context.allow?.(tool) !== false;
    const extra = { ...context.extra, expertId: expert?.id ?? expertId };
    return registry.execute(toolId, params, { ...context, allow, extra });
  }

  /** The messages that answer the calls, each with the name that the model used. */
  formatToolResultsForLLM(outcomes: readonly ToolCallOutcome[]): ToolMessage[] {
    return outcomes.map(({ toolCallId, toolName, ...outcome }) => ({
      role: "tool",
      tool_call_id: toolCallId,
      name: toolName,
      content: JSON.stringify(wrapOutcome(outcome)),
    }));
  }

  /** The name of a tool in logs: `SearXNG Search/web_search`, or its own name when it belongs to no skill. */
  formatToolDisplay(toolId: string): string {
    const info = this.#parts.registry.get(toolId);
    const skill = info === undefined ? undefined : skillToolInfo(info);
    return skill === undefined ? (info?.name ?? toolId) : `${skill.skillName}/${skill.toolName}`;
  }

  #tools(): ToolInfo[] {
    const { registry, library, expertId } = this.#parts;
    return expertId === undefined ? registry.list() : library.experts.require(expertId).list();
  }
}

/** Gives a built-in tool the name by which models know it, its alias `builtin_{name}`. */
function withModelName(info: ToolInfo): ToolInfo {
  const builtin = info.aliases?.find((alias) => alias.startsWith("builtin_"));
  return builtin === undefined ? info : { ...info, name: builtin };
}

/** Makes `{success, data}` or `{success, error}`. A result that already has this form is not wrapped. */
function wrapOutcome({ success, data, error }: Omit<ToolCallOutcome, "toolCallId" | "toolName">): object {
  if (!success) return { success: false, error };
  const isEnvelope = typeof data === "object" && data !== null && "success" in data;
  return isEnvelope ? data : { success: true, data };
}

type OpenAITool = ReturnType<typeof toOpenAITools>["tools"][number];

/** A definition with information on the tool. `_meta` never goes to a model. */
interface SkillToolDefinition extends OpenAITool {
  readonly _meta: SkillToolInfo;
}

/** Skills and their tools as OpenAI definitions. The registry holds the tools and runs them. */
export class SkillLoader {
  readonly #parts: Pick<ToolManagerParts, "registry" | "library">;

  constructor(parts: Pick<ToolManagerParts, "registry" | "library">) {
    this.#parts = parts;
  }

  /** The skills of an expert, in the expert's order. Throws `SkillMissingError`. */
  async loadSkillsForExpert(expertId: string): Promise<LoadedSkill[]> {
    const { library } = this.#parts;
    return library.experts.require(expertId).skills.flatMap((id) => library.find(id) ?? []);
  }

  /** The tools of the skill that can be called: on the rack and not disabled. */
  async loadSkillTools(skill: LoadedSkill): Promise<SkillToolDefinition[]> {
    return skill.tools.flatMap((tool) => {
      const info = this.#parts.registry.get(tool.id);
      return info === undefined || info.disabled ? [] : [this.convertToolToOpenAIFormat(tool, skill)];
    });
  }

  /** Throws `ToolNotFoundError` for a tool that is not on the rack; `library.failureOf` tells why. */
  convertToolToOpenAIFormat(tool: Pick<StoredSkillTool, "id">, _skill?: LoadedSkill): SkillToolDefinition {
    const info = this.#parts.registry.require(tool.id);
    const meta = skillToolInfo(info);
    if (meta === undefined) throw new Error(`"${tool.id}" is no tool of a skill.`);
    return { ...toOpenAITools([info]).tools[0]!, _meta: meta };
  }

  /** Runs a tool like any other call. Never rejects. */
  executeSkillTool(
    skillId: string,
    toolName: string,
    params: unknown,
    context: CallOptions = {},
  ): Promise<ToolResult> {
    const { registry, library } = this.#parts;
    const tool = library.find(skillId)?.tools.find(({ name }) => name === toolName);
    return registry.execute(tool?.id ?? `${skillId}_${toolName}`, params, context);
  }
}
