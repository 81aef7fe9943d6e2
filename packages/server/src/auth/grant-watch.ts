import type { Logger } from "@toolrack/core";
import { Lookout } from "../async/lookout.ts";
import type { TokenStore } from "../store/store.ts";
import { type Grant, grantOf, masterGrant } from "./grant.ts";

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
  readonly #lookout: Lookout;

  constructor(tokens: Pick<TokenStore, "list">, logger: Logger) {
    this.#tokens = tokens;
    this.#lookout = new Lookout({
      look: () => this.#look(),
      failed: (error) =>
        logger.warn("It could not be looked whether the tokens of what is under way are still good:", error),
    });
  }

  /** Calls `end` when the token is no longer good, with a sentence for people. Returns how to watch no more. */
  watch(grant: Watched["grant"], end: Watched["end"]): () => void {
    if (grant.id === masterGrant.id) return () => {};
    const watched = { grant, end };
    this.#watched.add(watched);
    this.#lookout.start();
    return () => this.#release(watched);
  }

  /** Ends what is to be ended now. Never rejects. */
  look(): Promise<void> {
    return this.#lookout.look();
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
      this.#release(watched);
      watched.end(why);
    }
  }

  async #known(): Promise<ReadonlySet<string>> {
    return new Set((await this.#tokens.list()).map(({ id }) => id));
  }

  #release(watched: Watched): void {
    this.#watched.delete(watched);
    if (this.#watched.size === 0) void this.#lookout.stop();
  }
}

/** What the owner of something that is stored may do now. Undefined when its token is gone. */
export async function grantOfOwner(
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
