/**
 * Lets through, of what a call says of one kind in one turn of the event loop, only the last. A tool that reports
 * every row of a million would otherwise push everything else out of the feed.
 */
export class LatestOnly {
  readonly #waiting = new Map<string, Map<string, () => void>>();
  #scheduled = false;

  set(callId: string, kind: string, tell: () => void): void {
    let kinds = this.#waiting.get(callId);
    if (kinds === undefined) {
      kinds = new Map();
      this.#waiting.set(callId, kinds);
    }
    kinds.set(kind, tell);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      for (const id of [...this.#waiting.keys()]) this.flush(id);
    });
  }

  /** What a call has still to say, now. */
  flush(callId: string): void {
    const kinds = this.#waiting.get(callId);
    if (kinds === undefined) return;
    this.#waiting.delete(callId);
    for (const tell of kinds.values()) tell();
  }
}
