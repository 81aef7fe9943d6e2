import { isUtf8 } from "node:buffer";
import type { SkillLibrary } from "../../../skills/skill-library.ts";
import type { StoredSkillTool } from "../../../store/skills/skill-store.ts";

type Skill = ReturnType<SkillLibrary["require"]>;

/** Longest file whose text is shown. */
const LONGEST_SHOWN = 256 * 1024;

export function skillSummary(skills: SkillLibrary, skill: Skill): Record<string, unknown> {
  const { directory: _directory, revision: _revision, frontMatterText: _text, tools, ...rest } = skill;
  const failed = tools.filter(({ id }) => skills.failureOf(id) !== undefined);
  return { ...rest, toolCount: tools.length, failedTools: failed.length };
}

export async function skillDetail(skills: SkillLibrary, skill: Skill): Promise<Record<string, unknown>> {
  const files = await skills.filesOf(skill);
  return {
    ...skillSummary(skills, skill),
    tools: skill.tools.map((tool) => skillToolView(skills, skill, tool)),
    files: files.map(({ path, content, executable }) => ({
      path,
      size: content.length,
      executable,
      ...(content.length <= LONGEST_SHOWN && isUtf8(content) ? { text: content.toString("utf8") } : {}),
    })),
  };
}

export function skillToolView(
  skills: SkillLibrary,
  skill: Skill,
  tool: StoredSkillTool,
): Record<string, unknown> {
  const failure = skills.failureOf(tool.id);
  const rackName = skills.nameOf(tool.id);
  const isOff = !tool.enabled || !skill.enabled;
  return {
    ...tool,
    toolId: tool.id,
    toolName: tool.name,
    skillName: skill.name,
    usage: usageOf(tool.usage),
    ...(rackName === undefined ? {} : { rackName }),
    status: failure === undefined ? (isOff ? "disabled" : "ok") : "failed",
    ...(failure === undefined ? {} : { failure }),
  };
}

/** JSON as a value; what is none as the text that it is. */
function usageOf(usage: string): unknown {
  if (usage === "") return undefined;
  try {
    return JSON.parse(usage);
  } catch {
    return usage;
  }
}
