import { fileURLToPath } from "node:url";
import { MessageChannel, Worker } from "node:worker_threads";
import type { ReadAnswer, ReadRequest } from "./sqlite-reader-thread.ts";

/**
 * Runs queries that look at many rows on a thread and connection of their own, because SQLite blocks the thread that
 * asks. The first query starts the thread, which ends after a minute without queries.
 */
export class SqliteReader {
  readonly #file: string;
  #thread: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;
  #failure: Error | undefined;
  #underWay = 0;

  constructor(file: string) {
    this.#file = file;
  }

  async query(sql: string, parameters: readonly unknown[]): Promise<unknown[]> {
    clearTimeout(this.#idle);
    this.#thread ??= this.#start();
    this.#underWay++;
    const { port1, port2 } = new MessageChannel();
    const { promise, resolve } = Promise.withResolvers<ReadAnswer | undefined>();
    port1.on("message", resolve);
    // The port closes when the thread ends.
    port1.on("close", () => resolve(undefined));
    // A query must not keep the process alive.
    port1.unref();
    const request: ReadRequest = { sql, parameters, port: port2 };
    this.#thread.postMessage(request, [port2]);
    const answer = await promise;
    port1.close();
    this.#underWay--;
    if (this.#underWay === 0) this.#idle = setTimeout(() => this.#stop(), LONGEST_IDLE).unref();
    if (answer === undefined) throw this.#failure ?? new Error("The thread that reads the store ended.");
    if ("rows" in answer) return answer.rows;
    throw Object.assign(new Error(answer.error), { errcode: answer.errcode });
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    this.#failure = new Error("The store was closed.");
    await this.#stop();
  }

  #start(): Worker {
    const thread = new Worker(PROGRAM, { workerData: this.#file, execArgv: [], env: {} });
    thread.unref();
    thread.on("error", (error) => {
      this.#failure = error instanceof Error ? error : new Error(String(error));
    });
    thread.on("exit", () => {
      if (this.#thread === thread) this.#thread = undefined;
    });
    return thread;
  }

  async #stop(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.terminate();
  }
}

const LONGEST_IDLE = 60_000;

/** The program of the thread, beside this file: `.ts` in the source tree, `.js` when built. */
const PROGRAM = fileURLToPath(import.meta.url).replace(/(\.\w+)$/, "-thread$1");
