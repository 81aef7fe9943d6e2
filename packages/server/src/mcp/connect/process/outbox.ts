import type { Socket } from "node:net";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { MessageWriter } from "../../wire/index.ts";
import { commandFor, UpstreamError } from "../failures.ts";

/** A message that waits until what was sent before it has been read. */
interface Held {
  /** A request stays what it is until it leaves: its arguments are there anyway, and a text would be a copy of them. */
  readonly content: JSONRPCMessage | string;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

const done = Promise.resolve();

/** Of messages that nobody waits for, a server may leave so much unread. */
const MOST_UNREAD = 16 * 1024 * 1024;
/** A server that reads nothing for so long, in milliseconds, is not waited for. */
const LONGEST_STALL = 5_000;

/**
 * The way to a server's standard input, one message a line. Requests wait for a server that reads slowly as long as
 * their callers do; of everything else only so much waits.
 */
export class Outbox {
  readonly #input: Socket;
  readonly #writer: MessageWriter;
  readonly #server: string;
  /** Requests of which the server owes the answer. One that never comes costs others a moment, and nothing else. */
  #unanswered = 0;
  /** In the order in which they leave: requests by their ids, other messages by themselves. */
  readonly #held = new Map<unknown, Held>();
  /** Characters of the held messages that are no requests. */
  #heldLength = 0;

  /** `server` is its key, for messages. */
  constructor(input: Socket, server: string) {
    this.#input = input;
    this.#server = server;
    this.#writer = new MessageWriter(input, {
      frame: ["", "\n"],
      // Nothing is written while the server does not read, so no more than one message is ever beyond this.
      most: Number.POSITIVE_INFINITY,
      freed: () => this.#sendHeld(),
      overflowed() {},
    });
    // Only while messages are held. Every piece that is read begins the time anew.
    input.on("timeout", () => this.#refuseHeld());
  }

  /** Whether the server can be sent anything. */
  get isOpen(): boolean {
    return this.#input.writable;
  }

  /** Resolves when the message is on its way. */
  send(message: JSONRPCMessage): Promise<void> {
    if (this.#held.size > 0 || this.#writer.flow.isFull) return this.#hold(message);
    // Messages of one turn of the event loop leave in one go. Where the server has nothing to answer, none is waited for.
    if (this.#unanswered === 0) void done.then(this.flush);
    if (isRequest(message)) this.#unanswered++;
    this.#writer.write(JSON.stringify(message));
    return done;
  }

  /** To be told of every answer of the server. */
  answered(): void {
    if (this.#unanswered > 0) this.#unanswered--;
  }

  readonly flush = (): void => this.#writer.flush();

  /** What is held is never sent. */
  close(reason: Error): void {
    for (const { reject } of this.#held.values()) reject(reason);
    this.#held.clear();
    this.#input.setTimeout(0);
  }

  #hold(message: JSONRPCMessage): Promise<void> {
    if (this.#callBack(message)) return done;
    const isAwaited = isRequest(message);
    const content = isAwaited ? message : JSON.stringify(message);
    if (typeof content === "string") {
      if (this.#heldLength + content.length > MOST_UNREAD) {
        const text = `has not read ${MOST_UNREAD / 1024 / 1024} MB of what it was sent, so it is sent nothing more until it does`;
        return Promise.reject(this.#busy(text));
      }
      this.#heldLength += content.length;
    }
    if (this.#held.size === 0) this.#input.setTimeout(LONGEST_STALL);
    return new Promise((resolve, reject) => {
      this.#held.set(isAwaited ? message.id : message, { content, resolve, reject });
    });
  }

  /** A request that is cancelled before it has left never leaves, and neither does its cancellation. */
  #callBack(message: JSONRPCMessage): boolean {
    if (!("method" in message) || message.method !== "notifications/cancelled") return false;
    const id = message.params?.requestId;
    const held = this.#held.get(id);
    if (held === undefined) return false;
    this.#held.delete(id);
    if (this.#held.size === 0) this.#input.setTimeout(0);
    held.resolve();
    return true;
  }

  #sendHeld(): void {
    for (const [key, { content, resolve }] of this.#held) {
      if (this.#writer.flow.isFull) return;
      this.#held.delete(key);
      if (typeof content === "string") this.#heldLength -= content.length;
      else this.#unanswered++;
      this.#writer.write(typeof content === "string" ? content : JSON.stringify(content));
      resolve();
      if (this.#held.size === 0) this.#input.setTimeout(0);
    }
  }

  /** Messages that are no requests stay: they are not much, and the server may want them when it reads again. */
  #refuseHeld(): void {
    const text = `has read nothing of what it was sent for ${LONGEST_STALL / 1_000} s, so this was not sent to it`;
    for (const [key, { content, reject }] of this.#held) {
      if (typeof content === "string") continue;
      this.#held.delete(key);
      reject(this.#busy(text));
    }
    if (this.#held.size > 0) this.#input.setTimeout(LONGEST_STALL);
  }

  #busy(text: string): UpstreamError {
    const remedy = `If this lasts, restart it: ${commandFor("restart", this.#server)}`;
    return new UpstreamError("busy", `The MCP server "${this.#server}" ${text}. ${remedy}`);
  }
}

function isRequest(message: JSONRPCMessage): message is JSONRPCMessage & { readonly id: unknown } {
  return "method" in message && "id" in message;
}
