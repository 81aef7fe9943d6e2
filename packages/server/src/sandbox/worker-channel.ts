import type { Socket } from "node:net";
import { tooMuchJson } from "@toolrack/core";
import { LineSplitter } from "../helpers/index.ts";
import { type LogNotification, SandboxError } from "./sandbox.ts";

interface ChannelEvents {
  onMessage(message: WorkerMessage, bytes: number): void;
  /** The worker sent what is no message. Nothing that comes after it is of use. */
  onNonsense(why: string): void;
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
    // A worker that has gone is noticed by the end of its process.
    socket.on("error", () => {});
  }

  /** Of one message, in bytes. */
  set longest(bytes: number) {
    this.#lines.longest = bytes;
  }

  /** Throws when the message is not JSON. Everything sent in one turn leaves in one write. */
  send(message: HostMessage): void {
    const line = `${JSON.stringify(message)}\n`;
    if (this.#outgoing === "") queueMicrotask(() => this.#flush());
    this.#outgoing += line;
  }

  /** Nobody waits for the end of a message that is too long, which may never come. */
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
    events.onNonsense(error instanceof Error ? error.message : String(error));
    return;
  }
  events.onMessage(message, bytes);
}

/** An error as it travels between a worker and its host. */
export interface ThrownData {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  readonly data?: unknown;
  readonly stack?: string;
}

/** One JSON line from the host to a worker. */
export type HostMessage =
  | {
      readonly type: "load";
      readonly code: string;
      /** Where the code is said to be: decides what `require` finds, and what stack traces show. */
      readonly path: string;
      /** A sentence on what the network is to this worker, for the error of a `fetch` that was refused. */
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
  /** `id` is the worker's own number of the request, `call` the call that asks. */
  | {
      readonly type: "request";
      readonly id: number;
      readonly call: number;
      readonly method: string;
      readonly params: unknown;
    }
  /** `call` 0 means: outside any call. */
  | { readonly type: "notify"; readonly call: number; readonly method: string; readonly params: unknown };

/** Deeper data would overflow the stack of whoever walks it later. */
const deepest = 200;
/** A tool may answer with many rows; beyond this, reading the answer would keep others waiting. */
const mostKeys = 1_000_000;

/**
 * Reads a line that unreviewed code may have written. Throws when it is not a message. What comes out is plain data
 * that no merge can turn into a changed prototype: `__proto__` and `constructor.prototype` are left out.
 */
export function readWorkerMessage(line: string): WorkerMessage {
  if (line.length > 2 * deepest && isTooDeep(line))
    throw new Error(`the data is nested more than ${deepest} levels deep`);
  const excess = tooMuchJson(line, mostKeys);
  if (excess !== undefined) throw new Error(`the data has ${excess}`);
  // Keys can be spelled with escapes, so any escape of a character calls for the careful way.
  const isSuspicious = line.includes("__proto__") || line.includes('"constructor"') || line.includes("\\u");
  const value: unknown = isSuspicious ? JSON.parse(line, withoutPrototypes) : JSON.parse(line);
  if (!isObject(value)) throw new Error("the line is not an object");
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
  if (key === "constructor" && isObject(value) && Object.hasOwn(value, "prototype")) return undefined;
  return value;
}

function readError(value: unknown): { error?: ThrownData } {
  if (value === undefined) return {};
  const thrown = isObject(value) ? value : {};
  const { code, stack } = thrown;
  return {
    error: {
      name: typeof thrown.name === "string" ? thrown.name : "Error",
      message: typeof thrown.message === "string" ? thrown.message : "An error without a message.",
      ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
      ...(thrown.data === undefined ? {} : { data: thrown.data }),
      ...(typeof stack === "string" ? { stack } : {}),
    },
  };
}

function readId(value: unknown): number {
  if (Number.isSafeInteger(value)) return Number(value);
  throw new Error("an id is not a whole number");
}

function readText(value: unknown): string {
  if (typeof value === "string") return value;
  throw new Error("a method is not a text");
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
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
      if (++depth > deepest) return true;
    } else if (character === 93 || character === 125) depth--;
  }
  return false;
}

const memoryWords = /heap out of memory|out of memory|bad_alloc|allocation failed|Cannot allocate memory/i;

/** Why a process ended that nobody told to: an error for the calls it had. */
export function describeEnd(
  label: string,
  exitCode: number | null,
  signal: string | null,
  stderr: string,
): SandboxError {
  const tail = stderr.trim().slice(-2_000);
  const data = { exitCode, signal, stderr: tail };
  if (memoryWords.test(stderr))
    return new SandboxError("sandbox_limit", `${label} was ended: it ran out of the memory it may use.`, {
      ...data,
      limit: "memory",
    });
  const how = signal === null ? `code ${exitCode}` : signal;
  const output = tail === "" ? "It wrote nothing to stderr." : `The end of its stderr:\n${tail}`;
  return new SandboxError(
    "sandbox_crashed",
    `${label} ended in the middle of its work (${how}). ${output}`,
    data,
  );
}

/** For the calls that a worker still had when it was ended for the sake of one that would not stop. */
export function stoppedForAnother(label: string): SandboxError {
  return new SandboxError(
    "sandbox_ended",
    `${label} was ended in the middle of this call, because another call in the same worker could not be stopped otherwise.`,
  );
}

/**
 * What the host threw, for the worker that asked. No stack: it is none of the worker's business. Data that is not JSON
 * is left out, so that the rest arrives.
 */
export function describeThrown(error: unknown): ThrownData {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  // Many errors have a code and data, and no type says so.
  const { name, message, code, data } = error as Error & { code?: unknown; data?: unknown };
  return {
    name: String(name),
    message: String(message),
    ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
    ...(isJson(data) ? { data } : {}),
  };
}

function isJson(data: unknown): boolean {
  try {
    return JSON.stringify(data) !== undefined;
  } catch {
    return false;
  }
}

const levels = ["debug", "info", "warn", "error"] as const;

/** The params of a `log` notification, whatever the worker put into them. */
export function readLog(params: unknown): LogNotification {
  const { level, text } = (params ?? {}) as Record<string, unknown>;
  return { level: levels.find((name) => name === level) ?? "info", text: String(text) };
}
