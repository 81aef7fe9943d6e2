import type { Socket } from "node:net";
import { asRecord } from "../../../helpers/index.ts";
import { commandFor, UpstreamError } from "../failures.ts";
import type { Message } from "../protocol/messages.ts";

/** A message that waits until the server has read the earlier ones. */
interface WaitingMessage {
  /** A request stays an object until it is sent, because its text would be a second copy of its arguments in memory. */
  readonly content: Message | string;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

const done = Promise.resolve();

/** How many characters of messages other than requests may wait for a server that does not read. */
const MOST_UNREAD = 16 * 1024 * 1024;
/** How many characters are written together. Further messages wait until these have been read. */
const FULL = 64 * 1024;
/** How long a server may read nothing before waiting requests fail, in milliseconds. */
const LONGEST_STALL = 5_000;

/**
 * Writes messages to a server's standard input, one per line. While the server reads slowly, messages wait.
 * Requests fail when the server has read nothing for `LONGEST_STALL`; other messages wait without a time limit,
 * up to `MOST_UNREAD` characters.
 */
export class StdinWriter {
  readonly #input: Socket;
  readonly #server: string;
  /** Lines that are written at the end of this turn of the event loop. */
  #outgoing = "";
  /** The number of unanswered requests. A missing answer only delays later requests by one turn of the event loop. */
  #unanswered = 0;
  /**
   * The waiting messages in the order of sending. The key of a request is its id; the key of any other message
   * is the message itself.
   */
  readonly #waiting = new Map<unknown, WaitingMessage>();
  /** How many characters the waiting messages have together, without the requests. */
  #waitingLength = 0;

  /** `server`: the key of the server, for error messages. */
  constructor(input: Socket, server: string) {
    this.#input = input;
    this.#server = server;
    input.on("drain", this.flush);
    // The timeout is set only while messages wait. It starts again whenever the server reads something.
    input.on("timeout", () => this.#refuseRequests());
  }

  get isOpen(): boolean {
    return this.#input.writable;
  }

  /**
   * Sends a message. All messages of one turn of the event loop are written together, because each write costs
   * a system call here and one in the server. If the server has no request to answer, they are written without
   * waiting for the end of the turn. Resolves when the message is among the lines to be written next.
   */
  send(message: Message): Promise<void> {
    if (this.#waiting.size > 0 || this.#input.writableNeedDrain || this.#outgoing.length >= FULL)
      return this.#wait(message);
    if (this.#outgoing === "") {
      if (this.#unanswered === 0) void done.then(this.flush);
      else setImmediate(this.flush);
    }
    this.#gather(message);
    return done;
  }

  /** To be called for every answer of the server. */
  answered(): void {
    if (this.#unanswered > 0) this.#unanswered--;
  }

  readonly flush = (): void => {
    for (;;) {
      const lines = this.#outgoing;
      this.#outgoing = "";
      if (lines !== "") this.#input.write(lines);
      // The write may have closed the stream. Waiting messages then fail in `close`.
      if (this.#waiting.size === 0 || this.#input.writableNeedDrain || !this.#input.writable) return;
      this.#gatherWaiting();
    }
  };

  /** Rejects all waiting messages. */
  close(reason: Error): void {
    for (const { reject } of this.#waiting.values()) reject(reason);
    this.#waiting.clear();
    this.#input.setTimeout(0);
  }

  #gather(content: Message | string): void {
    if (typeof content === "object" && isRequest(content)) this.#unanswered++;
    this.#outgoing += typeof content === "string" ? content : lineOf(content);
  }

  #gatherWaiting(): void {
    for (const [key, { content, resolve }] of this.#waiting) {
      if (this.#outgoing.length >= FULL) return;
      this.#waiting.delete(key);
      if (typeof content === "string") this.#waitingLength -= content.length;
      this.#gather(content);
      resolve();
    }
    this.#input.setTimeout(0);
  }

  #wait(message: Message): Promise<void> {
    if (this.#dropCancelled(message)) return done;
    const isAwaited = isRequest(message);
    const content = isAwaited ? message : lineOf(message);
    if (typeof content === "string" && this.#waitingLength + content.length > MOST_UNREAD) {
      const text = `has not read ${MOST_UNREAD / 1024 / 1024} MB of what it was sent, so it is sent nothing more until it does`;
      return Promise.reject(this.#busy(text));
    }
    if (typeof content === "string") this.#waitingLength += content.length;
    if (this.#waiting.size === 0) this.#input.setTimeout(LONGEST_STALL);
    return new Promise((resolve, reject) => {
      this.#waiting.set(isAwaited ? message.id : message, { content, resolve, reject });
    });
  }

  /** If the message cancels a waiting request, neither of them is sent. */
  #dropCancelled({ method, params }: Message): boolean {
    const { requestId } = asRecord(params);
    const cancelled = method === "notifications/cancelled" ? this.#waiting.get(requestId) : undefined;
    if (cancelled === undefined) return false;
    this.#waiting.delete(requestId);
    if (this.#waiting.size === 0) this.#input.setTimeout(0);
    cancelled.resolve();
    return true;
  }

  /** Rejects waiting requests. Other messages stay: they are small, and the server may still need them. */
  #refuseRequests(): void {
    const text = `has read nothing of what it was sent for ${LONGEST_STALL / 1_000} s, so this was not sent to it`;
    for (const [key, { content, reject }] of this.#waiting) {
      if (typeof content === "string") continue;
      this.#waiting.delete(key);
      reject(this.#busy(text));
    }
    if (this.#waiting.size > 0) this.#input.setTimeout(LONGEST_STALL);
  }

  #busy(text: string): UpstreamError {
    const remedy = `If this lasts, restart it: ${commandFor("restart", this.#server)}`;
    return new UpstreamError("busy", `The MCP server "${this.#server}" ${text}. ${remedy}`);
  }
}

function isRequest(message: Message): boolean {
  return "method" in message && "id" in message;
}

function lineOf(message: Message): string {
  return `${JSON.stringify(message)}\n`;
}
