import { SkillInputError, SkillMissingError, SkillReadOnlyError } from "../../../skills/skill-input-error.ts";
import { SkillChangedError } from "../../../store/skills/skill-store.ts";
import { HttpError } from "../http-error.ts";

const advice = {
  skill: "GET /api/skills lists them.",
  skill_tool: "GET /api/skills/{id} lists them.",
  expert: "GET /api/experts lists them.",
} as const;

/** Does what a request asks for; a refusal is answered as the API answers it. */
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

/** The same for a change of what may have been changed by somebody else: the refusal has the wanted fields as they are. */
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

/** What a request that changes something says of what it saw. */
export const seenVersion = {
  updatedAt: {
    type: "integer",
    description:
      "The `updatedAt` of what was looked at. When it is another one by now, nothing is changed (`skill_changed`).",
  },
} as const;
