import type { ProgressUpdate } from "@toolrack/core";

/** A notification to a client that waits for an answer. */
export type Notice =
  | { readonly kind: "progress"; readonly update: ProgressUpdate }
  | { readonly kind: "message"; readonly method: string; readonly params: object };

/** How many notices may wait. A client that is slower than the tool misses the rest. */
const MOST = 100;
/** How long the waiting notices may be together, in characters. A single notice may be longer. */
const LONGEST = 256 * 1024;

/** Notices that wait to be sent. Of too many, the latest progress and the first messages are kept. */
export class NoticeQueue {
  #notices: Notice[] = [];
  #length = 0;
  #dropped = 0;

  get isEmpty(): boolean {
    return this.#notices.length === 0;
  }

  add(notice: Notice): void {
    const length = lengthOf(notice);
    const count = this.#notices.length;
    const isFull = count >= MOST || (count > 0 && this.#length + length > LONGEST);
    if (isFull && notice.kind === "message") {
      this.#dropped++;
      return;
    }
    // Older progress is out of date, so it is removed to make room.
    if (isFull) this.#keepMessages();
    this.#notices.push(notice);
    this.#length += length;
  }

  /** Removes and returns all notices. */
  take(): readonly Notice[] {
    const notices = this.#notices;
    const dropped = this.#dropped;
    this.#notices = [];
    this.#length = 0;
    this.#dropped = 0;
    if (dropped === 0) return notices;
    const data = `${dropped} messages were left out: they came faster than they could be told.`;
    const params = { level: "warning", logger: "toolrack", data };
    return [...notices, { kind: "message", method: "notifications/message", params }];
  }

  #keepMessages(): void {
    this.#notices = this.#notices.filter(({ kind }) => kind === "message");
    this.#length = this.#notices.reduce((sum, notice) => sum + lengthOf(notice), 0);
  }
}

/** About as many characters as the client will receive. */
function lengthOf(notice: Notice): number {
  if (notice.kind === "progress") return notice.update.message?.length ?? 0;
  const data = "data" in notice.params ? notice.params.data : notice.params;
  if (typeof data === "string") return data.length;
  try {
    return JSON.stringify(data).length;
  } catch {
    // Data that cannot be encoded fails again when it is written, and is reported there.
    return 0;
  }
}
