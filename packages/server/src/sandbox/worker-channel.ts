import type { Socket } from "node:net";
import { tooMuchJson } from "@toolrack/core/internal";
import { isRecord, LineSplitter, reasonOf } from "../helpers/index.ts";
import { readThrown, type ThrownData } from "./remote-error.ts";

/** The host's end of the pipe between the host and a worker. Every message is one JSON line. */
export class WorkerChannel {
  readonly #socket: Socket;
  readonly #lines: LineSplitter;
  #outgoing = "";

  /** `onInvalid` is called for a line that is no valid message. Later lines cannot be relied on either. */
  constructor(
    socket: Socket,
    longest: number,
    events: {
      onMessage(message: WorkerMessage, bytes: number): void;
      onInvalid(why: string): void;
      onTooLong(): void;
    },
  ) {
    const onLine = (line: string, bytes: number) => {
      let message: WorkerMessage;
      try {
        message = readWorkerMessage(line);
      } catch (error) {
        return void events.onInvalid(reasonOf(error));
      }
      events.onMessage(message, bytes);
    };
    const lines = new LineSplitter(longest, { onLine, onTooLong: events.onTooLong });
    this.#socket = socket;
    this.#lines = lines;
    // A message is reported as soon as it is too long: its end may never come.
    socket.on("data", (chunk: Buffer) => {
      if (lines.isTooLong) return;
      lines.push(chunk);
      if (lines.isTooLong) events.onTooLong();
    });
    // Errors of the pipe are ignored: the host notices by the end of the process that a worker is gone.
    socket.on("error", () => {});
  }

  /** The limit for one message, in bytes. */
  set longest(bytes: number) {
    this.#lines.longest = bytes;
  }

  /** Throws when the message is not JSON. Messages of one turn of the event loop are sent in one write. */
  send(message: HostMessage): void {
    const line = `${JSON.stringify(message)}\n`;
    if (this.#outgoing === "") queueMicrotask(this.#flush);
    this.#outgoing += line;
  }

  readonly #flush = (): void => {
    const text = this.#outgoing;
    this.#outgoing = "";
    if (this.#socket.writable) this.#socket.write(text);
  };
}

/** One JSON line from the host to a worker. */
export type HostMessage =
  | {
      readonly type: "load";
      readonly code: string;
      /** The path under which the code is evaluated: `require` resolves from it, and stack traces show it. */
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
  /** The code was evaluated and `init` is over, or one of the two failed with `error`. */
  | { readonly type: "loaded"; readonly error?: ThrownData }
  | { readonly type: "result"; readonly id: number; readonly result?: unknown; readonly error?: ThrownData }
  /** The worker's event loop is alive and the call's signal has been aborted. */
  | { readonly type: "aborted"; readonly id: number }
  /** `id` is the worker's number for the request, `call` the id of the call that makes it. */
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
  // A key may be written with escapes such as \u005f, so a line with any of them is parsed the slow, safe
  // way.
  const isSuspicious = line.includes("__proto__") || line.includes('"constructor"') || line.includes("\\u");
  const value: unknown = isSuspicious ? JSON.parse(line, withoutPrototypes) : JSON.parse(line);
  if (!isRecord(value)) throw new Error("the line is not an object");
  const { type, error } = value;
  const checked = typeof type === "string" ? checkedMembers.get(type) : undefined;
  if (checked === undefined) throw new Error("the line has no known type");
  for (const member of checked) {
    if (member === "method" && typeof value.method !== "string") throw new Error("a method is not a text");
    if (member !== "method" && !Number.isSafeInteger(value[member]))
      throw new Error("an id is not a whole number");
  }
  if (error !== undefined) value.error = readThrown(error);
  return value as WorkerMessage; // Its members were checked above. It may have others, which nobody reads.
}

/** The members that a message of each type must have: a text as `method`, whole numbers as the others. */
const checkedMembers: ReadonlyMap<string, readonly string[]> = new Map([
  ["ready", []],
  ["loaded", []],
  ["result", ["id"]],
  ["aborted", ["id"]],
  ["request", ["id", "call", "method"]],
  ["notify", ["call", "method"]],
] satisfies [WorkerMessage["type"], string[]][]);

function withoutPrototypes(this: unknown, key: string, value: unknown): unknown {
  if (key === "__proto__") return undefined;
  if (key === "constructor" && isRecord(value) && Object.hasOwn(value, "prototype")) return undefined;
  return value;
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
