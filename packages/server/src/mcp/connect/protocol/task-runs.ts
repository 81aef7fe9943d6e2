import { setTimeout as delay } from "node:timers/promises";
import { isRecord } from "../../../helpers/index.ts";
import { metaKeys } from "../../wire/index.ts";
import { sentence, UpstreamError } from "../failures.ts";
import type { Message, UpstreamRequest } from "./messages.ts";
import { answersTo, type QuestionOptions } from "./questions.ts";
import { refusal } from "./sdk-errors.ts";

interface TaskRunsOptions extends QuestionOptions {
  /** The server speaks the stateless protocol, where tasks are an extension with answers of another form. */
  readonly isModern: boolean;
  /** Sends a request and resolves with its result. */
  exchange(request: UpstreamRequest): Promise<unknown>;
  /** The server was told to stop, and may go on all the same. */
  onGivenUp(token: number | undefined): void;
}

/** A call that its server works on as a task. */
interface TaskRun {
  readonly taskId: string;
  readonly request: UpstreamRequest;
  /** By which the server reports on it. */
  readonly token: number | undefined;
  /** The server came to an end with it, however. */
  hasEnded: boolean;
  /** It reports on it by itself, so that what it says of the state is no report. */
  hasReported: boolean;
  said: unknown;
  reports: number;
}

/** How long a server is asked to keep a task, in milliseconds. */
export const TASK_LIFE = 60 * 60_000;
const USUAL_POLL = 1_000;
const SHORTEST_POLL = 100;
const LONGEST_POLL = 60_000;
const LOOK_LIMIT = 30_000;
const CANCEL_LIMIT = 10_000;
/** So often in a row a look at a task may fail for a reason that may pass. */
const MOST_FAILURES = 5;

const RELATED_TASK = "io.modelcontextprotocol/related-task";
const ended: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

/** Calls that their server answered with a task: each is followed to its end, so that the caller gets a result. */
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

  /** The call that a message is about which names its task; `over` when nobody waits for that task. */
  requestFor({ _meta }: Message): UpstreamRequest | "over" | undefined {
    const related = isRecord(_meta) ? _meta[RELATED_TASK] : undefined;
    return isRecord(related) ? (this.#runs.get(String(related.taskId))?.request ?? "over") : undefined;
  }

  /** The call that is reported on by this token, also after it was answered with a task. */
  reportedBy(token: number): UpstreamRequest | undefined {
    const run = [...this.#runs.values()].find((one) => one.token === token);
    if (run !== undefined) run.hasReported = true;
    return run?.request;
  }

  /**
   * Resolves with the result of a task that has begun. When the call is given up, or something else keeps us from
   * following it, the server is told to stop. Rejects as a request does, and never so that the call would be sent again.
   */
  async follow(task: Message, request: UpstreamRequest, token?: number): Promise<unknown> {
    const { taskId } = task;
    if (typeof taskId !== "string" || taskId === "") {
      const text = "The server began a task and gave it no id, so it cannot be followed.";
      throw new UpstreamError("broken", text);
    }
    const run = { taskId, request, token, hasEnded: false, hasReported: false, said: undefined, reports: 0 };
    this.#runs.set(taskId, run);
    try {
      return await this.#toEnd(task, run);
    } catch (thrown) {
      if (!run.hasEnded) {
        this.cancel(taskId);
        this.#options.onGivenUp(token);
      }
      throw onceBegun(thrown);
    } finally {
      this.#runs.delete(taskId);
    }
  }

  /** Tells the server that nobody waits for a task any more. */
  cancel(taskId: string): void {
    const request = {
      method: "tasks/cancel",
      params: { taskId },
      timeout: CANCEL_LIMIT,
      routingName: taskId,
    };
    void this.#options.exchange(request).catch(() => {});
  }

  /** Those that wait for the next look at their tasks fail now. */
  close(reason: Error): void {
    this.#closing.abort(reason);
  }

  async #toEnd(first: Message, run: TaskRun): Promise<unknown> {
    const { isModern } = this.#options;
    const answered = new Set<string>();
    let task = first;
    for (;;) {
      this.#report(task, run);
      // The answer that begins a task does not have to say all that there is to know.
      if (task !== first || !isModern) {
        run.hasEnded = ended.has(task.status);
        if (task.status === "cancelled") throw new UpstreamError("refused", reasonOf(task, wasCancelled));
        if (run.hasEnded) return isModern ? resultIn(task) : await this.#collect(task, run);
        if (task.status === "input_required") {
          // There the questions come as requests of the server, while it is asked for the result.
          if (!isModern) return await this.#collect(task, run);
          await this.#giveInput(task, run, answered);
        }
      }
      await this.#pause(task, run);
      task = await this.#look(run);
    }
  }

  async #look(run: TaskRun): Promise<Message> {
    for (let failures = 1; ; failures++) {
      try {
        const task = await this.#ask("tasks/get", run, { timeout: LOOK_LIMIT });
        if (isRecord(task)) return task;
        throw new UpstreamError("broken", "The server's answer to tasks/get is no task.");
      } catch (thrown) {
        // Whatever it says no to is the look, and not the call.
        if (isRefusal(thrown) && !mayPass(thrown)) throw unfollowed(thrown);
        if (failures === MOST_FAILURES || !mayPass(thrown)) throw thrown;
      }
      await this.#pause({}, run);
    }
  }

  /** The result of a task in the older protocol, which has to be asked for and is waited for where there is none yet. */
  async #collect(task: Message, run: TaskRun): Promise<unknown> {
    try {
      const result = await this.#ask("tasks/result", run);
      if (!isRecord(result)) return result;
      const { _meta, ...rest } = result;
      return withMeta(rest, _meta, RELATED_TASK);
    } catch (thrown) {
      if (task.status !== "failed" || !isRefusal(thrown)) throw thrown;
      // The status is that of this request, and the failure that of the call.
      const { status: _, ...facts } = thrown.facts;
      throw new UpstreamError("refused", reasonOf(task, thrown.message), facts);
    }
  }

  /** A question is put once, however often it is seen before its answer has arrived. */
  async #giveInput({ inputRequests }: Message, run: TaskRun, answered: Set<string>): Promise<void> {
    const asked = isRecord(inputRequests) ? Object.entries(inputRequests) : [];
    const open = asked.filter(([key]) => !answered.has(key));
    if (open.length === 0) return;
    for (const [key] of open) answered.add(key);
    const inputResponses = await answersTo(open, run.request, this.#options);
    await this.#ask("tasks/update", run, { timeout: LOOK_LIMIT, params: { inputResponses } });
  }

  #ask(
    method: string,
    { taskId, request }: TaskRun,
    { params = {}, ...limit }: { readonly params?: Message; readonly timeout?: number } = {},
  ): Promise<unknown> {
    const { signal, client } = request;
    const onLog = (said: Message) => request.onLog?.(said);
    const asked = { method, params: { taskId, ...params }, signal, client, onLog, routingName: taskId };
    return this.#options.exchange({ ...asked, ...limit });
  }

  async #pause(
    { status, pollInterval, pollIntervalMs = pollInterval }: Message,
    run: TaskRun,
  ): Promise<void> {
    if (ended.has(status)) return;
    const { signal: call } = run.request;
    const { signal: closing } = this.#closing;
    const wanted = typeof pollIntervalMs === "number" ? pollIntervalMs : USUAL_POLL;
    const pause = Math.min(Math.max(wanted, SHORTEST_POLL), LONGEST_POLL);
    const signal = call === undefined ? closing : AbortSignal.any([closing, call]);
    await delay(pause, undefined, { signal }).catch(() => {
      throw signal.reason;
    });
  }

  #report({ statusMessage }: Message, run: TaskRun): void {
    if (run.hasReported || typeof statusMessage !== "string" || statusMessage === run.said) return;
    run.said = statusMessage;
    run.request.onProgress?.({ progress: ++run.reports, message: statusMessage });
  }
}

