import { AsyncLocalStorage } from "node:async_hooks";
import type { WorkerCall, WorkerHost } from "../../sandbox.ts";
import type { LogLine } from "../messages.ts";

/** Which call the code that runs belongs to: a worker may have several, and they share one tool. */
export class CurrentCall {
  readonly #calls = new AsyncLocalStorage<WorkerCall>();
  #host: WorkerHost | undefined;

  /** For what happens outside a call, such as in `init`. */
  set host(host: WorkerHost) {
    this.#host = host;
  }

  run<Result>(call: WorkerCall, work: () => Result): Result {
    return this.#calls.run(call, work);
  }

  get(): WorkerCall | undefined {
    return this.#calls.getStore();
  }

  /** Throws outside a call, when nobody is there to answer. */
  request(method: string, params: unknown, what: string): Promise<unknown> {
    const call = this.get();
    if (call === undefined) return Promise.reject(new Error(`${what} is only possible during execute().`));
    return call.request(method, params);
  }

  notify(method: string, params: unknown): void {
    (this.get() ?? this.#host)?.notify(method, params);
  }

  log(line: LogLine): void {
    this.notify("log", line);
  }
}
