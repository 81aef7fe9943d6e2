import type { ToolInfo } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import { problemOfToolPattern } from "../../config/index.ts";
import type { Expert, Experts } from "../../skills/index.ts";
import { InvalidCursorError, problemOfRulePattern } from "../../store/index.ts";
import { HttpError } from "./errors.ts";
import { text } from "./schema.ts";

/** For a list that the store refused: a cursor that is none is the mistake of whoever asked. */
export function blameCursor(thrown: unknown): never {
  if (!(thrown instanceof InvalidCursorError)) throw thrown;
  const issues = [{ path: "cursor", message: thrown.message }];
  throw new HttpError("invalid_request", thrown.message, { details: { in: "query", issues } });
}

/** What the API says of every pattern of tools that it takes. */
export const toolPattern =
  "A tool's name, in which `*` stands for anything; or `mcp:KEY` for the tools of exactly that MCP server, and " +
  "`mcp:KEY/PATTERN` for those of them that it calls so itself, case included. A slash of the key is written `%2F`.";

/** Refuses a pattern of tools in a body that could never fit anything. */
export function refuseToolPattern(path: string, pattern: string): void {
  const message = problemOfToolPattern(pattern);
  if (message !== undefined) throw misplaced(path, message);
}

/** Refuses also a pattern that a rule could not be kept with. */
export function refuseRulePattern(path: string, pattern: string): void {
  refuseToolPattern(path, pattern);
  const message = problemOfRulePattern(pattern);
  if (message !== undefined) throw misplaced(path, message);
}

/** Something in the body that does not go with the rest of it. */
export function misplaced(path: string, message: string): HttpError {
  return new HttpError("invalid_request", message, { details: { in: "body", issues: [{ path, message }] } });
}

/** The query parameter of every request that may be made as an expert. */
export const expertQuery = text({
  minLength: 1,
  maxLength: 128,
  description: "The name or id of an expert: only its tools are there.",
});

/** What a request may reach: all that its token may, or the tools of an expert. */
export interface Reach {
  readonly grant: Grant;
  readonly allow?: (tool: ToolInfo) => boolean;
  readonly expert?: Expert;
}

/**
 * A token that may use an expert may use the tools of it, and none else there, whatever tools it may use otherwise.
 * Throws `expert_not_found`, in the same words for an expert that the token must not know of.
 */
export function reachOf(grant: Grant, experts: Experts, name: string | undefined): Reach {
  if (name === undefined) return { grant };
  const expert = findExpert(grant, experts, name);
  // What is outside the set is refused as such, which the set itself sees to.
  return { grant: { ...grant, mayUse: () => true }, allow: expert.allows, expert };
}

export function findExpert(grant: Grant, experts: Experts, name: string): Expert {
  const expert = experts.find(name);
  if (expert !== undefined && (grant.mayUseExpert(expert.name) || grant.mayUseExpert(expert.id)))
    return expert;
  throw new HttpError(
    "expert_not_found",
    `This token knows no expert "${name}". GET /api/experts lists those that it may use.`,
    { details: { expert: name } },
  );
}
