import type { CallOptions, ToolInfo, ToolRegistry, ToolResult } from "@toolrack/core";
import { parseOpenAIToolCalls, toOpenAIToolMessage, toOpenAITools } from "@toolrack/core/format";
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
  /** The ids of the skills that were registered beside those of the expert. */
  readonly #registered = new Set<string>();

  constructor(parts: ToolManagerParts) {
    this.#parts = parts;
    this.skillLoader = new SkillLoader(parts);
  }

  /** The expert's skills, or all skills without one. Throws `SkillMissingError` for an unknown expert. */
  async initialize(): Promise<LoadedSkill[]> {
    return this.#skills();
  }

  /**
   * Adds a skill of the rack, given by its id or name, to the expert's. Without an expert all skills are there already.
   * Throws `SkillMissingError`.
   */
  registerSkill(skill: string | Pick<LoadedSkill, "id">): void {
    this.#registered.add(this.#parts.library.require(typeof skill === "string" ? skill : skill.id).id);
  }

  /** The skills by their ids, each with the definitions of its tools. Made anew each time from what the rack has now. */
  get skills(): ReadonlyMap<string, ManagedSkill> {
    const skills = this.#skills().map((skill): ManagedSkill => {
      const { id, name, description } = skill;
      return { id, name, description, tools: this.skillLoader.definitionsOf(skill) };
    });
    return new Map(skills.map((skill) => [skill.id, skill]));
  }

  /** The id of each tool's skill, by the name that models use. */
  get toolToSkill(): ReadonlyMap<string, string> {
    return new Map(Array.from(this.toolRegistry, ([name, { skillId }]) => [name, skillId]));
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
    const has = (tool: ToolInfo) => expert?.allows(tool) === true || this.#isRegistered(tool);
    const allow = (tool: ToolInfo) => expert !== undefined && has(tool) && context.allow?.(tool) !== false;
    const extra = { ...context.extra, expertId: expert?.id ?? expertId };
    return registry.execute(toolId, params, { ...context, allow, extra });
  }

  /** The messages that answer the calls, each with the name that the model used. */
  formatToolResultsForLLM(outcomes: readonly ToolCallOutcome[]): ToolMessage[] {
    return outcomes.map(({ toolCallId, toolName, result }) => {
      const { content, ...message } = toOpenAIToolMessage(toolCallId, result, { envelope: true });
      return { ...message, name: toolName, content };
    });
  }

  /** The name of a tool in logs: `SearXNG Search/web_search`, or its own name when it belongs to no skill. */
  formatToolDisplay(toolId: string): string {
    const info = this.#parts.registry.get(toolId);
    const skill = info === undefined ? undefined : skillToolInfo(info);
    return skill === undefined ? (info?.name ?? toolId) : `${skill.skillName}/${skill.toolName}`;
  }

  #tools(): ToolInfo[] {
    const { registry, library, expertId } = this.#parts;
    if (expertId === undefined) return registry.list();
    const own = library.experts.require(expertId).list();
    if (this.#registered.size === 0) return own;
    return [...new Set([...own, ...registry.list().filter((tool) => this.#isRegistered(tool))])];
  }

  #skills(): LoadedSkill[] {
    const { library, expertId } = this.#parts;
    if (expertId === undefined) return library.list();
    const ids = new Set([...library.experts.require(expertId).skills, ...this.#registered]);
    return [...ids].flatMap((id) => library.find(id) ?? []);
  }

  #isRegistered(tool: ToolInfo): boolean {
    const skill = skillToolInfo(tool);
    return skill !== undefined && this.#registered.has(skill.skillId);
  }
}

/** Gives a built-in tool the name by which models know it, its alias `builtin_{name}`. */
function withModelName(info: ToolInfo): ToolInfo {
  const builtin = info.aliases?.find((alias) => alias.startsWith("builtin_"));
  return builtin === undefined ? info : { ...info, name: builtin };
}

type OpenAITool = ReturnType<typeof toOpenAITools>["tools"][number];

/** A definition with information on the tool. `_meta` never goes to a model. */
interface SkillToolDefinition extends OpenAITool {
  readonly _meta: SkillToolInfo;
}

/** A skill as a chat service knows it. */
export interface ManagedSkill extends Pick<LoadedSkill, "id" | "name" | "description"> {
  readonly tools: readonly SkillToolDefinition[];
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
    return this.definitionsOf(skill);
  }

  definitionsOf(skill: LoadedSkill): SkillToolDefinition[] {
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
