import type { Readable, Writable } from "node:stream";
import { type JSONRPCMessage, parseJSONRPCMessage, type Transport } from "@modelcontextprotocol/server";

export interface StdioStreams {
  readonly input: Readable;
  readonly output: Writable;
}

/** May answer a message before the SDK sees it, or hand it on to the SDK later. Says whether it will. */
export type FrontHandler = (
  message: unknown,
  send: (line: string) => void,
  handOn: (message: unknown) => void,
) => boolean;

/** The longest line that is taken, in bytes. */
const LONGEST = 16 * 1024 * 1024;
const NEWLINE = 0x0a;

/** One message on each line. A line that is none is passed over, and never ends the connection. */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #streams: StdioStreams;
  readonly #front: FrontHandler;
  readonly #write = (line: string) => this.write(line);
  readonly #handOn = (message: unknown) => this.#deliver(message);
  readonly #flush = () => {
    const text = this.#unwritten;
    this.#unwritten = "";
    this.#streams.output.write(text);
  };
  #unwritten = "";
  #pending: Buffer[] = [];
  #size = 0;
  #isClosed = false;

  constructor(streams: StdioStreams, front: FrontHandler = () => false) {
    this.#streams = streams;
    this.#front = front;
  }

  async start(): Promise<void> {
    const { input, output } = this.#streams;
    input.on("data", (chunk: Buffer) => this.#take(chunk));
    input.on("end", () => void this.close());
    input.on("close", () => void this.close());
    input.on("error", (error) => this.onerror?.(error));
    // Whoever started us has gone.
    output.on("error", () => void this.close());
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.write(JSON.stringify(message));
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
    this.#streams.input.pause();
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
    if (!this.#front(message, this.#write, this.#handOn)) this.#deliver(message);
  }

  #deliver(message: unknown): void {
    try {
      this.onmessage?.(parseJSONRPCMessage(message));
    } catch (thrown) {
      this.onerror?.(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  }
}
