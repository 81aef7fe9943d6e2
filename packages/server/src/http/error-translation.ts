import { SecretError, SettingError } from "../access/index.ts";
import { ForbiddenAnswer, UnfitAnswer } from "../calls/index.ts";
import { SkillInputError, SkillMissingError, SkillReadOnlyError } from "../skills/index.ts";
import { BlobMissingError, InvalidCursorError, McpServerError } from "../store/index.ts";
import { HttpError, misplaced } from "./wire/index.ts";

const skillAdvice = {
  skill: "GET /api/skills lists them.",
  skill_tool: "GET /api/skills/{id} lists them.",
  expert: "GET /api/experts lists them.",
} as const;

/**
 * Translates the errors by which other parts of the server refuse a request into an `HttpError`. Returns any
 * other value unchanged.
 */
export function toHttpError(thrown: unknown): unknown {
  if (!(thrown instanceof Error) || thrown instanceof HttpError) return thrown;
  const { message } = thrown;
  if (thrown instanceof SkillInputError) {
    const details = { in: "body", issues: thrown.issues };
    return new HttpError("invalid_request", `The body of the request does not fit: ${message}`, { details });
  }
  if (thrown instanceof SkillMissingError) {
    return new HttpError(`${thrown.what}_not_found`, `${message} ${skillAdvice[thrown.what]}`);
  }
  if (thrown instanceof SkillReadOnlyError) return new HttpError("skill_read_only", message);
  if (thrown instanceof McpServerError) {
    return new HttpError(thrown.code, message, { details: thrown.details });
  }
  if (thrown instanceof SecretError) return new HttpError("secret_invalid", message);
  if (thrown instanceof SettingError) return new HttpError("setting_invalid", message);
  if (thrown instanceof BlobMissingError) return new HttpError("result_missing", message);
  if (thrown instanceof InvalidCursorError) {
    const details = { in: "query", issues: [{ path: "cursor", message }] };
    return new HttpError("invalid_request", message, { details });
  }
  if (thrown instanceof ForbiddenAnswer) return new HttpError("forbidden", message);
  if (!(thrown instanceof UnfitAnswer)) return thrown;
  // Invalid arguments in an answer are the approver's mistake, so the question stays open.
  const { issues } = thrown;
  if (issues.length === 0) return misplaced("arguments", message);
  return new HttpError("invalid_arguments", `${message} The question stays open.`, { details: { issues } });
}
