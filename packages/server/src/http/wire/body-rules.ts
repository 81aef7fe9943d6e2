import type { ToolInfo } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import { problemOfToolPattern } from "../../config/index.ts";
import type { Expert, Experts } from "../../skills/index.ts";
import { problemOfRulePattern } from "../../store/index.ts";
import { HttpError } from "./errors.ts";
import { text } from "./schema.ts";

/** Description of every tool pattern in the API. */
export const toolPattern =
  "A tool's name, in which `*` stands for anything; or `mcp:KEY` for the tools of exactly that MCP server, and " +
  "`mcp:KEY/PATTERN` for those of them that it calls so itself, case included. A slash of the key is written `%2F`.";

/** Refuses a tool pattern that could never match. */
export function refuseToolPattern(path: string, pattern: string): void {
  const message = problemOfToolPattern(pattern);
  if (message !== undefined) throw misplaced(path, message);
}

/** Refuses a tool pattern that could never match, or that an approval rule cannot store. */
export function refuseRulePattern(path: string, pattern: string): void {
  refuseToolPattern(path, pattern);
  const message = problemOfRulePattern(pattern);
  if (message !== undefined) throw misplaced(path, message);
}

/** The error for a member of the body that conflicts with the rest. */
export function misplaced(path: string, message: string): HttpError {
  return new HttpError("invalid_request", message, { details: { in: "body", issues: [{ path, message }] } });
}

/** The query parameter of every request that may be made as an expert. */
export const expertQuery = text({
  minLength: 1,
  maxLength: 128,
  description: "The name or id of an expert: only its tools are there.",
});

/** What a request may use: everything that its token allows, or the tools of an expert. */
export interface Reach {
  readonly grant: Grant;
  readonly allow?: (tool: ToolInfo) => boolean;
  readonly expert?: Expert;
}

/**
 * What a request with this grant may use. With an expert, a token may use exactly the expert's tools,
 * whatever else it may use. Throws the same `expert_not_found` for an unknown expert and for one that the
 * token must not know of.
 */
export function reachOf(grant: Grant, experts: Experts, name: string | undefined): Reach {
  if (name === undefined) return { grant };
  const expert = findExpert(grant, experts, name);
  // `allow` refuses tools that the expert does not have, so `mayUse` need not.
  return { grant: { ...grant, mayUse: () => true }, allow: expert.allows, expert };
}

/** The experts that the token may use. */
export function expertsOf(grant: Grant, experts: Experts): Expert[] {
  return experts.list().filter(({ id, name }) => grant.mayUseExpert(name) || grant.mayUseExpert(id));
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
