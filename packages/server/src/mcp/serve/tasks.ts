import { setImmediate as nextTurn, setTimeout as wait } from "node:timers/promises";
import type { ToolInfo } from "@toolrack/core";
import { type CallRecorder, type CallService, type EndedCall, newCallId } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import type { Store, StoredCall } from "../../store/index.ts";
import { type ClientAbilities, expected, type RpcError, tasksExtension } from "../wire/index.ts";
import { invalidParams, missingCapability, paramError, toolAnswer } from "./answers.ts";
import type { Caller } from "./caller.ts";
import type { ClientDialog } from "./dialog.ts";
import { answerTimeout, type ClientRequest } from "./session.ts";
import type { ToolLists } from "./tool-lists.ts";

/** The methods of the tasks extension, by which a client fetches the results of long calls. */
export const taskMethods = {
  async "tasks/get"({ tasks }: { readonly tasks: Tasks }, request: ClientRequest): Promise<object> {
    const taskId = taskIdOf(request);
    return (await tasks.get(taskId, request.caller)) ?? refuse(taskId);
  },
  async "tasks/update"({ tasks }: { readonly tasks: Tasks }, request: ClientRequest): Promise<object> {
    const taskId = taskIdOf(request);
    const { inputResponses = {} } = request.params;
    if (!isRecord(inputResponses)) {
      throw paramError("tasks/update", "inputResponses", expected("object", inputResponses));
    }
    return (await tasks.update(taskId, inputResponses, request.caller)) ? {} : refuse(taskId);
  },
  async "tasks/cancel"({ tasks }: { readonly tasks: Tasks }, request: ClientRequest): Promise<object> {
    const taskId = taskIdOf(request);
    return (await tasks.cancel(taskId, request.caller)) ? {} : refuse(taskId);
  },
};

/** Throws when the client did not declare the tasks extension, or `taskId` is not a string. */
function taskIdOf({ method, params: { taskId }, peer }: ClientRequest): string {
  if (!knowsTasks(peer.abilities)) throw missingTasks();
  if (typeof taskId !== "string") throw paramError(method, "taskId", expected("string", taskId));
  return taskId;
}

function refuse(taskId: string): never {
  throw invalidParams(`There is no task "${taskId}" for this token.`);
}

interface TaskServices {
  readonly store: Pick<Store, "calls">;
  readonly recorder: CallRecorder;
  readonly lists: ToolLists;
  readonly service: CallService;
}

/** A task as the extension describes it to clients. */
type TaskView = Readonly<Record<string, unknown>> & {
  readonly taskId: string;
  readonly status: TaskStatus;
};

type TaskStatus = "working" | "input_required" | "completed" | "failed" | "cancelled";

interface LiveTask {
  readonly dialog: ClientDialog<EndedCall>;
  readonly caller: string;
  readonly createdAt: number;
  updatedAt: number;
  message: string | undefined;
  /** A message to the client that its last answer was invalid. Cleared by a valid answer. */
  invalidAnswer: string | undefined;
  /** Refuses the task's questions when the client has not answered them in time. */
  answerTimer: NodeJS.Timeout | undefined;
  /** The protocol error that the task ended with. The call record does not have it. */
  error: object | undefined;
  /** Fires when nothing has happened to the task for `TIME_TO_LIVE`. */
  readonly lifetimeTimer: NodeJS.Timeout;
}

/**
 * How long a task that waits for a person may stay unchanged before it is cancelled, in milliseconds. Clients
 * are told that they can fetch a task for this long after its last change.
 */
const TIME_TO_LIVE = 60 * 60_000;
/** How often clients should ask how a task stands, in milliseconds. */
const POLL_INTERVAL = 500;
const MOST_FAILED = 1000;

/** The beginning of every task's id. It tells the record of a task from the records of other calls. */
const PREFIX = "task_";

export function newTaskId(): string {
  return `${PREFIX}${newCallId()}`;
}

/**
 * Calls whose results clients fetch later. A task is a call and has the call's id. A running task is kept
 * here; an ended task is read from its call record, also after a restart. Only the caller who made the call
 * can see the task.
 */
export class Tasks {
  readonly #services: TaskServices;
  readonly #live = new Map<string, LiveTask>();
  /** The ids of tasks that ended with a protocol error, oldest first. */
  readonly #failed: string[] = [];

  constructor(services: TaskServices) {
    this.#services = services;
  }

