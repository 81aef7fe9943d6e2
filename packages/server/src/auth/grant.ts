import type { StoredToken } from "../store/store.ts";
import { matchesPattern } from "./matches-pattern.ts";
import { toolMatcher } from "./tool-matcher.ts";
import type { RackItem } from "./upstream-origin.ts";

/** What the bearer of a token may do. */
export interface Grant {
  /** `master`, or the id of a token in the store. */
  readonly id: string;
  readonly name: string;
  /** May see every call and every tool, change the rack, and reload it. */
  readonly admin: boolean;
  /** What records name as the caller; no two tokens share it. */
  readonly caller: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt?: number;
  /** Whether the tool exists for this bearer at all. */
  mayUse(tool: RackItem): boolean;
  mayUseExpert(expert: string): boolean;
  /** Whether it may talk to models, on the account of whoever pays the provider. */
  readonly mayChat: boolean;
}

/** The token that was made at the first start: the operator's own. */
export const masterGrant: Grant = {
  id: "master",
  name: "master",
  admin: true,
  caller: "http",
  mayUse: () => true,
  mayUseExpert: () => true,
  mayChat: true,
};

/** What a token's scopes do not mention, it may not do. */
export function grantOf(token: StoredToken): Grant {
  const { id, name, scopes, expiresAt } = token;
  const admin = scopes.admin === true;
  return {
    id,
    name,
    admin,
    caller: `${name}_${id}`,
    ...(expiresAt === undefined ? {} : { expiresAt }),
    mayUse: admin ? () => true : toolMatcher(scopes.tools),
    mayUseExpert: (expert) => admin || fitsAny(scopes.experts, expert),
    // A model is of use to who has tools for it; others have to be given it.
    mayChat: admin || (scopes.chat ?? [...(scopes.tools ?? []), ...(scopes.experts ?? [])].length > 0),
  };
}

function fitsAny(patterns: readonly string[] | undefined, name: string): boolean {
  return patterns?.some((pattern) => matchesPattern(pattern, name)) ?? false;
}
