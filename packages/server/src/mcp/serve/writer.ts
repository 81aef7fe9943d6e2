import type { Writable } from "node:stream";

/**
 * Says whether a client keeps up with reading what is written to it. Senders of messages that can wait or be
 * left out ask first, because everything that a slow client has not read must be kept in memory.
 */
export class WriteFlow {
  readonly #isFull: () => boolean;
  /** Functions to call when the client may have read enough for more to be written. */
  readonly waiting = new Set<() => void>();
  #lastInLine: Promise<void> | undefined;

  constructor(isFull: () => boolean) {
    this.#isFull = isFull;
  }

  /** Whether so much is unread that messages which can wait should wait. */
  get isFull(): boolean {
    return this.#isFull();
  }

  /** Calls `act` once, when the client may have read enough or has gone. Returns a function that stops it. */
  whenFreed(act: () => void): () => void {
    this.waiting.add(act);
    return () => this.waiting.delete(act);
  }

  /** To be called when the client has read what was written, or has gone. */
  freed(): void {
    const waiting = [...this.waiting];
    this.waiting.clear();
    for (const act of waiting) act();
  }

  /** Resolves when the flow is not full, for one waiting caller after another. Undefined: it is not full. */
  waitForRoom(): Promise<void> | undefined {
    if (this.#lastInLine === undefined && !this.isFull) return undefined;
    const room = (this.#lastInLine ?? Promise.resolve()).then(async () => {
      while (this.isFull) await new Promise<void>((resolve) => void this.whenFreed(resolve));
      if (this.#lastInLine === room) this.#lastInLine = undefined;
    });
    this.#lastInLine = room;
    return room;
  }
}

export interface WriterOptions {
  /** The text before and after each message. */
  readonly frame: readonly [before: string, after: string];
  /**
   * How much a client may leave unread, not counting the message that is written next; in bytes or
   * characters, as the stream counts.
   */
  readonly most: number;
  /** Called once, when the client has left more than `most` unread. Nothing more is written to it. */
  overflowed(unread: number): void;
}

/** The flow counts as full when more characters than this wait to be written to the stream. */
const MOST_GATHERED = 64 * 1024;

/**
 * Writes messages to a stream. All messages of one callback of the event loop, and of the promises that it settles, are
 * written together: the answers to all calls whose records became safe at once. Waiting for the end of the turn took a
 * tenth more CPU for a call over stdio that comes alone.
 */
export class MessageWriter {
  readonly flow = new WriteFlow(
    () => this.#output.writableNeedDrain || this.#unwritten.length > MOST_GATHERED,
  );
  readonly #output: Writable;
  readonly #options: WriterOptions;
  #unwritten = "";
  /** Notifications of changes that wait until the client reads again. */
  readonly #waitingNotices = new Set<string>();
  #isOverflowed = false;

  constructor(output: Writable, options: WriterOptions) {
    this.#output = output;
    this.#options = options;
    output.on("drain", () => this.#freed());
    output.on("close", () => this.flow.freed());
  }

  get unread(): number {
    return this.#output.writableLength + this.#unwritten.length;
  }

  /**
   * Sends a message. While the client does not read, a notification of a change is kept until it reads again;
   * of equal notifications one is kept.
   */
  send(message: object): void {
    const text = JSON.stringify(message);
    if (!isChangeNotice(message) || !this.flow.isFull) {
      this.write(text);
      return;
    }
    // Moved to the end, so that the notifications are sent in the order of the latest changes.
    this.#waitingNotices.delete(text);
    this.#waitingNotices.add(text);
  }

  /** Writes a message that is JSON already, and never delays it. */
  write(text: string): void {
    if (this.#isOverflowed) return;
    if (this.#unwritten === "") process.nextTick(this.flush);
    const [before, after] = this.#options.frame;
    this.#unwritten += before + text + after;
  }

  /** Writes the gathered messages to the stream now. */
  readonly flush = (): void => {
    if (this.#unwritten === "") return;
    const text = this.#unwritten;
    const { writableLength, writableEnded, destroyed } = this.#output;
    this.#unwritten = "";
    if (writableLength > this.#options.most) {
      this.#isOverflowed = true;
      this.#waitingNotices.clear();
      this.#options.overflowed(writableLength);
    } else if (!writableEnded && !destroyed && this.#output.write(text)) {
      if (this.flow.waiting.size > 0 || this.#waitingNotices.size > 0) this.#freed();
    }
  };

  #freed(): void {
    for (const text of this.#waitingNotices) this.write(text);
    this.#waitingNotices.clear();
    this.flow.freed();
  }
}

/** Whether a message only says that something has changed. Sending such a notification twice tells the client nothing new. */
function isChangeNotice(message: object): boolean {
  if ("id" in message || !("method" in message) || typeof message.method !== "string") return false;
  return message.method.endsWith("/list_changed") || message.method === "notifications/resources/updated";
}