  /**
   * Makes a running call a task. `toError` returns the protocol error that the task ends with, or undefined
   * when the call ended with a result.
   */
  adopt(
    taskId: string,
    dialog: ClientDialog<EndedCall>,
    caller: Caller,
    toError: (end: { readonly ended?: EndedCall; readonly reason?: unknown }) => object | undefined,
  ): TaskView {
    const now = Date.now();
    const createdAt = createdAtOf(taskId) ?? now;
    const task: LiveTask = {
      dialog,
      caller: caller.grant.caller,
      createdAt,
      updatedAt: now,
      message: dialog.lastWarning,
      invalidAnswer: undefined,
      error: undefined,
      answerTimer: undefined,
      lifetimeTimer: setTimeout(() => this.#expire(taskId, task), TIME_TO_LIVE).unref(),
    };
    this.#live.set(taskId, task);
    if (dialog.open.length > 0) startAnswerTimer(task);
    dialog.wants = { progress: true, messages: false };
    void this.#follow(taskId, task, toError);
    return { resultType: "task", ...base(taskId, "working", createdAt, now) };
  }

  /** Undefined when this caller has no such task. */
  async get(taskId: string, caller: Caller): Promise<TaskView | undefined> {
    const live = this.#live.get(taskId);
    if (live !== undefined) return isOwn(live, caller) ? liveView(taskId, live) : undefined;
    const call = await this.#stored(taskId, caller);
    if (call === undefined) return undefined;
    const listed = this.#services.lists.of(caller).byName.get(call.toolName);
    return storedView(call, listed?.outputSchema !== undefined);
  }

  /** Returns whether this caller has the task. Answers to questions that are not open are ignored. */
  async update(taskId: string, answers: Readonly<Record<string, unknown>>, caller: Caller): Promise<boolean> {
    const live = this.#live.get(taskId);
    if (live === undefined || !isOwn(live, caller)) return this.#isKnown(taskId, caller);
    const asked = new Set(live.dialog.open.map(({ key }) => key));
    for (const [key, value] of Object.entries(answers)) {
      if (!asked.has(key)) continue;
      const fits = live.dialog.questions.answer(key, value);
      // Clients may ignore a key that they have answered, so the question is asked again under a new key.
      if (!fits) live.dialog.questions.askAnew(key);
      live.invalidAnswer = fits
        ? undefined
        : `The answer to "${key}" does not fit what was asked for. It is asked again.`;
      touch(live);
      startAnswerTimer(live);
    }
    return true;
  }

  /** Returns whether this caller has the task. A task that has ended is not changed. */
  async cancel(taskId: string, caller: Caller): Promise<boolean> {
    const live = this.#live.get(taskId);
    if (live === undefined || !isOwn(live, caller)) {
      if (!(await this.#isKnown(taskId, caller))) return false;
      // A worker may be running it. HTTP requests are not forwarded to workers, so the worker is told here.
      const node = await this.#services.service.nodeOf(taskId);
      if (node !== undefined) await this.#services.service.cancelElsewhere(node, taskId, CANCELLED);
      return true;
    }
    live.dialog.cancel(CANCELLED);
    return true;
  }

  /** To be called when the server stops. Refuses all open questions of all tasks. */
  close(): void {
    for (const { dialog } of this.#live.values()) dialog.questions.refuseAll("The server is stopping.");
  }

  async #isKnown(taskId: string, caller: Caller): Promise<boolean> {
    return (await this.get(taskId, caller)) !== undefined;
  }

  async #follow(
    taskId: string,
    task: LiveTask,
    toError: (end: { readonly ended?: EndedCall; readonly reason?: unknown }) => object | undefined,
  ): Promise<void> {
    for (;;) {
      const step = await task.dialog.next();
      touch(task);
      if (step.kind === "says") {
        for (const notice of step.notices)
          if (notice.kind === "progress") task.message = notice.update.message;
      } else if (step.kind === "asks") {
        startAnswerTimer(task);
      } else if (step.kind === "ended" || step.kind === "failed") {
        const error = toError(step.kind === "ended" ? { ended: step.result } : { reason: step.reason });
        if (error === undefined) this.#live.delete(taskId);
        else this.#fail(taskId, task, error);
        clearTimeout(task.answerTimer);
        clearTimeout(task.lifetimeTimer);
        return;
      }
    }
  }

  /**
   * Called when nothing has happened to the task for `TIME_TO_LIVE`. A task that waits for a person is
   * cancelled; a task that works goes on.
   */
  #expire(taskId: string, task: LiveTask): void {
    if (this.#services.service.isWaiting(taskId)) task.dialog.cancel(UNANSWERED);
    else task.lifetimeTimer.refresh();
  }

  #fail(taskId: string, task: LiveTask, error: object): void {
    task.error = error;
    this.#failed.push(taskId);
    const oldest = this.#failed.length > MOST_FAILED ? this.#failed.shift() : undefined;
    if (oldest !== undefined) this.#live.delete(oldest);
  }

  async #stored(taskId: string, caller: Caller): Promise<StoredCall | undefined> {
    if (!taskId.startsWith(PREFIX)) return undefined;
    await this.#services.recorder.flush();
    const call = await this.#services.store.calls.get(taskId);
    return call !== undefined && isOwn(call, caller) ? call : undefined;
  }
}

function isOwn({ caller }: { readonly caller: string }, { grant }: Caller): boolean {
  return caller === grant.caller;
}

const CANCELLED = "the client cancelled the task";
const UNANSWERED = "nobody answered what it asked in the time that the task had";

