import type { Readable, Writable } from "node:stream";
import { isRecord, LineSplitter, type LineTaker } from "../../../helpers/index.ts";
import { Outlet } from "../carry.ts";
import { batchTooLong, mostInBatch, requestIdOf, reusedId, siftBatch } from "../messages.ts";

interface WriteWatcher {
  /** The client has taken in what was written. */
  freed(): void;
  /** The client has left so much unread that nothing more is kept for it. Called once. */
  overflowed(unread: number): void;
}

/** How much is gathered in one turn of the loop before what can wait does, in characters. */
const SOME = 64 * 1024;
/** How much a client may leave unread, in characters, beside what is written next. */
const MOST_UNREAD = 64 * 1024 * 1024;

/** Writes lines. Those that come in one turn of the loop are written in one go. */
export class LineWriter {
  /** What can wait is to wait for this. */
  readonly outlet = new Outlet(() => this.#output.writableNeedDrain || this.#unwritten.length > SOME);
  readonly #output: Writable;
  readonly #watcher: WriteWatcher;
  readonly #flush = () => this.flush();
  #unwritten = "";
  /** News that wait for a client that does not read just now. */
  readonly #news = new Set<string>();
  #isOverflowed = false;

  constructor(output: Writable, watcher: WriteWatcher) {
    this.#output = output;
    this.#watcher = watcher;
    output.on("drain", () => this.#freed());
  }

  /** In characters. */
  get unread(): number {
    return this.#output.writableLength + this.#unwritten.length;
  }

  write(line: string): void {
    if (this.#isOverflowed) return;
    if (this.#unwritten === "") setImmediate(this.#flush);
    this.#unwritten += `${line}\n`;
  }

  /** Writes what says no more when it is said twice: a client that does not read just now is told it once. */
  writeNews(line: string): void {
    if (!this.outlet.isFull) {
      this.write(line);
      return;
    }
    // In the place of the last: what was answered in between may be older.
    this.#news.delete(line);
    this.#news.add(line);
  }

  /** Hands on what was gathered. */
  flush(): void {
    if (this.#unwritten === "") return;
    const text = this.#unwritten;
    const { writableLength } = this.#output;
    this.#unwritten = "";
    if (writableLength > MOST_UNREAD) {
      this.#isOverflowed = true;
      this.#news.clear();
      this.#watcher.overflowed(writableLength);
    } else if (this.#output.write(text)) this.#freed();
  }

  #freed(): void {
    for (const line of this.#news) this.write(line);
    this.#news.clear();
    this.outlet.freed();
    this.#watcher.freed();
  }
}

interface PacedTaker extends LineTaker {
  /** Nothing more comes, and every line has been taken. */
  end(): void;
  /** It was broken off before its end. */
  close(): void;
  error(error: Error): void;
  /** Whether no more is to be taken until `goOn` is called. */
  isFull(): boolean;
}

/** How many lines are taken before the event loop goes on: what comes of them shows only then. */
const SLICE = 64;

/**
 * The lines of a stream, taken no faster than what comes of them is taken away. What is not taken stays with whoever
 * writes it.
 */
export class PacedLines {
  readonly #input: Readable;
  readonly #taker: PacedTaker;
  readonly #lines: LineSplitter;
  /** What has come and is not taken yet. */
  #rest: Buffer | undefined;
  /** Lines since the event loop last went on. */
  #taken = 0;
  #isEnded = false;
  #isStopped = false;

  /** `longest` is that of a line, in bytes. */
  constructor(input: Readable, longest: number, taker: PacedTaker) {
    this.#input = input;
    this.#taker = taker;
    this.#lines = new LineSplitter(longest, taker);
  }

  start(): void {
    const { error, close } = this.#taker;
    this.#input.on("data", (chunk: Buffer) => this.#take(chunk));
    const ended = () => {
      this.#isEnded = true;
      this.#endIfTaken();
    };
    this.#input.on("end", ended);
    this.#input.on("close", () => {
      if (!this.#isEnded) close();
    });
    this.#input.on("error", error);
    // What came to its end before anybody listened does not say so again.
    if (this.#input.readableEnded) queueMicrotask(ended);
    else if (this.#input.closed) queueMicrotask(close);
  }

  /** To be called when it is not full any more. */
  goOn(): void {
    const rest = this.#rest;
    if (rest === undefined || this.#isStopped) return;
    this.#rest = undefined;
    this.#taken = 0;
    this.#take(rest);
    if (this.#rest !== undefined) return;
    this.#endIfTaken();
    if (!this.#isStopped) this.#input.resume();
  }

  /** Takes nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#rest = undefined;
    this.#input.pause();
  }

  #take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && !this.#isStopped; this.#taken++) {
      const isFull = this.#taker.isFull();
      if (isFull || this.#taken === SLICE) {
        this.#hold(chunk.subarray(at), isFull);
        return;
      }
      at = this.#lines.next(chunk, at);
    }
  }

  #hold(rest: Buffer, isFull: boolean): void {
    this.#rest = rest;
    this.#input.pause();
    if (!isFull) setImmediate(() => this.goOn());
  }

  #endIfTaken(): void {
    if (!this.#isEnded || this.#rest !== undefined || this.#isStopped) return;
    this.#lines.end();
    this.#taker.end();
  }
}

type Id = string | number;

interface Batch {
  readonly answers: string[];
  readonly waiting: Set<Id>;
}

/** The one version of the protocol that has batches; those before and after it have none. */
const BATCHED = "2025-03-26";
const INVALID = -32600;

/** Several messages in one line, whose answers go back in one line too. */
export class StdioBatches {
  readonly #write: (line: string) => void;
  readonly #isUnderWay: (id: Id) => boolean;
  readonly #batches = new Map<Id, Batch>();
  #areAgreedOn = false;

  constructor(write: (line: string) => void, isUnderWay: (id: Id) => boolean) {
    this.#write = write;
    this.#isUnderWay = isUnderWay;
  }

  /** To be given what a client initializes the connection with. */
  agreeOn(params: unknown): void {
    this.#areAgreedOn = isRecord(params) && params.protocolVersion === BATCHED;
  }

  /** The messages of a line that are to be taken one by one; undefined when it is no batch, or none may be sent. */
  open(line: unknown): readonly object[] | undefined {
    if (!this.#areAgreedOn || !Array.isArray(line) || line.length === 0) return undefined;
    if (line.length > mostInBatch) {
      this.#write(refusal(null, { code: INVALID, message: batchTooLong(line.length) }));
      return [];
    }
    const { messages, reused } = siftBatch(line, this.#isUnderWay);
    const objects = messages.filter(isRecord);
    const answers = [
      ...reused.map((id) => refusal(id, reusedId(id))),
      ...messages.filter((message) => !isRecord(message)).map(() => refusal(null, noMessage)),
    ];
    const ids = objects.flatMap((message) => requestIdOf(message) ?? []);
    const batch: Batch = { answers, waiting: new Set(ids) };
    for (const id of ids) this.#batches.set(id, batch);
    this.#writeIfWhole(batch);
    return objects;
  }

  /** Keeps the answer to a request of a batch until all are there. Says whether it is one. */
  take(id: Id, answer: string): boolean {
    const batch = this.#batches.get(id);
    if (batch === undefined) return false;
    batch.answers.push(answer);
    this.giveUp(id);
    return true;
  }

  /** Nobody waits for the answer to this request any more. */
  giveUp(id: Id): void {
    const batch = this.#batches.get(id);
    if (batch === undefined) return;
    this.#batches.delete(id);
    batch.waiting.delete(id);
    this.#writeIfWhole(batch);
  }

  /** No more answers come: those that are there are written. */
  end(): void {
    for (const id of [...this.#batches.keys()]) this.giveUp(id);
  }

  #writeIfWhole({ answers, waiting }: Batch): void {
    if (waiting.size === 0 && answers.length > 0) this.#write(`[${answers.join(",")}]`);
  }
}

const noMessage = { code: INVALID, message: "A member of the batch is not a JSON-RPC message." };

function refusal(id: Id | null, error: object): string {
  return JSON.stringify({ jsonrpc: "2.0", error, id });
}
