import type { Socket } from "node:net";
import { basename } from "node:path";
import { defaultLimits, type WorkerLimits } from "../config/index.ts";
import { asRecord, defined, reasonOf } from "../helpers/index.ts";
import type { Launched } from "./confinement/confinement.ts";
import { killTree, Usage, whenClosed } from "./confinement/process-tree.ts";
import { describeThrown, RemoteError } from "./remote-error.ts";
import { type Invocation, type LogLine, nesting, SandboxError, type WorkerSpec } from "./sandbox-types.ts";
import { floodExitCode } from "./worker-bootstrap.ts";
import { WorkerChannel, type WorkerMessage } from "./worker-channel.ts";

/** How many requests of one call the host works on at once. Further requests wait for their turn. */
const mostRequests = 64;
const keptStderr = 8_000;
/** Bytes allowed beyond the output limit, for the message format around a tool's own data. */
const formatBytes = 65_536;
/** Processor seconds that a worker may use between two calls, for cleaning up. */
const mostIdleSeconds = 1;

type Request = Extract<WorkerMessage, { type: "request" }>;

interface RunningCall {
  readonly invocation: Invocation;
  readonly outcome: PromiseWithResolvers<unknown>;
  readonly onAbort: () => void;
  /** How many sandboxed calls are above this one in its chain, each waiting for the next. */
  readonly depth: number;
  bytes: number;
  requests: number;
  /** Requests that wait for their turn. How many there can be is limited by the bytes that the call may put out. */
  readonly waiting: Request[];
  cpuSeconds: number;
  /** The caller gave up and has its error; only the end of the call in the worker is still awaited. */
  isAbandoned: boolean;
  /** The worker confirmed the abort, so its event loop is alive. */
  isAbortConfirmed: boolean;
}

/** The host's side of one confined process. Blank until `load` gives it code, then serves only that code. */
export class Worker {
  readonly ready: Promise<void>;
  /** Resolves when the process has ended and the calls that were still running have been rejected. */
  readonly ended: Promise<void>;
  /** Called when a call has ended, so that there is room for another. */
  onFree: () => void = () => {};
  /** When the last call ended, or the worker was created, by `performance.now()`. */
  idleSince = performance.now();

  readonly #launched: Launched;
  readonly #channel: WorkerChannel;
  readonly #usage: Usage;
  readonly #calls = new Map<number, RunningCall>();
  readonly #ready = Promise.withResolvers<void>();
  readonly #loaded = Promise.withResolvers<void>();
  /** `retired`: takes no new calls. `ending`: was told to run `cleanup` and end. `ended`: has no process. */
  #state: "serving" | "retired" | "ending" | "ended" = "serving";
  #label = "A blank worker";
  /** Receives log lines that belong to no call. */
  #onLog: (log: LogLine) => void;
  #limits: WorkerLimits = defaultLimits;
  #callCount = 0;
  #bytesOutsideCalls = 0;
  #idleCpuSeconds = 0;
  #lastCheck = 0;
  #stderr = "";
  /** Why the host ended the process. */
  #verdict: SandboxError | undefined;

