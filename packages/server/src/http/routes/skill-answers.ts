import { isUtf8 } from "node:buffer";
import type { SkillLibrary } from "../../skills/index.ts";
import { SkillInputError, SkillMissingError, SkillReadOnlyError } from "../../skills/index.ts";
import { SkillChangedError, type StoredSkillTool } from "../../store/index.ts";
import { HttpError, s } from "../wire/index.ts";

export const skillParams = { id: s.text({ minLength: 1, maxLength: 128, description: "Its id or name." }) };

/** The version that a change is based on. */
export const seenVersion = {
  "updatedAt?": s.integer(
    "The `updatedAt` of what was looked at. When it is another one by now, nothing is changed (`skill_changed`).",
  ),
} as const;

const advice = {
  skill: "GET /api/skills lists them.",
  skill_tool: "GET /api/skills/{id} lists them.",
  expert: "GET /api/experts lists them.",
} as const;

/** Runs the work and turns its refusals into the API's errors. */
export async function refusing<Result>(work: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof SkillInputError) {
      const details = { in: "body", issues: thrown.issues };
      throw new HttpError("invalid_request", `The body of the request does not fit: ${thrown.message}`, {
        details,
      });
    }
    if (thrown instanceof SkillMissingError) {
      throw new HttpError(`${thrown.what}_not_found`, `${thrown.message} ${advice[thrown.what]}`);
    }
    if (thrown instanceof SkillReadOnlyError) throw new HttpError("skill_read_only", thrown.message);
    throw thrown;
  }
}

/** The same for a change that may conflict with somebody else's: the refusal holds the current values of the fields. */
export function refusingUnseen<Result>(fields: object, work: () => Promise<Result>): Promise<Result> {
  return refusing(async () => {
    try {
      return await work();
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
  });
}

type Skill = ReturnType<SkillLibrary["require"]>;

/** Texts of longer files are not shown, in bytes. */
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
    usage: usageOf(tool.usage),
    rackName,
    status: failure === undefined ? (isOff ? "disabled" : "ok") : "failed",
    failure,
  };
}

/** Parses JSON; other text is returned as it is. */
function usageOf(usage: string): unknown {
  if (usage === "") return undefined;
  try {
    return JSON.parse(usage);
  } catch {
    return usage;
  }
}
