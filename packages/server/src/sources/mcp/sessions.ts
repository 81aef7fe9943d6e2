import { UpstreamError } from "./protocol/upstream-error.ts";
import type { UpstreamSession } from "./protocol/upstream-session.ts";

/** The session that is used, and those that are used no longer and have not ended yet. */
export class Sessions {
  current: UpstreamSession | undefined;
  readonly #former = new Set<UpstreamSession>();

  /** What is under way over the one before comes to its end there. */
  use(session: UpstreamSession): void {
    if (this.current !== undefined) this.partWith(this.current);
    this.current = session;
  }

  /** Uses it no longer. It ends once nobody waits for an answer over it. */
  partWith(session: UpstreamSession): void {
    if (session === this.current) this.current = undefined;
    this.#former.add(session);
    void session.retire().finally(() => this.#former.delete(session));
  }

  /** Resolves when nothing is left of any of them, also of those that were lost before. */
  async end(why: string): Promise<void> {
    if (this.current !== undefined) this.partWith(this.current);
    const reason = new UpstreamError("unavailable", why);
    await Promise.all([...this.#former].map((session) => session.close(reason)));
  }
}
