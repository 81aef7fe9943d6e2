import { SkillInputError, SkillMissingError, SkillReadOnlyError } from "../../../skills/skill-input-error.ts";
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
