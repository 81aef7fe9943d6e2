import type { Logger } from "@toolrack/core";
import { matchesPattern, type RackItem, toolMatcher } from "../config/index.ts";
import type { Follower, Following, StoredToken, TokenStore } from "../store/index.ts";

/** What a caller may do. */
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
  /** Whether the tool exists for this caller at all. */
  mayUse(tool: RackItem): boolean;
  mayUseExpert(expert: string): boolean;
  /** Whether it may answer whether a call of the tool runs, or goes on: its own calls like those of others. */
  mayApprove(tool: RackItem): boolean;
  /** Whether there is any tool that it may approve. */
  readonly isApprover: boolean;
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
  mayApprove: () => true,
  isApprover: true,
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
    mayApprove: admin ? () => true : toolMatcher(scopes.approve),
    isApprover: admin || (scopes.approve ?? []).length > 0,
    // A model is of use to who has tools for it; others have to be given it.
    mayChat: admin || (scopes.chat ?? [...(scopes.tools ?? []), ...(scopes.experts ?? [])].length > 0),
  };
}

function fitsAny(patterns: readonly string[] | undefined, name: string): boolean {
  return patterns?.some((pattern) => matchesPattern(pattern, name)) ?? false;
}

interface Watched {
  readonly grant: Pick<Grant, "id" | "expiresAt">;
  readonly end: (why: string) => void;
}

/**
 * Ends what somebody has under way whose token is taken back or expires: at once where it is taken back here, in a moment
 * where that happens on another node. Looks only while there is something to end.
 */
export class GrantWatch {
  readonly #tokens: Pick<TokenStore, "list">;
  readonly #watched = new Set<Watched>();
  readonly #following: Following;

  constructor(
    store: { readonly tokens: Pick<TokenStore, "list">; readonly follower: Follower },
    logger: Logger,
  ) {
    this.#tokens = store.tokens;
    this.#following = store.follower.follow("tokens", {
      isNeeded: () => this.#watched.size > 0,
      refresh: () => this.#look(),
      failed: (error) =>
        logger.warn("It could not be looked whether the tokens of what is under way are still good:", error),
    });
  }

  /** Calls `end` when the token is no longer good, with a sentence for people. Returns how to watch no more. */
  watch(grant: Watched["grant"], end: Watched["end"]): () => void {
    if (grant.id === masterGrant.id) return () => {};
    const watched = { grant, end };
    this.#watched.add(watched);
    return () => void this.#watched.delete(watched);
  }

  /** Ends what is to be ended now. Never rejects. */
  look(): Promise<void> {
    return this.#following.look();
  }

  /** Why the token is no longer good, in a sentence for people. Undefined when it is. Rejects when that cannot be looked up. */
  async whyEnded(grant: Watched["grant"]): Promise<string | undefined> {
    return grant.id === masterGrant.id ? undefined : whyEnded(grant, await this.#known());
  }

  async #look(): Promise<void> {
    // A token that is issued while they are being read is not among them.
    const before = [...this.#watched];
    if (before.length === 0) return;
    const known = await this.#known();
    for (const watched of before) {
      if (!this.#watched.has(watched)) continue;
      const why = whyEnded(watched.grant, known);
      if (why === undefined) continue;
      this.#watched.delete(watched);
      watched.end(why);
    }
  }

  async #known(): Promise<ReadonlySet<string>> {
    return new Set((await this.#tokens.list()).map(({ id }) => id));
  }
}

/** What the owner of something that is stored may do now. Undefined when its token is gone. */
export async function grantOfCaller(
  owner: string,
  tokens: Pick<TokenStore, "list">,
): Promise<Grant | undefined> {
  if (owner === masterGrant.id) return masterGrant;
  const token = (await tokens.list()).find(({ id }) => id === owner);
  return token === undefined || expiryOf(token) !== undefined ? undefined : grantOf(token);
}

const TAKEN_BACK = "The token that this was asked with was taken back. Nothing more is done for it.";
const EXPIRED = "The token that this was asked with has expired. Nothing more is done for it.";

function whyEnded(grant: Watched["grant"], known: ReadonlySet<string>): string | undefined {
  return known.has(grant.id) ? expiryOf(grant) : TAKEN_BACK;
}

function expiryOf({ expiresAt }: { readonly expiresAt?: number }): string | undefined {
  return expiresAt !== undefined && expiresAt <= Date.now() ? EXPIRED : undefined;
}