const wasCancelled = "The server cancelled the task before it was done.";

/** The result of a task that has ended, in the stateless protocol. */
function resultIn(task: Message): unknown {
  if (task.status === "completed") return plainResult(task.result);
  const error = refusal(task.error);
  if (isRecord(task.error) && typeof task.error.message === "string") throw error;
  throw new UpstreamError("refused", reasonOf(task, error.message), error.facts);
}

/** What the stateless protocol adds to every result is about the transport and not about the result. */
export function plainResult(result: unknown): unknown {
  if (!isRecord(result)) return result;
  const { resultType: _, _meta, ...rest } = result;
  return withMeta(rest, _meta, metaKeys.server);
}

/** The rest of a result, with what its `_meta` has beside the member of this name. */
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

function mayPass(thrown: unknown): boolean {
  if (!(thrown instanceof UpstreamError)) return false;
  return thrown.kind === "broken" || thrown.kind === "timeout" || isOfTheMoment(thrown);
}

/** It says nothing about what was asked for. */
function isOfTheMoment({ facts: { status = 0 } }: UpstreamError): boolean {
  return status === 429 || status >= 500;
}

/** What has begun must not be begun again: errors after which a request is sent once more mean another thing now. */
function onceBegun(thrown: unknown): unknown {
  if (!(thrown instanceof UpstreamError)) return thrown;
  const { kind, message, facts } = thrown;
  if (kind === "unavailable") return new UpstreamError("lost", message, { ...facts, cause: thrown });
  // These speak of our way to the task, and not of the task.
  const isUnknown =
    kind === "session" ||
    kind === "unauthorized" ||
    kind === "timeout" ||
    (kind === "refused" && isOfTheMoment(thrown));
  return isUnknown ? unfollowed(thrown) : thrown;
}

/** The task goes on, or has been done, and nobody here will know. */
function unfollowed(error: UpstreamError): UpstreamError {
  const text = `The task that it had begun can be followed no longer: ${sentence(error.message)} What it had already done may stand: check before calling it again.`;
  return new UpstreamError("broken", text, { ...error.facts, cause: error });
}
