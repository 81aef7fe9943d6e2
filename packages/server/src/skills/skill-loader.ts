import {
  type CallOptions,
  type ToolInfo,
  type ToolRegistry,
  type ToolResult,
  toOpenAITools,
} from "@toolrack/core";
import type { LoadedSkill } from "../sources/skills/loaded-skill.ts";
import type { StoredSkillTool } from "../store/skills/skill-store.ts";
import type { SkillLibrary } from "./skill-library.ts";
import { type SkillToolInfo, skillToolInfo } from "./skill-tool-info.ts";

export type OpenAITool = ReturnType<typeof toOpenAITools>["tools"][number];

/** A definition with what we know of the tool beside it. `_meta` never goes to a model. */
export interface SkillToolDefinition extends OpenAITool {
  readonly _meta: SkillToolInfo;
}

export interface SkillLoaderParts {
  readonly registry: ToolRegistry;
  readonly library: SkillLibrary;
}

/** Skills and their tools as OpenAI definitions. A thin face: the rack holds the tools, and runs them. */
export class SkillLoader {
  readonly #parts: SkillLoaderParts;

  constructor(parts: SkillLoaderParts) {
    this.#parts = parts;
  }

  /** Of an expert by its id or name, in its order. Throws `SkillMissingError`. */
  async loadSkillsForExpert(expertId: string): Promise<LoadedSkill[]> {
    const { library } = this.#parts;
    return library.experts.require(expertId).skills.flatMap((id) => library.find(id) ?? []);
  }

  /** Those that can be called: neither failed nor switched off. */
  async loadSkillTools(skill: LoadedSkill): Promise<SkillToolDefinition[]> {
    return skill.tools.flatMap((tool) => {
      const info = this.#parts.registry.get(tool.id);
      return info === undefined || info.disabled ? [] : [this.convertToolToOpenAIFormat(tool, skill)];
    });
  }

  /** Throws `ToolNotFoundError` for a tool that is not on the rack; `library.failureOf` says why. */
  convertToolToOpenAIFormat(tool: Pick<StoredSkillTool, "id">, _skill?: LoadedSkill): SkillToolDefinition {
    const info = this.#parts.registry.require(tool.id);
    const meta = skillToolInfo(info);
    if (meta === undefined) throw new Error(`"${tool.id}" is no tool of a skill.`);
    return { ...definitionOf(info), _meta: meta };
  }

  /** Through the one pipeline, like any call. Never rejects. */
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

export function definitionOf(info: ToolInfo): OpenAITool {
  return toOpenAITools([info]).tools[0]!;
}