function touch(task: LiveTask): void {
  task.updatedAt = Date.now();
  task.lifetimeTimer.refresh();
}

/** Refuses the task's open questions after `answerTimeout`, the time limit of all questions to clients. */
function startAnswerTimer(task: LiveTask): void {
  clearTimeout(task.answerTimer);
  const { dialog } = task;
  task.answerTimer = setTimeout(() => dialog.questions.refuseAll(tooLate), answerTimeout).unref();
}

const tooLate = `The client did not answer within ${answerTimeout / 60_000} minutes.`;

/**
 * When the call was made, according to the time inside the task's id. So a running task and its later call
 * record show the same creation time.
 */
function createdAtOf(taskId: string): number | undefined {
  const found = /^task_([0-9a-f]{8})-([0-9a-f]{4})-7/.exec(taskId);
  return found === null ? undefined : Number.parseInt(`${found[1]}${found[2]}`, 16);
}

function base(taskId: string, status: TaskStatus, createdAt: number, updatedAt: number) {
  return {
    taskId,
    status,
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(updatedAt).toISOString(),
    ttlMs: updatedAt - createdAt + TIME_TO_LIVE,
    pollIntervalMs: POLL_INTERVAL,
  };
}

function liveView(taskId: string, task: LiveTask): TaskView {
  const { dialog, createdAt, updatedAt, message, invalidAnswer, error } = task;
  if (error !== undefined) return { ...base(taskId, "failed", createdAt, updatedAt), error };
  const { open } = dialog;
  const statusMessage = invalidAnswer ?? message;
  const status = statusMessage === undefined ? {} : { statusMessage };
  if (open.length === 0) return { ...base(taskId, "working", createdAt, updatedAt), ...status };
  return {
    ...base(taskId, "input_required", createdAt, updatedAt),
    ...status,
    inputRequests: dialog.questions.requests,
  };
}

function storedView(call: StoredCall, hasOutputSchema: boolean): TaskView {
  const { callId, timestamp, duration, outcome, error, result } = call;
  const createdAt = createdAtOf(callId) ?? timestamp;
  const common = (status: TaskStatus) => base(callId, status, createdAt, timestamp + Math.round(duration));
  if (outcome === "running") return common("working");
  if (outcome === "interrupted") {
    return {
      ...common("failed"),
      error: { code: -32603, message: error?.message ?? "The server ended while it ran." },
    };
  }
  if (error?.code === "cancelled") return common("cancelled");
  // In the extension `failed` means a protocol error, so a tool that failed has a result that says so. The
  // cast is safe: a running call has returned above.
  const ended = { callId, record: { ...call, status: call.status as "completed" }, recorded: true, result };
  return { ...common("completed"), result: toolAnswer(ended, { canLink: true, hasOutputSchema }) };
}

/** How a tool supports tasks, from its `metadata.task`. */
export interface TaskSupport {
  /** `required`: clients that know no tasks cannot call the tool, because it takes too long. */
  readonly support: "optional" | "required";
  /**
   * Whether questions that the tool asks at the beginning reach the client before the call becomes a task.
   */
  readonly asksFirst: boolean;
}

/**
 * How the tool that a client wants to run supports tasks; for a call of a meta-tool, that is the tool the
 * meta-tool calls. Returns undefined when the tool supports none, or the caller does not see it.
 */
export function taskSupportOf(caller: Caller, meant: ToolInfo): TaskSupport | undefined {
  const { task } = meant.metadata;
  if (!caller.sees(meant)) return undefined;
  if (task === "optional" || task === "required") return { support: task, asksFirst: false };
  if (!isRecord(task)) return undefined;
  return {
    support: task.support === "required" ? "required" : "optional",
    asksFirst: task.asksFirst === true,
  };
}

export function knowsTasks({ extensions }: ClientAbilities): boolean {
  return extensions?.[tasksExtension] !== undefined;
}

/** `name`: the tool that was called, if the request is a call. */
export function missingTasks(name?: string): RpcError {
  const message =
    name === undefined
      ? undefined
      : `The tool "${name}" takes longer than a client should wait, and this client knows no tasks. It did not run. Call it from a client of MCP 2026-07-28 that declares the extension ${tasksExtension}.`;
  return missingCapability({ extensions: { [tasksExtension]: {} } }, message);
}

/**
 * How long a call may take to ask its first question before it becomes a task, in milliseconds. Questions
 * after that are asked as part of the task.
 */
const FIRST_QUESTION = 1_000;

/** Waits a short time and returns whether the call has asked its client a question by then. */
export async function asksAtFirst(dialog: ClientDialog<unknown>): Promise<boolean> {
  const settled = new AbortController();
  const late = wait(FIRST_QUESTION, undefined, { signal: settled.signal }).catch(() => {});
  await Promise.race([new Promise<void>((resolve) => dialog.whenStepReady(resolve)), late]);
  settled.abort();
  // Waits for further questions of the same turn of the event loop. The steps of the dialog are left for the
  // code that reads it next.
  await nextTurn();
  return dialog.open.length > 0;
}
