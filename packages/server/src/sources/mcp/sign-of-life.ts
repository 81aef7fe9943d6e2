import type { UpstreamSession } from "./protocol/upstream-session.ts";

/** A server that says nothing for so long is given the next call all the same. In milliseconds. */
const LONGEST = 10_000;

/**
 * Waits until a server shows that it is there, after a call was given up that it never answered. Until then the next call
 * would only be sent to somebody who may not be listening, and could be taken for done.
 */
export class SignOfLife {
  readonly #awaited = new WeakMap<UpstreamSession, Promise<void>>();

  /** Several who wait ask once. Never rejects. */
  of(session: UpstreamSession): Promise<void> {
    const before = this.#awaited.get(session);
    if (before !== undefined) return before;
    // Also one that knows no such method answers that it does not.
    const heard = session.request({ method: "ping", params: {}, timeout: LONGEST }).then(
      () => this.#forget(session),
      () => this.#forget(session),
    );
    this.#awaited.set(session, heard);
    return heard;
  }

  #forget(session: UpstreamSession): void {
    this.#awaited.delete(session);
  }
}
