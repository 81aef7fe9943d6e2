import type { Socket } from "node:net";
import { tooMuchJson } from "@toolrack/core/internal";
import { isRecord, LineSplitter, reasonOf } from "../helpers/index.ts";
import { readThrown, type ThrownData } from "./thrown.ts";

interface ChannelEvents {
  onMessage(message: WorkerMessage, bytes: number): void;
  /** The worker sent an invalid message. What follows is useless. */
  onInvalid(why: string): void;
  onTooLong(): void;
}

/** The messages between a worker and its host. */
export class WorkerChannel {
  readonly #socket: Socket;
  readonly #lines: LineSplitter;
  #outgoing = "";

  constructor(socket: Socket, longest: number, events: ChannelEvents) {
    this.#socket = socket;
    this.#lines = new LineSplitter(longest, {
      onLine: (line, bytes) => receive(line, bytes, events),
      onTooLong: events.onTooLong,
    });
    socket.on("data", (chunk: Buffer) => this.#read(chunk, events));
    // The end of the process tells when a worker is gone.
    socket.on("error", () => {});
  }

  /** The limit for one message, in bytes. */
  set longest(bytes: number) {
    this.#lines.longest = bytes;
  }

  /** Throws when the message is not JSON. All messages of one turn are sent in one write. */
  send(message: HostMessage): void {
    const line = `${JSON.stringify(message)}\n`;
    if (this.#outgoing === "") queueMicrotask(() => this.#flush());
    this.#outgoing += line;
  }

  /** Reports a message as soon as it is too long: its end may never come. */
  #read(chunk: Buffer, events: ChannelEvents): void {
    if (this.#lines.isTooLong) return;
    this.#lines.push(chunk);
    if (this.#lines.isTooLong) events.onTooLong();
  }

  #flush(): void {
    const text = this.#outgoing;
    this.#outgoing = "";
    if (this.#socket.writable) this.#socket.write(text);
  }
}

function receive(line: string, bytes: number, events: ChannelEvents): void {
  let message: WorkerMessage;
  try {
    message = readWorkerMessage(line);
  } catch (error) {
    events.onInvalid(reasonOf(error));
    return;
  }
  events.onMessage(message, bytes);
}

/** One JSON line from the host to a worker. */
export type HostMessage =
  | {
      readonly type: "load";
      readonly code: string;
      /** The path that the code believes to have: `require` resolves from it, and stack traces show it. */
      readonly path: string;
      /** Describes the worker's network access, for the error of a refused `fetch`. */
      readonly network: string;
      readonly settings: unknown;
      readonly outputBytes: number;
    }
  | { readonly type: "call"; readonly id: number; readonly method: string; readonly params: unknown }
  | { readonly type: "abort"; readonly id: number; readonly reason: string }
  | { readonly type: "answer"; readonly id: number; readonly result?: unknown; readonly error?: ThrownData }
  | { readonly type: "end" };

/** One JSON line from a worker to its host. Nothing in it can be trusted. */
export type WorkerMessage =
  /** The process is up and waits for code. */
  | { readonly type: "ready" }
  /** The code was evaluated and `init` is over. */
  | { readonly type: "loaded"; readonly error?: ThrownData }
  | { readonly type: "result"; readonly id: number; readonly result?: unknown; readonly error?: ThrownData }
  /** The worker's event loop is alive and the call's signal has been aborted. */
  | { readonly type: "aborted"; readonly id: number }
  /** `id` is the worker's number of the request, `call` the call that makes it. */
  | {
      readonly type: "request";
      readonly id: number;
      readonly call: number;
      readonly method: string;
      readonly params: unknown;
    }
  /** `call` is 0 outside any call. */
  | { readonly type: "notify"; readonly call: number; readonly method: string; readonly params: unknown };

/** Deeper data would overflow the stack of recursive functions. */
const mostLevels = 200;
/** Reading a message with more keys would block the process too long. */
const mostKeys = 1_000_000;

/**
 * Parses a line that unreviewed code may have written. Throws when it is not a message. Leaves out `__proto__` and
 * `constructor.prototype`, so that merging the data cannot change a prototype.
 */
export function readWorkerMessage(line: string): WorkerMessage {
  if (line.length > 2 * mostLevels && isTooDeep(line))
    throw new Error(`the data is nested more than ${mostLevels} levels deep`);
  const excess = tooMuchJson(line, mostKeys);
  if (excess !== undefined) throw new Error(`the data has ${excess}`);
  // Keys may be written with escapes, so any escape needs the careful way.
  const isSuspicious = line.includes("__proto__") || line.includes('"constructor"') || line.includes("\\u");
  const value: unknown = isSuspicious ? JSON.parse(line, withoutPrototypes) : JSON.parse(line);
  if (!isRecord(value)) throw new Error("the line is not an object");
  switch (value.type) {
    case "ready":
      return { type: "ready" };
    case "loaded":
      return { type: "loaded", ...readError(value.error) };
    case "result":
      return { type: "result", id: readId(value.id), result: value.result, ...readError(value.error) };
    case "aborted":
      return { type: "aborted", id: readId(value.id) };
    case "request": {
      const { id, call, method, params } = value;
      return { type: "request", id: readId(id), call: readId(call), method: readText(method), params };
    }
    case "notify":
      return {
        type: "notify",
        call: readId(value.call),
        method: readText(value.method),
        params: value.params,
      };
    default:
      throw new Error("the line has no known type");
  }
}

function withoutPrototypes(this: unknown, key: string, value: unknown): unknown {
  if (key === "__proto__") return undefined;
  if (key === "constructor" && isRecord(value) && Object.hasOwn(value, "prototype")) return undefined;
  return value;
}

function readError(value: unknown): { error?: ThrownData } {
  return value === undefined ? {} : { error: readThrown(value) };
}

function readId(value: unknown): number {
  if (Number.isSafeInteger(value)) return Number(value);
  throw new Error("an id is not a whole number");
}

function readText(value: unknown): string {
  if (typeof value === "string") return value;
  throw new Error("a method is not a text");
}

function isTooDeep(line: string): boolean {
  let depth = 0;
  let isInText = false;
  for (let index = 0; index < line.length; index++) {
    const character = line.charCodeAt(index);
    if (isInText) {
      if (character === 92) index++;
      else if (character === 34) isInText = false;
    } else if (character === 34) isInText = true;
    else if (character === 91 || character === 123) {
      if (++depth > mostLevels) return true;
    } else if (character === 93 || character === 125) depth--;
  }
  return false;
}
