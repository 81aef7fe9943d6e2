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
  /** Whether the caller may use the tool. For a caller that may not, the tool does not exist. */
  mayUse(tool: RackItem): boolean;
  mayUseExpert(expert: string): boolean;
  /** Whether the caller may approve calls of the tool: its own calls as well as those of others. */
  mayApprove(tool: RackItem): boolean;
  /** Whether there is any tool whose calls the caller may approve. */
  readonly isApprover: boolean;
  /** Whether the caller may talk to models, which costs the operator money. */
  readonly mayChat: boolean;
}

/** The grant of the operator's own token, which is made at the first start. */
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

/** A token may do only what its scopes mention. */
export function grantOf(token: StoredToken): Grant {
  const { id, name, scopes, expiresAt } = token;
  const admin = scopes.admin === true;
  return {
    id,
    name,
    admin,
    caller: `${name}_${id}`,
    expiresAt,
    mayUse: admin ? () => true : toolMatcher(scopes.tools),
    mayUseExpert: (expert) =>
      admin || (scopes.experts ?? []).some((pattern) => matchesPattern(pattern, expert)),
    mayApprove: admin ? () => true : toolMatcher(scopes.approve),
    isApprover: admin || (scopes.approve ?? []).length > 0,
    // A token that has tools or experts may chat by default. Any other token needs the scope `chat`.
    mayChat: admin || (scopes.chat ?? [...(scopes.tools ?? []), ...(scopes.experts ?? [])].length > 0),
  };
}

interface Watched {
  readonly grant: Pick<Grant, "id" | "expiresAt">;
  readonly end: (why: string) => void;
}

/**
 * Ends work under way whose token is revoked or expires: at once when this process revokes it, a moment later when
 * another node does. Reads the tokens only while there is work to watch.
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

  /**
   * Calls `end` with a sentence for people when the token is no longer valid. Returns a function that stops watching.
   */
  watch(grant: Watched["grant"], end: Watched["end"]): () => void {
    if (grant.id === masterGrant.id) return () => {};
    const watched = { grant, end };
    this.#watched.add(watched);
    return () => void this.#watched.delete(watched);
  }

  /** Ends all work whose token is no longer valid. Never rejects. */
  look(): Promise<void> {
    return this.#following.look();
  }

  /**
   * Says, in a sentence for people, why the token is no longer valid; undefined while it is valid. Rejects
   * when the tokens cannot be read.
   */
  async whyEnded(grant: Watched["grant"]): Promise<string | undefined> {
    return grant.id === masterGrant.id ? undefined : whyEnded(grant, await this.#readTokenIds());
  }

  async #look(): Promise<void> {
    // A token that is issued while the list is being read is missing from it, so only work watched before is judged.
    const before = [...this.#watched];
    if (before.length === 0) return;
    const known = await this.#readTokenIds();
    for (const watched of before) {
      if (!this.#watched.has(watched)) continue;
      const why = whyEnded(watched.grant, known);
      if (why === undefined) continue;
      this.#watched.delete(watched);
      watched.end(why);
    }
  }

  async #readTokenIds(): Promise<ReadonlySet<string>> {
    return new Set((await this.#tokens.list()).map(({ id }) => id));
  }
}

/** The grant of the first token in the store for which `isMeant` is true. Expired tokens count too. */
export async function findGrant(
  tokens: Pick<TokenStore, "list">,
  isMeant: (grant: Grant) => boolean,
): Promise<Grant | undefined> {
  return (await tokens.list()).map(grantOf).find(isMeant);
}

/**
 * The grant of the token with the id `owner`, as it is now. Undefined when the token is gone or has expired.
 */
export async function grantOfCaller(
  owner: string,
  tokens: Pick<TokenStore, "list">,
): Promise<Grant | undefined> {
  if (owner === masterGrant.id) return masterGrant;
  const grant = await findGrant(tokens, ({ id }) => id === owner);
  return grant === undefined || isExpired(grant) ? undefined : grant;
}

export function isExpired({ expiresAt }: Pick<Grant, "expiresAt">): boolean {
  return expiresAt !== undefined && expiresAt <= Date.now();
}

const TAKEN_BACK = "The token that this was asked with was taken back. Nothing more is done for it.";
const EXPIRED = "The token that this was asked with has expired. Nothing more is done for it.";

function whyEnded(grant: Watched["grant"], known: ReadonlySet<string>): string | undefined {
  if (!known.has(grant.id)) return TAKEN_BACK;
  return isExpired(grant) ? EXPIRED : undefined;
}
