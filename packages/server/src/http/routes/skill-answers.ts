import { isUtf8 } from "node:buffer";
import { parsedJson } from "../../helpers/index.ts";
import type { SkillLibrary } from "../../skills/index.ts";
import { SkillChangedError, type StoredSkillTool } from "../../store/index.ts";
import { HttpError, s } from "../wire/index.ts";

export const skillParams = { id: s.text("Its id or name.", { minLength: 1, maxLength: 128 }) };

/** The member of a body that says on which version of a skill, tool or expert the change is based. */
export const seenVersion = {
  "updatedAt?": s.integer(
    "The `updatedAt` of what was looked at. When it is another one by now, nothing is changed (`skill_changed`).",
  ),
} as const;

/**
 * Waits for a change. When somebody else changed the same thing before, throws a refusal that holds the
 * current values of the fields.
 */
export async function showingConflict<Result>(fields: object, change: Promise<Result>): Promise<Result> {
  try {
    return await change;
  } catch (thrown) {
    if (!(thrown instanceof SkillChangedError)) throw thrown;
    const all: Readonly<Record<string, unknown>> = { ...thrown.now };
    const now = Object.fromEntries(Object.keys(fields).map((field) => [field, all[field] ?? null]));
    throw new HttpError(
      "skill_changed",
      `"${thrown.now.name}" was changed by somebody else after it was read. Read it again, and change what it is now.`,
      { details: { updatedAt: thrown.now.updatedAt, now } },
    );
  }
}

type Skill = ReturnType<SkillLibrary["require"]>;

/** How many tools are shown with a skill, and on a page of its tools. More would hold up everybody else. */
export const MOST_TOOLS = 2_000;
/** The text of a file that is longer than this is not shown, in bytes. */
const LONGEST_SHOWN = 256 * 1024;

export async function skillDetail(skills: SkillLibrary, skill: Skill): Promise<Record<string, unknown>> {
  const files = await skills.filesOf(skill);
  return {
    ...skills.summaryOf(skill),
    tools: skill.tools.slice(0, MOST_TOOLS).map((tool) => skillToolView(skills, skill, tool)),
    files: files.map(({ path, content, executable }) => ({
      path,
      size: content.length,
      executable,
      text: content.length <= LONGEST_SHOWN && isUtf8(content) ? content.toString("utf8") : undefined,
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
    usage: tool.usage === "" ? undefined : parsedJson(tool.usage, tool.usage),
    rackName,
    status: failure === undefined ? (isOff ? "disabled" : "ok") : "failed",
    failure,
  };
}
