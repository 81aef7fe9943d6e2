import type { Grant } from "../../auth/grant.ts";
import { type ChatReach, chatReach } from "../chat/tools/reach.ts";
import { findExpert } from "./expert-access.ts";
import type { HttpParts } from "./parts.ts";

/**
 * The reach of somebody who talks to a model: as the expert that the request names, or as the only one that the token is
 * for. Throws `expert_not_found`.
 */
export function requestedReach(
  { skills: { experts }, registry }: Pick<HttpParts, "skills" | "registry">,
  grant: Grant,
  named: string | undefined,
): ChatReach {
  if (named !== undefined) return chatReach(grant, findExpert(grant, experts, named));
  if (grant.admin || registry.list().some((tool) => grant.mayUse(tool))) return chatReach(grant);
  const own = experts.list().filter(({ name, id }) => grant.mayUseExpert(name) || grant.mayUseExpert(id));
  return chatReach(grant, own.length === 1 ? own[0] : undefined);
}
