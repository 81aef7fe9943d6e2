import { setTimeout as delay } from "node:timers/promises";
import { asRecord, isRecord } from "../../../helpers/index.ts";
import { metaKeys } from "../../wire/index.ts";
import { sentence, UpstreamError } from "../failures.ts";
import { refusal } from "./http-errors.ts";
import type { Message, UpstreamRequest } from "./messages.ts";
import { answersTo, type QuestionOptions } from "./questions.ts";

interface TaskRunsOptions extends QuestionOptions {
  /** Whether the server speaks the stateless protocol, where tasks are an extension with other answers. */
  readonly isModern: () => boolean;
  /** Sends a request and resolves with its result. */
  exchange(request: UpstreamRequest): Promise<unknown>;
  /** Called with the progress token of a call when the server was told to stop it. The server may still continue. */
  onGivenUp(token: number): void;
}

/** A call that the server runs as a task. */
interface TaskRun {
  readonly taskId: string;
  readonly request: UpstreamRequest;
  /** The progress token of the call. */
  readonly token: number | undefined;
  /** Whether the task has ended, with success or not. */
  hasEnded: boolean;
  /** Whether the server sends progress itself, so that its status messages are not reported as progress. */
  hasReported: boolean;
  lastMessage?: unknown;
  reports: number;
}

/** How long a server is asked to keep a task, in milliseconds. */
export const TASK_LIFE = 60 * 60_000;
const USUAL_POLL = 1_000;
const SHORTEST_POLL = 100;
const LONGEST_POLL = 60_000;
const READ_LIMIT = 30_000;
const CANCEL_LIMIT = 10_000;
/** How often in a row reading a task may fail for a temporary reason. */
const MOST_FAILURES = 5;

const RELATED_TASK = "io.modelcontextprotocol/related-task";
const ended: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

/** Follows calls that a server runs as tasks to their ends, so that the caller gets a normal result. */
export class TaskRuns {
  readonly #options: TaskRunsOptions;
  readonly #runs = new Map<string, TaskRun>();
  readonly #closing = new AbortController();

  constructor(options: TaskRunsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#runs.size;
  }

  get requests(): UpstreamRequest[] {
    return [...this.#runs.values()].map(({ request }) => request);
  }

  /** The call whose task a message names; `over` when nobody waits for that task; undefined when no task is named. */
  requestFor({ _meta }: Message): UpstreamRequest | "over" | undefined {
    const related = asRecord(_meta)[RELATED_TASK];
    return isRecord(related) ? (this.#runs.get(String(related.taskId))?.request ?? "over") : undefined;
  }

  /** Returns the call with this progress token, and remembers that the server sends progress for it itself. */
  reportedBy(token: number): UpstreamRequest | undefined {
    const run = [...this.#runs.values()].find((one) => one.token === token);
    if (run !== undefined) run.hasReported = true;
    return run?.request;
  }

  /**
   * Resolves with the result of a running task. If the call is given up or the task cannot be followed, the server is told
   * to stop. Rejects like a request, but never with an error after which the call would be sent again.
   */
  async follow(task: Message, request: UpstreamRequest, token?: number): Promise<unknown> {
    const { taskId } = task;
    if (typeof taskId !== "string" || taskId === "") {
      const text = "The server began a task and gave it no id, so it cannot be followed.";
      throw new UpstreamError("broken", text);
    }
    const run: TaskRun = { taskId, request, token, hasEnded: false, hasReported: false, reports: 0 };
    this.#runs.set(taskId, run);
    try {
      return await this.#followToEnd(task, run);
    } catch (thrown) {
      if (!run.hasEnded) {
        this.cancel(taskId);
        if (token !== undefined) this.#options.onGivenUp(token);
      }
      throw withoutRetry(thrown);
    } finally {
      this.#runs.delete(taskId);
    }
  }

  /** Tells the server to stop a task, without waiting for its answer. */
  cancel(taskId: string): void {
    const request = { method: "tasks/cancel", params: { taskId }, timeout: CANCEL_LIMIT };
    void this.#options.exchange({ ...request, routingName: taskId }).catch(() => {});
  }

  /** Rejects every call that waits for the time to read its task again. */
  close(reason: Error): void {
    this.#closing.abort(reason);
  }

  async #followToEnd(first: Message, run: TaskRun): Promise<unknown> {
    const isModern = this.#options.isModern();
    const answered = new Set<string>();
    let task = first;
    for (;;) {
      this.#report(task, run);
      // In the stateless protocol the first answer may be incomplete, so the task is read once more.
      if (task !== first || !isModern) {
        run.hasEnded = ended.has(task.status);
        if (task.status === "cancelled") throw new UpstreamError("refused", reasonOf(task, wasCancelled));
        if (run.hasEnded) return isModern ? resultIn(task) : await this.#collect(task, run);
        if (task.status === "input_required") {
          // In the older protocol, questions come as requests of the server while the rack waits for the result.
          if (!isModern) return await this.#collect(task, run);
          await this.#giveInput(task, run, answered);
        }
      }
      await this.#pause(task, run);
      task = await this.#readTask(run);
    }
  }

  async #readTask(run: TaskRun): Promise<Message> {
    for (let failures = 1; ; failures++) {
      try {
        const task = await this.#ask("tasks/get", run, { timeout: READ_LIMIT });
        if (isRecord(task)) return task;
        throw new UpstreamError("broken", "The server's answer to tasks/get is no task.");
      } catch (thrown) {
        // The server refused to show the task, which says nothing about the call itself.
        if (isRefusal(thrown) && !isTemporary(thrown)) throw unfollowed(thrown);
        if (failures === MOST_FAILURES || !isTemporary(thrown)) throw thrown;
      }
      await this.#pause({}, run);
    }
  }

  /** Asks for the result of a task in the older protocol. Waits if there is none yet. */
  async #collect(task: Message, run: TaskRun): Promise<unknown> {
    try {
      const result = await this.#ask("tasks/result", run);
      if (!isRecord(result)) return result;
      const { _meta, ...rest } = result;
      return withMeta(rest, _meta, RELATED_TASK);
    } catch (thrown) {
      if (task.status !== "failed" || !isRefusal(thrown)) throw thrown;
      // The HTTP status belongs to this request, not to the call that failed.
      const { status: _, ...facts } = thrown.facts;
      throw new UpstreamError("refused", reasonOf(task, thrown.message), facts);
    }
  }

