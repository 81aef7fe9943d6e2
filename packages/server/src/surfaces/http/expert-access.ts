import type { ToolInfo } from "@toolrack/core";
import type { Grant } from "../../auth/grant.ts";
import type { Expert, Experts } from "../../skills/experts.ts";
import { HttpError } from "./http-error.ts";

/** The query parameter of every request that may be made as an expert. */
export const expertQuery = {
  type: "string",
  minLength: 1,
  maxLength: 128,
  description: "The name or id of an expert: only its tools are there.",
} as const;

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
