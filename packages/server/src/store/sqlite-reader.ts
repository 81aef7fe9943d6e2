import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { ReadAnswer, ReadRequest } from "./sqlite-reader-thread.ts";

interface Waiting extends ReadRequest {
  readonly signal: AbortSignal | undefined;
  readonly answer: PromiseWithResolvers<unknown[]>;
}

/**
 * Runs queries that look at many rows on a thread and connection of their own, because SQLite blocks the thread that
 * asks. The thread gets one query at a time; the others wait here, so that one that nobody waits for any more is dropped.
 * The first query starts the thread, which ends after a minute without queries.
 */
export class SqliteReader {
  readonly #file: string;
  readonly #waiting: Waiting[] = [];
  #thread: Worker | undefined;
  #asked: Waiting | undefined;
  #idle: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(file: string) {
    this.#file = file;
  }

  /** Rejects with the reason of `signal` when that is aborted before the thread has begun with the query. */
  query(sql: string, parameters: readonly unknown[], signal?: AbortSignal): Promise<unknown[]> {
    const answer = Promise.withResolvers<unknown[]>();
    this.#waiting.push({ sql, parameters, signal, answer });
    this.#next();
    return answer.promise;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#idle);
    const thread = this.#thread;
    this.#ended(new Error("The store was closed."));
    await thread?.terminate();
  }

  #next(): void {
    while (this.#asked === undefined) {
      const next = this.#waiting.shift();
      if (next === undefined) {
        clearTimeout(this.#idle);
        this.#idle = setTimeout(() => this.#rest(), LONGEST_IDLE).unref();
        return;
      }
      if (this.#isClosed) next.answer.reject(new Error("The store was closed."));
      else if (next.signal?.aborted === true) next.answer.reject(next.signal.reason);
      else this.#ask(next);
    }
  }

  #ask(query: Waiting): void {
    clearTimeout(this.#idle);
    this.#asked = query;
    this.#thread ??= this.#start();
    const request: ReadRequest = { sql: query.sql, parameters: query.parameters };
    this.#thread.postMessage(request);
  }

  #start(): Worker {
    const thread = new Worker(PROGRAM, { workerData: this.#file, execArgv: [], env: {} });
    // A query must not keep the process alive.
    thread.unref();
    thread.on("message", (found: ReadAnswer) => {
      const { answer } = this.#asked!; // The thread answers only what it was asked.
      this.#asked = undefined;
      if ("rows" in found) answer.resolve(found.rows);
      else answer.reject(Object.assign(new Error(found.error), { errcode: found.errcode }));
      this.#next();
    });
    thread.on("error", (error) => this.#ended(error));
    thread.on("exit", () => {
      if (this.#thread === thread) this.#ended(new Error("The thread that reads the store ended."));
    });
    return thread;
  }

  /** The query that was asked fails; the next one starts a new thread. */
  #ended(reason: unknown): void {
    const asked = this.#asked;
    this.#thread = undefined;
    this.#asked = undefined;
    asked?.answer.reject(reason);
    this.#next();
  }

  #rest(): void {
    const thread = this.#thread;
    this.#thread = undefined;
    void thread?.terminate();
  }
}

const LONGEST_IDLE = 60_000;

/** The program of the thread, beside this file: `.ts` in the source tree, `.js` when built. */
const PROGRAM = fileURLToPath(import.meta.url).replace(/(\.\w+)$/, "-thread$1");