  /** Asks the caller each question once, although the server lists a question until it has the answer. */
  async #giveInput({ inputRequests }: Message, run: TaskRun, answered: Set<string>): Promise<void> {
    const open = Object.entries(asRecord(inputRequests)).filter(([key]) => !answered.has(key));
    if (open.length === 0) return;
    for (const [key] of open) answered.add(key);
    const inputResponses = await answersTo(open, run.request, this.#options);
    await this.#ask("tasks/update", run, { timeout: READ_LIMIT, params: { inputResponses } });
  }

  #ask(
    method: string,
    { taskId, request }: TaskRun,
    { params = {}, ...limit }: { readonly params?: Message; readonly timeout?: number } = {},
  ): Promise<unknown> {
    const { signal, client } = request;
    const onLog = (params: Message) => request.onLog?.(params);
    const asked = { method, params: { taskId, ...params }, signal, client, onLog, routingName: taskId };
    return this.#options.exchange({ ...asked, ...limit });
  }

  async #pause(task: Message, { request: { signal: call } }: TaskRun): Promise<void> {
    const { status, pollInterval, pollIntervalMs = pollInterval } = task;
    if (ended.has(status)) return;
    const { signal: closing } = this.#closing;
    const wanted = typeof pollIntervalMs === "number" ? pollIntervalMs : USUAL_POLL;
    const pause = Math.min(Math.max(wanted, SHORTEST_POLL), LONGEST_POLL);
    const signal = call === undefined ? closing : AbortSignal.any([closing, call]);
    await delay(pause, undefined, { signal }).catch(() => {
      throw signal.reason;
    });
  }

  #report({ statusMessage }: Message, run: TaskRun): void {
    if (run.hasReported || typeof statusMessage !== "string" || statusMessage === run.lastMessage) return;
    run.lastMessage = statusMessage;
    run.request.onProgress?.({ progress: ++run.reports, message: statusMessage });
  }
}

const wasCancelled = "The server cancelled the task before it was done.";

/** The result of a task that has ended, in the stateless protocol. */
function resultIn(task: Message): unknown {
  if (task.status === "completed") return plainResult(task.result);
  const error = refusal(task.error);
  if (typeof asRecord(task.error).message === "string") throw error;
  throw new UpstreamError("refused", reasonOf(task, error.message), error.facts);
}

/** Removes what the stateless protocol adds to every result. */
export function plainResult(result: unknown): unknown {
  if (!isRecord(result)) return result;
  const { resultType: _, _meta, ...rest } = result;
  return withMeta(rest, _meta, metaKeys.server);
}

/** Adds `_meta` to a result, without the member `name`. Adds nothing if `_meta` has no other members. */
function withMeta(rest: Message, _meta: unknown, name: string): Message {
  if (!isRecord(_meta)) return rest;
  const { [name]: _, ...meta } = _meta;
  return Object.keys(meta).length === 0 ? rest : { ...rest, _meta: meta };
}

function reasonOf({ statusMessage }: Message, otherwise: string): string {
  return typeof statusMessage === "string" && statusMessage !== "" ? sentence(statusMessage) : otherwise;
}

function isRefusal(thrown: unknown): thrown is UpstreamError {
  return thrown instanceof UpstreamError && thrown.kind === "refused";
}

function isTemporary(thrown: unknown): boolean {
  if (!(thrown instanceof UpstreamError)) return false;
  return thrown.kind === "broken" || thrown.kind === "timeout" || isOverloaded(thrown);
}

/** Whether the server was only overloaded or down, which says nothing about the task. */
function isOverloaded({ facts: { status = 0 } }: UpstreamError): boolean {
  return status === 429 || status >= 500;
}

/** A started task must not be started again, so errors after which a call is sent again become other errors. */
function withoutRetry(thrown: unknown): unknown {
  if (!(thrown instanceof UpstreamError)) return thrown;
  const { kind, message, facts } = thrown;
  if (kind === "unavailable") return new UpstreamError("lost", message, { ...facts, cause: thrown });
  // These errors concern the connection, not the task.
  const isUnknown = ["session", "unauthorized", "timeout"].includes(kind);
  return isUnknown || (kind === "refused" && isOverloaded(thrown)) ? unfollowed(thrown) : thrown;
}

/** The error for a task whose result can no longer be read. The task may still run or be done. */
function unfollowed(error: UpstreamError): UpstreamError {
  const text = `The task that it had begun can be followed no longer: ${sentence(error.message)} What it had already done may stand: check before calling it again.`;
  return new UpstreamError("broken", text, { ...error.facts, cause: error });
}
