import type { Readable, Writable } from "node:stream";
import { type JSONRPCMessage, parseJSONRPCMessage, type Transport } from "@modelcontextprotocol/server";
import { IdTable } from "@toolrack/core";

export interface StdioStreams {
  readonly input: Readable;
  readonly output: Writable;
}

/** May answer a message before the SDK sees it, or hand it on to the SDK later. Says whether it will. */
export type FrontHandler = (
  message: object,
  answer: (id: string | number, line: string) => void,
  handOn: (message: unknown) => void,
) => boolean;

/** The longest line that is taken, in bytes. */
const LONGEST = 16 * 1024 * 1024;
const NEWLINE = 0x0a;
/** How long what is under way may take to be answered after the input has ended, in milliseconds. */
const PATIENCE = 30_000;

const CLOSED = "The client has closed its side, and can be asked nothing more.";

/**
 * One message on each line. A line that is none is passed over, and never ends the connection. When the input ends,
 * what it asked for is still answered: a file or another program may have been the one to ask.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #streams: StdioStreams;
  readonly #front: FrontHandler;
  readonly #answer = (id: string | number, line: string) => {
    this.write(line);
    this.#settle(id);
  };
  readonly #handOn = (message: unknown) => this.#deliver(message);
  readonly #flush = () => {
    if (this.#unwritten === "") return;
    const text = this.#unwritten;
    this.#unwritten = "";
    this.#streams.output.write(text);
  };
  #unwritten = "";
  #pending: Buffer[] = [];
  #size = 0;
  #isClosed = false;
  #isEnding = false;
  /** Requests of the client that wait for their answer, and ours that wait for the client's. */
  readonly #waiting = new IdTable<true, string | number>();
  readonly #asked = new Set<string | number>();
  #whenAnswered = () => {};

  constructor(streams: StdioStreams, front: FrontHandler = () => false) {
    this.#streams = streams;
    this.#front = front;
  }

  async start(): Promise<void> {
    const { input, output } = this.#streams;
    input.on("data", (chunk: Buffer) => this.#take(chunk));
    input.on("end", () => void this.#end());
    input.on("close", () => {
      if (!this.#isEnding) void this.close();
    });
    input.on("error", (error) => this.onerror?.(error));
    // Whoever started us has gone.
    output.on("error", () => void this.close());
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const isRequest = "method" in message && "id" in message;
    if (isRequest && this.#isEnding) throw new Error(CLOSED);
    this.write(JSON.stringify(message));
    if (isRequest) this.#asked.add(message.id);
    else if ("id" in message && isId(message.id)) this.#settle(message.id);
  }

  /** Lines that come in one turn of the loop are written in one go. */
  write(line: string): void {
    if (this.#isClosed) return;
    if (this.#unwritten === "") setImmediate(this.#flush);
    this.#unwritten += `${line}\n`;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#whenAnswered();
    this.#streams.input.pause();
    // What is written is handed to the system before whoever waits for the end may end the process.
    if (this.#unwritten !== "") this.#flush();
    this.onclose?.();
  }

  #take(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      const part = chunk.subarray(from, end);
      from = end + 1;
      if (this.#pending.length === 0) this.#read(part.toString("utf8"));
      else this.#read(this.#joined(part).toString("utf8"));
    }
    if (from < chunk.length) this.#keep(chunk.subarray(from));
  }

  #keep(part: Buffer): void {
    this.#size += part.length;
    if (this.#size <= LONGEST) this.#pending.push(part);
    else this.#pending = [];
  }

  #joined(part: Buffer): Buffer {
    const isWhole = this.#size + part.length <= LONGEST;
    const line = isWhole ? Buffer.concat([...this.#pending, part]) : Buffer.alloc(0);
    if (!isWhole)
      this.onerror?.(new Error(`A message is longer than ${LONGEST} bytes, the most that is taken.`));
    this.#pending = [];
    this.#size = 0;
    return line;
  }

  #read(line: string): void {
    if (line.trim() === "") return;
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      this.onerror?.(new Error("A line of the input is not JSON."));
      return;
    }
    if (typeof message !== "object" || message === null) {
      this.onerror?.(new Error("A line of the input is not a message."));
      return;
    }
    this.#note(message);
    try {
      if (!this.#front(message, this.#answer, this.#handOn)) this.#deliver(message);
    } catch (thrown) {
      this.onerror?.(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  }

  #note(message: { id?: unknown; method?: unknown; params?: unknown }): void {
    const { id, method, params } = message;
    if (method === "notifications/cancelled") {
      // What was cancelled is not answered.
      const { requestId } = (params ?? {}) as { requestId?: unknown };
      if (isId(requestId)) this.#settle(requestId);
    }
    if (!isId(id)) return;
    if (method === undefined) this.#asked.delete(id);
    // A subscription has no end of its own.
    else if (method !== "subscriptions/listen") this.#waiting.set(id, true);
  }

  #settle(id: string | number): void {
    this.#waiting.delete(id);
    if (this.#isEnding && this.#waiting.size === 0) this.#whenAnswered();
  }

  /** Answers what is under way, and closes. */
  async #end(): Promise<void> {
    if (this.#isClosed || this.#isEnding) return;
    this.#isEnding = true;
    if (this.#pending.length > 0) this.#read(this.#joined(Buffer.alloc(0)).toString("utf8"));
    // Nobody is left to answer what we have asked.
    for (const id of this.#asked) {
      this.#deliver({ jsonrpc: "2.0", id, error: { code: -32000, message: CLOSED } });
    }
    if (this.#waiting.size > 0) await this.#answered();
    await this.close();
  }

  #answered(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, PATIENCE);
      this.#whenAnswered = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #deliver(message: unknown): void {
    try {
      this.onmessage?.(parseJSONRPCMessage(message));
    } catch (thrown) {
      const { id } = (message ?? {}) as { id?: unknown };
      if (isId(id)) this.#settle(id);
      this.onerror?.(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  }
}

function isId(id: unknown): id is string | number {
  return typeof id === "string" || typeof id === "number";
}