  /** `onLog` receives log lines that belong to no call, unless the loaded spec has an `onLog` of its own. */
  constructor(launched: Launched, onLog: (label: string, log: LogLine) => void = () => {}) {
    this.#launched = launched;
    this.#onLog = (log) => onLog(this.#label, log);
    this.#usage = new Usage(launched, (limit, what) => this.#endForLimit(limit, what));
    const { child } = launched;
    // Stdio 3 is a pipe, which Node makes a socket; the types know only stdin, stdout and stderr.
    this.#channel = new WorkerChannel(child.stdio[3] as unknown as Socket, defaultLimits.outputBytes, {
      onMessage: (message, bytes) => this.#receive(message, bytes),
      onInvalid: (why) => {
        const message = `${this.#label} was ended: it sent what is no message, as ${why}.`;
        this.kill(new SandboxError("sandbox_crashed", message));
      },
      onTooLong: () => this.#endForLimit("output", "a single message was longer than all output may be"),
    });
    this.ready = this.#ready.promise;
    this.ready.catch(() => {});
    this.#loaded.promise.catch(() => {});
    child.stdin?.on("error", () => {});
    child.stdin?.end();
    child.stdout?.on("data", (chunk: Buffer) => this.#print("info", chunk));
    child.stderr?.on("data", (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk).slice(-keptStderr);
      this.#print("warn", chunk);
    });
    this.ended = new Promise((resolve) => {
      const finish = (exitCode: number | null, signal: string | null) => {
        if (!this.hasEnded) this.#finish(exitCode, signal);
        resolve();
      };
      child.on("error", (error) => {
        this.#stderr += error.message;
        finish(null, null);
      });
      whenClosed(child, finish);
    });
  }

  get hasEnded(): boolean {
    return this.#state === "ended";
  }

  get isRetired(): boolean {
    return this.#state !== "serving";
  }

  /** How many calls the worker has, abandoned ones included. */
  get running(): number {
    return this.#calls.size;
  }

  get accepts(): boolean {
    return this.#state === "serving" && this.#calls.size < this.#limits.concurrency;
  }

  /** How many calls of this depth the worker has, without abandoned calls that end with a retired worker. */
  runningAt(depth: number): number {
    let count = 0;
    for (const call of this.#calls.values())
      if (call.depth === depth && !(this.isRetired && call.isAbandoned)) count++;
    return count;
  }

  /**
   * Sends the code to the worker and waits until `init` is over. Called once, on a blank worker. When it
   * rejects, the worker has been killed.
   */
  async load(spec: WorkerSpec, limits: WorkerLimits, network: string): Promise<void> {
    const { label, code, filename, settings } = spec;
    const { initMs, outputBytes } = limits;
    this.#label = label;
    this.#onLog = spec.onLog ?? this.#onLog;
    this.#limits = limits;
    this.#channel.longest = outputBytes + formatBytes;
    const timer = setTimeout(() => {
      const message = `${label} was not ready after ${initMs} ms: loading it or its init takes too long.`;
      this.kill(new SandboxError("sandbox_start_failed", message, { stderr: this.#stderr }));
    }, initMs);
    try {
      await this.ready;
      const path = `${this.#launched.codeDirectory}/${basename(filename)}`;
      this.#channel.send({ type: "load", code, path, network, settings, outputBytes });
      await this.#loaded.promise;
    } catch (error) {
      this.kill();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** May be called only while `accepts` is true. */
  invoke(invocation: Invocation, depth = 0): Promise<unknown> {
    const id = ++this.#callCount;
    const { signal, method, params } = invocation;
    const outcome = Promise.withResolvers<unknown>();
    try {
      this.#channel.send({ type: "call", id, method, params });
    } catch (error) {
      return Promise.reject(error);
    }
    const call: RunningCall = {
      invocation,
      outcome,
      onAbort: () => this.#abort(id, call),
      depth,
      bytes: 0,
      requests: 0,
      waiting: [],
      cpuSeconds: 0,
      isAbandoned: false,
      isAbortConfirmed: false,
    };
    this.#calls.set(id, call);
    if (this.#callCount >= this.#limits.maxCallsPerWorker) this.#stopServing();
    if (signal.aborted) call.onAbort();
    else signal.addEventListener("abort", call.onAbort, { once: true });
    return outcome.promise;
  }

  /** Makes the worker take no more calls. It ends after its calls have ended and `cleanup` has run. */
  retire(): void {
    this.#stopServing();
    if (this.#calls.size > 0 || this.#state !== "retired") return;
    this.#state = "ending";
    setTimeout(() => this.kill(), this.#limits.cleanupMs).unref();
    this.#channel.send({ type: "end" });
  }

  /** Kills the process at once, with all that it started. Its calls fail with the verdict. */
  kill(verdict?: SandboxError): void {
    this.#stopServing();
    this.#verdict ??= verdict;
    if (!this.hasEnded) killTree(this.#launched.child.pid);
  }

  /** Checks the limits. Processor time since the last check counts for every running call. */
  check(): void {
    const used = this.#usage.look(this.#limits);
    const { cpuSeconds } = this.#limits;
    for (const call of this.#calls.values()) {
      call.cpuSeconds += used;
      if (call.cpuSeconds > cpuSeconds)
        this.#endForLimit("cpu", `it used more than ${cpuSeconds} seconds of processor time`);
    }
    const wasIdle = this.#calls.size === 0 && this.idleSince < this.#lastCheck;
    this.#lastCheck = performance.now();
    this.#idleCpuSeconds = wasIdle ? this.#idleCpuSeconds + used : 0;
    if (this.#idleCpuSeconds <= mostIdleSeconds || this.isRetired) return;
    this.#onLog({ level: "warn", text: "A worker was ended, because it used the processor between calls." });
    this.retire();
  }

  #stopServing(): void {
    if (this.#state === "serving") this.#state = "retired";
  }

  #receive(message: WorkerMessage, bytes: number): void {
    if (message.type === "ready") return void this.#ready.resolve();
    if (message.type === "loaded") {
      const { error } = message;
      if (error === undefined) this.#loaded.resolve();
      else this.#loaded.reject(new RemoteError(error));
      return;
    }
    const id = message.type === "result" || message.type === "aborted" ? message.id : message.call;
    const call = this.#calls.get(id);
    this.#count(call, bytes);
    if (message.type === "notify") this.#notified(call, id, message.method, message.params);
    else if (call === undefined) return;
    else if (message.type === "result") this.#settle(message, call);
    else if (message.type === "request") void this.#request(message, call);
    else call.isAbortConfirmed = true;
  }

  #settle({ id, result, error }: Extract<WorkerMessage, { type: "result" }>, call: RunningCall): void {
    this.#calls.delete(id);
    call.invocation.signal.removeEventListener("abort", call.onAbort);
    this.#bytesOutsideCalls = 0;
    this.idleSince = performance.now();
    if (error === undefined) call.outcome.resolve(result);
    else call.outcome.reject(new RemoteError(error));
    if (this.isRetired) this.#endWhenDone();
    this.onFree();
  }

  async #request(request: Request, call: RunningCall): Promise<void> {
    if (call.requests >= mostRequests) return void call.waiting.push(request);
    call.requests++;
    await this.#answer(request, call);
    call.requests--;
    const next = call.waiting.shift();
    if (next !== undefined) void this.#request(next, call);
  }

  async #answer({ id, method, params }: Request, call: RunningCall): Promise<void> {
    const { onRequest } = call.invocation;
    try {
      if (call.isAbandoned) throw new Error("The call was cancelled.");
      if (onRequest === undefined) throw new Error(`The host has no "${method}" to offer here.`);
      const result = await nesting.run(call.depth + 1, onRequest, method, params);
      this.#channel.send({ type: "answer", id, result });
    } catch (error) {
      // The worker must not see the host's stack.
      const { stack: _stack, ...thrown } = describeThrown(error, 0);
      this.#channel.send({ type: "answer", id, error: thrown });
    }
  }

  #notified(call: RunningCall | undefined, id: number, method: string, params: unknown): void {
    try {
      if (call !== undefined && !call.isAbandoned) call.invocation.onNotify?.(method, params);
      else if (id === 0 && method === "log") this.#onLog(readLog(params));
    } catch {
      // A failing listener must not fail the call.
    }
  }

  /** Logs output that bypassed the console, as output of the running call when there is only one. */
  #print(level: LogLine["level"], chunk: Buffer): void {
    this.#count(undefined, chunk.length);
    const log = { level, text: chunk.toString("utf8").trimEnd() };
    const [first, second] = this.#calls.values();
    if (first !== undefined && second === undefined) this.#notified(first, 1, "log", log);
    else this.#notified(undefined, 0, "log", log);
  }

  #count(call: RunningCall | undefined, bytes: number): void {
    if (call === undefined) this.#bytesOutsideCalls += bytes;
    else call.bytes += bytes;
    if ((call?.bytes ?? this.#bytesOutsideCalls) > this.#limits.outputBytes + formatBytes)
      this.#endForOutput();
  }

  #endForOutput(): void {
    this.#endForLimit("output", `it put out more than ${this.#limits.outputBytes} bytes`);
  }

  #endForLimit(limit: string, what: string): void {
    this.kill(new SandboxError("sandbox_limit", `${this.#label} was ended: ${what}.`, { limit }));
  }

  #abort(id: number, call: RunningCall): void {
    const { reason } = call.invocation.signal;
    call.isAbandoned = true;
    call.outcome.reject(reason);
    this.#channel.send({ type: "abort", id, reason: reasonOf(reason) });
    setTimeout(() => {
      if (!this.#calls.has(id) || this.hasEnded) return;
      // The other calls may finish as long as the worker's event loop runs. No new calls come in.
      this.#stopServing();
      if (call.isAbortConfirmed) return void this.#endWhenDone();
      const message = `${this.#label} was ended in the middle of this call, because another call in the same worker could not be stopped otherwise.`;
      this.kill(new SandboxError("sandbox_ended", message));
    }, this.#limits.graceMs).unref();
  }

  #endWhenDone(): void {
    if (this.#calls.size === 0) this.retire();
    else if ([...this.#calls.values()].every((call) => call.isAbandoned)) this.kill();
  }

  #finish(exitCode: number | null, signal: string | null): void {
    this.#state = "ended";
    this.#launched.release();
    if (exitCode === floodExitCode) this.#endForOutput();
    const error = this.#verdict ?? describeEnd(this.#label, exitCode, signal, this.#stderr);
    this.#ready.reject(error);
    this.#loaded.reject(error);
    for (const call of this.#calls.values()) {
      call.invocation.signal.removeEventListener("abort", call.onAbort);
      call.outcome.reject(error);
    }
    this.#calls.clear();
  }
}

const memoryWords = /heap out of memory|out of memory|bad_alloc|allocation failed|Cannot allocate memory/i;

/** The error for the calls of a process that the host did not end. */
function describeEnd(
  label: string,
  exitCode: number | null,
  signal: string | null,
  stderr: string,
): SandboxError {
  const tail = stderr.trim().slice(-2_000);
  const data = { exitCode, signal, stderr: tail };
  if (memoryWords.test(stderr)) {
    const message = `${label} was ended: it ran out of the memory it may use.`;
    return new SandboxError("sandbox_limit", message, { ...data, limit: "memory" });
  }
  const how = signal === null ? `code ${exitCode}` : signal;
  const output = tail === "" ? "It wrote nothing to stderr." : `The end of its stderr:\n${tail}`;
  const message = `${label} ended in the middle of its work (${how}). ${output}`;
  return new SandboxError("sandbox_crashed", message, data);
}

const levels = ["debug", "info", "warn", "error"] as const;

/** Parses the params of a `log` notification, which may be anything. */
export function readLog(params: unknown): LogLine {
  const { level, text = "", data } = asRecord(params);
  return { level: levels.find((name) => name === level) ?? "info", text: String(text), ...defined({ data }) };
}
