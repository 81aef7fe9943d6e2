import type { Readable, Writable } from "node:stream";
import {
  type JSONRPCMessage,
  ProtocolErrorCode,
  parseJSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { headOfLongMessage, isRecord } from "../../../helpers/index.ts";
import type { Outlet } from "../carry.ts";
import { isNews } from "../changes.ts";
import { idOf, isId, longestMessage, requestIdOf, reusedId, wantsAnswer } from "../messages.ts";

import { LineWriter, PacedLines, StdioBatches } from "./lines.ts";

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

/** How much a client may leave unread, in characters, before nothing more is taken of what it asks. */
const FULL = 4 * 1024 * 1024;
/** How many of its requests may wait for their answers while it does not read those that there are. */
const MOST_WAITING = 1_000;
/**
 * How long after the end of the input, or after the last answer since, an answer may take, in milliseconds. Clients kill
 * a server that has not ended after two seconds.
 */
const PATIENCE = 1_000;
/** How long calls that were given up may take to be answered. */
const LAST_WORDS = 250;

const CLOSED = "the client closed its side";

/**
 * One message on each line. A line that is none is refused, and never ends the connection. When the input ends, what it
 * asked for is still answered if that is quick: a file or another program may have been the one to ask.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** Calls that are under way take too long to be waited for. They are still answered, if they end at once. */
  ongiveup?: (reason: string) => void;
  /** The connection is about to be closed because its client does not read. */
  oncutoff?: (reason: string) => void;
  readonly #streams: StdioStreams;
  readonly #front: FrontHandler;
  readonly #answer = (id: string | number, line: string) => {
    if (!this.#batches.take(id, line)) this.write(line);
    this.#settle(id);
  };
  readonly #handOn = (message: unknown) => this.#deliver(message);
  readonly #reader: PacedLines;
  readonly #writer: LineWriter;
  #isClosed = false;
  /** Why nothing more is taken. */
  #ending: string | undefined;
  #drained: Promise<void> | undefined;
  /** Requests of the client that wait for their answer, and ours that wait for the client's. */
  readonly #waiting = new Map<string | number, true>();
  readonly #asked = new Set<string | number>();
  /** Subscriptions, which have no end of their own. */
  readonly #listening = new Set<string | number>();
  readonly #batches = new StdioBatches(
    (line) => this.write(line),
    (id) => this.#isUnderWay(id),
  );
  #whenSettled = () => {};

  constructor(streams: StdioStreams, front: FrontHandler = () => false) {
    this.#streams = streams;
    this.#front = front;
    this.#writer = new LineWriter(streams.output, {
      freed: () => this.#reader.goOn(),
      overflowed: (unread) => this.#cutOff(unread),
    });
    this.#reader = new PacedLines(streams.input, longestMessage, {
      onLine: (text) => this.#read(text),
      onGarbled: (text) => {
        const id = requestIdOf(parsed(text)) ?? null;
        // One that cannot be read itself is nobody's.
        const isReadable = !String(id).includes("\uFFFD");
        this.#turnAway(
          isReadable ? id : null,
          ProtocolErrorCode.ParseError,
          "A line of the input is not text in UTF-8.",
        );
      },
      onTooLong: (start, end) => {
        const text = `A message is longer than ${longestMessage} bytes, the most that is taken.`;
        const { id = null, method } = headOfLongMessage(start, end);
        const isRequest = method !== undefined;
        this.#turnAway(isRequest ? id : null, ProtocolErrorCode.InvalidRequest, text);
      },
      end: () => void this.#end(),
      close: () => {
        if (this.#ending === undefined) void this.close();
      },
      error: (error) => this.onerror?.(error),
      isFull: () => this.#isFull,
    });
  }

  /** What can wait is to wait for this: all that is said goes out here. */
  get outlet(): Outlet {
    return this.#writer.outlet;
  }

  async start(): Promise<void> {
    const { output } = this.#streams;
    this.#reader.start();
    // Whoever started us has gone.
    output.on("error", () => void this.close());
    output.on("close", () => void this.close());
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const isRequest = "method" in message && "id" in message;
    if (isRequest && this.#ending !== undefined) throw new Error(`Nothing can be asked: ${this.#ending}.`);
    const line = JSON.stringify(message);
    if (isNews(message) && !this.#isClosed) this.#writer.writeNews(line);
    else if (!isRequest && "id" in message && isId(message.id)) this.#answer(message.id, line);
    else this.write(line);
    if (isRequest) this.#asked.add(message.id);
  }

  write(line: string): void {
    if (!this.#isClosed) this.#writer.write(line);
  }

  /** Takes nothing more, and resolves when what is under way has been answered or given up. */
  drain(reason: string): Promise<void> {
    this.#drained ??= this.#drain(reason);
    return this.#drained;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#batches.end();
    this.#isClosed = true;
    this.#whenSettled();
    this.#reader.stop();
    // What is written is handed to the system before whoever waits for the end may end the process.
    this.#writer.flush();
    this.onclose?.();
    this.outlet.freed();
  }

  get #isFull(): boolean {
    if (this.#waiting.size >= MOST_WAITING && this.outlet.isFull) return true;
    return this.#writer.unread > FULL;
  }

  /** There is no use in keeping anything for it. */
  #cutOff(unread: number): void {
    this.oncutoff?.(`it left ${unread} characters unread`);
    void this.close();
    this.#streams.output.destroy();
  }

  #read(line: string): void {
    if (line.trim() === "") return;
    const message = parsed(line);
    if (message === undefined) {
      this.#turnAway(null, ProtocolErrorCode.ParseError, "A line of the input is not JSON.");
      return;
    }
    const batch = this.#batches.open(message);
    if (batch !== undefined) for (const one of batch) this.#take(one);
    else if (isRecord(message)) this.#take(message);
    else {
      const text = "A line of the input is not one JSON-RPC message.";
      this.#turnAway(null, ProtocolErrorCode.InvalidRequest, text);
    }
  }

  #take(message: object): void {
    if (!this.#note(message)) return;
    try {
      if (!this.#front(message, this.#answer, this.#handOn)) this.#deliver(message);
    } catch (thrown) {
      this.onerror?.(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  }

  /** Says whether the message may go on. */
  #note(message: { id?: unknown; method?: unknown; params?: unknown }): boolean {
    const { id, method, params } = message;
    if (method === "notifications/cancelled") {
      // What was cancelled is not answered.
      const { requestId } = (params ?? {}) as { requestId?: unknown };
      if (isId(requestId)) this.#settle(requestId);
    }
    if (method === "initialize") this.#batches.agreeOn(params);
    if (!isId(id)) return true;
    if (method === undefined) {
      this.#asked.delete(id);
      return true;
    }
    if (this.#isUnderWay(id)) {
      // The request that had it first is still to be answered.
      this.write(JSON.stringify({ jsonrpc: "2.0", error: reusedId(id), id }));
      return false;
    }
    if (method === "subscriptions/listen") this.#listening.add(id);
    else this.#waiting.set(id, true);
    return true;
  }

  #isUnderWay(id: string | number): boolean {
    return this.#waiting.get(id) === true || this.#listening.has(id);
  }

  #settle(id: string | number): void {
    this.#batches.giveUp(id);
    this.#waiting.delete(id);
    if (this.#listening.size > 0) this.#listening.delete(id);
    if (this.#ending !== undefined) this.#whenSettled();
  }

  async #end(): Promise<void> {
    if (this.#isClosed) return;
    await this.drain(CLOSED);
    await this.close();
  }

  async #drain(reason: string): Promise<void> {
    this.#ending = reason;
    this.#reader.stop();
    // Nobody is left to answer what we have asked.
    for (const id of this.#asked) {
      this.#deliver({ jsonrpc: "2.0", id, error: { code: -32000, message: `No answer: ${reason}.` } });
    }
    await this.#answered(PATIENCE);
    if (this.#isDone) return;
    this.ongiveup?.(reason);
    await this.#answered(LAST_WORDS);
  }

  get #isDone(): boolean {
    return this.#isClosed || this.#waiting.size === 0;
  }

  /** Resolves when all is answered, or when nothing has been for so long. */
  #answered(limit: number): Promise<void> | undefined {
    if (this.#isDone) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, limit);
      this.#whenSettled = () => {
        if (!this.#isDone) {
          timer.refresh();
          return;
        }
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #deliver(message: unknown): void {
    let read: JSONRPCMessage;
    try {
      read = parseJSONRPCMessage(message);
    } catch {
      const text = "A line of the input is not a valid JSON-RPC message.";
      if (wantsAnswer(message)) this.#refuse(idOf(message), ProtocolErrorCode.InvalidRequest, text);
      else this.onerror?.(new Error(text));
      return;
    }
    try {
      this.onmessage?.(read);
    } catch (thrown) {
      const id = idOf(message);
      if (id !== null) this.#settle(id);
      this.onerror?.(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  }

  #refuse(id: string | number | null, code: number, text: string): void {
    if (id === null) {
      this.#turnAway(id, code, text);
      return;
    }
    this.onerror?.(new Error(text));
    this.#answer(id, errorLine(id, code, text));
  }

  /** Refuses what was never taken: a request that has the same id, and is under way, is still to be answered. */
  #turnAway(id: string | number | null, code: number, text: string): void {
    this.onerror?.(new Error(text));
    this.write(errorLine(id, code, text));
  }
}

function errorLine(id: string | number | null, code: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", error: { code, message }, id });
}

/** Undefined for what is no JSON. */
function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
