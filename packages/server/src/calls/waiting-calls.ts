import type { Grant } from "../auth/grant.ts";
import type { GrantWatch } from "../auth/grant-watch.ts";

/** Calls that wait for somebody's answer, which may take hours. They end with the token of whoever made them. */
export class WaitingCalls {
  readonly #grants: Pick<GrantWatch, "watch">;
  readonly #cancel: (callId: string, reason: string) => void;
  /** How to look after the token no more. */
  readonly #releases = new Map<string, () => void>();

  constructor(grants: Pick<GrantWatch, "watch">, cancel: (callId: string, reason: string) => void) {
    this.#grants = grants;
    this.#cancel = cancel;
  }

  has(callId: string): boolean {
    return this.#releases.has(callId);
  }

  add(callId: string, grant: Grant): void {
    this.delete(callId);
    this.#releases.set(
      callId,
      this.#grants.watch(grant, (why) => this.#cancel(callId, why)),
    );
  }

  /** It waits no more. Does nothing for one that did not. */
  delete(callId: string): void {
    if (this.#releases.size === 0) return;
    this.#releases.get(callId)?.();
    this.#releases.delete(callId);
  }
}
