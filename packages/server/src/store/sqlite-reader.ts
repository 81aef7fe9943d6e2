import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { ReadAnswer, ReadRequest } from "./sqlite-reader-thread.ts";

interface Waiting {
  readonly resolve: (rows: unknown[]) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Runs queries that look at many rows on a thread and connection of their own, because SQLite blocks the thread that
 * asks. The first query starts the thread, which ends after a minute without queries.
 */
export class SqliteReader {
  readonly #file: string;
  readonly #waiting = new Map<number, Waiting>();
  #thread: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;
  #last = 0;

  constructor(file: string) {
    this.#file = file;
  }

  query(sql: string, parameters: readonly unknown[]): Promise<unknown[]> {
    clearTimeout(this.#idle);
    const thread = this.#thread ?? this.#start();
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      const request: ReadRequest = { id, sql, parameters };
      thread.postMessage(request);
    });
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#thread?.terminate();
    this.#end(new Error("The store was closed."));
  }

  #start(): Worker {
    const thread = new Worker(PROGRAM, { workerData: this.#file, execArgv: [], env: {} });
    // A query must not keep the process alive.
    thread.unref();
    thread.on("message", (answer: ReadAnswer) => this.#answer(answer));
    thread.on("error", (error) =>
      this.#lose(thread, error instanceof Error ? error : new Error(String(error))),
    );
    thread.on("exit", () => this.#lose(thread, new Error("The thread that reads the store ended.")));
    this.#thread = thread;
    return thread;
  }

  #answer(answer: ReadAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if ("rows" in answer) waiting?.resolve(answer.rows);
    else waiting?.reject(Object.assign(new Error(answer.error), { errcode: answer.errcode }));
    if (this.#waiting.size > 0) return;
    this.#idle = setTimeout(() => void this.#thread?.terminate(), LONGEST_IDLE);
    this.#idle.unref();
  }

  #lose(thread: Worker, error: Error): void {
    if (this.#thread === thread) this.#end(error);
  }

  #end(error: Error): void {
    this.#thread = undefined;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

const LONGEST_IDLE = 60_000;

/** Beside this file: TypeScript in the source tree, JavaScript when built. */
const PROGRAM = fileURLToPath(import.meta.url).replace(/(\.\w+)$/, "-thread$1");
