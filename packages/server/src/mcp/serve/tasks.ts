import { setImmediate as nextTurn, setTimeout as wait } from "node:timers/promises";
import type { ToolInfo } from "@toolrack/core";
import { type CallRecorder, type CallService, type EndedCall, newCallId } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import type { Store, StoredCall } from "../../store/index.ts";
import { type ClientAbilities, expected, type RpcError, tasksExtension } from "../wire/index.ts";
import { toolAnswer } from "./call-answer.ts";
import type { Caller } from "./caller.ts";
import { type ClientDialog, openRequests } from "./dialog.ts";
import { invalidParams, misfit, missingCapability } from "./errors.ts";
import type { ToolLists } from "./lists.ts";
import { type ClientRequest, patience } from "./session.ts";

type Result = Readonly<Record<string, unknown>>;

/** The methods of the extension by which a client comes back for calls that take long. */
export const taskMethods = {
  async "tasks/get"({ tasks }: { readonly tasks: Tasks }, request: ClientRequest): Promise<Result> {
    const taskId = taskIdOf(request);
    return (await tasks.get(taskId, request.caller)) ?? refuse(taskId);
  },
  async "tasks/update"({ tasks }: { readonly tasks: Tasks }, request: ClientRequest): Promise<Result> {
    const taskId = taskIdOf(request);
    const { inputResponses = {} } = request.params;
    if (!isRecord(inputResponses)) {
      throw misfit("tasks/update", "inputResponses", expected("object", inputResponses));
    }
    return (await tasks.update(taskId, inputResponses, request.caller)) ? {} : refuse(taskId);
  },
  async "tasks/cancel"({ tasks }: { readonly tasks: Tasks }, request: ClientRequest): Promise<Result> {
    const taskId = taskIdOf(request);
    return (await tasks.cancel(taskId, request.caller)) ? {} : refuse(taskId);
  },
};

/** Throws for a client that knows no tasks. */
function taskIdOf({ method, params: { taskId }, peer }: ClientRequest): string {
  if (!knowsTasks(peer.abilities)) throw missingTasks();
  if (typeof taskId !== "string") throw misfit(method, "taskId", expected("string", taskId));
  return taskId;
}

function refuse(taskId: string): never {
  throw invalidParams(`There is no task "${taskId}" for this token.`);
}

interface TaskRooms {
  readonly store: Pick<Store, "calls">;
  readonly recorder: CallRecorder;
  readonly lists: ToolLists;
  readonly service: CallService;
}

/** What a client is told of a task, in the words of the extension. */
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
  /** What the client is told of an answer that did not fit, until it gives one that does. */
  unfit: string | undefined;
  /** Runs out when nobody has answered what it asks. */
  patience: NodeJS.Timeout | undefined;
  /** An error of the protocol that it ended with, which no record has. */
  error: object | undefined;
  /** Runs out when nothing has happened to it for as long as a task can be asked for. */
  readonly lifetime: NodeJS.Timeout;
}

/** How long a task can be asked for after its last change at least, and how often that makes sense, in milliseconds. */
const TIME_TO_LIVE = 60 * 60_000;
const POLL_INTERVAL = 500;
const MOST_FAILED = 1000;

/** By their ids, calls that were tasks are told from others, also when nothing but their records is left. */
const PREFIX = "task_";

export function newTaskId(): string {
  return `${PREFIX}${newCallId()}`;
}

/**
 * Calls that nobody waits for: the client comes back for them. A task is a call and has its id. While it runs it is
 * here; afterwards its record is the task, also after a restart. It is there for the one who made the call, and for nobody else.
 */
export class Tasks {
  readonly #rooms: TaskRooms;
  readonly #live = new Map<string, LiveTask>();
  /** The ids of those that ended with an error of the protocol, the oldest first. */
  readonly #failed: string[] = [];

  constructor(rooms: TaskRooms) {
    this.#rooms = rooms;
  }

  /** Goes on with a call that has begun, without its client. `toError` says what of an end is no result. */
  adopt(
    taskId: string,
    dialog: ClientDialog<EndedCall>,
    caller: Caller,
    toError: (end: { readonly ended?: EndedCall; readonly reason?: unknown }) => object | undefined,
  ): TaskView {
    const now = Date.now();
    const createdAt = madeAt(taskId) ?? now;
    const task: LiveTask = {
      dialog,
      caller: caller.grant.caller,
      createdAt,
      updatedAt: now,
      message: dialog.warned,
      unfit: undefined,
      error: undefined,
      patience: undefined,
      lifetime: setTimeout(() => this.#outlive(taskId, task), TIME_TO_LIVE).unref(),
    };
    this.#live.set(taskId, task);
    if (dialog.open.length > 0) startPatience(task);
    dialog.wants = { progress: true, messages: false };
    void this.#follow(taskId, task, toError);
    return { resultType: "task", ...base(taskId, "working", createdAt, now) };
  }

  /** Undefined when there is no such task for this caller. */
  async get(taskId: string, caller: Caller): Promise<TaskView | undefined> {
    const live = this.#live.get(taskId);
    if (live !== undefined) return isOwn(live, caller) ? liveView(taskId, live) : undefined;
    const call = await this.#stored(taskId, caller);
    if (call === undefined) return undefined;
    const listed = this.#rooms.lists.of(caller).byName.get(call.toolName);
    return storedView(call, listed?.outputSchema !== undefined);
  }

  /** Answers whether there is such a task. What is not asked for, or no longer, is left aside, as the extension says. */
  async update(taskId: string, answers: Readonly<Record<string, unknown>>, caller: Caller): Promise<boolean> {
    const live = this.#live.get(taskId);
    if (live === undefined || !isOwn(live, caller)) return this.#isKnown(taskId, caller);
    const asked = new Set(live.dialog.open.map(({ key }) => key));
    for (const [key, value] of Object.entries(answers)) {
      if (!asked.has(key)) continue;
      const fits = live.dialog.answer(key, value);
      // What it has answered, a client need not look at again: what is still to be answered is asked as something new.
      if (!fits) live.dialog.askAnew(key);
      live.unfit = fits
        ? undefined
        : `The answer to "${key}" does not fit what was asked for. It is asked again.`;
      touch(live);
      startPatience(live);
    }
    return true;
  }

  /** Answers whether there is such a task. One that has ended stays as it ended. */
  async cancel(taskId: string, caller: Caller): Promise<boolean> {
    const live = this.#live.get(taskId);
    if (live === undefined || !isOwn(live, caller)) return this.#isKnown(taskId, caller);
    live.dialog.cancel("the client cancelled the task");
    return true;
  }

  /** To be called when the server stops: nobody will come with answers any more. */
  close(): void {
    for (const { dialog } of this.#live.values()) {
      for (const { key } of dialog.open) dialog.refuse(key, new Error("The server is stopping."));
    }
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
        startPatience(task);
      } else if (step.kind === "ended" || step.kind === "failed") {
        const error = toError(step.kind === "ended" ? { ended: step.result } : { reason: step.reason });
        if (error === undefined) this.#live.delete(taskId);
        else this.#fail(taskId, task, error);
        clearTimeout(task.patience);
        clearTimeout(task.lifetime);
        return;
      }
    }
  }

  /** Its client was told until when it can be asked for. One that still works goes on; one that waits is waited for in vain. */
  #outlive(taskId: string, task: LiveTask): void {
    if (this.#rooms.service.isWaiting(taskId)) task.dialog.cancel(UNANSWERED);
    else task.lifetime.refresh();
  }

  #fail(taskId: string, task: LiveTask, error: object): void {
    task.error = error;
    this.#failed.push(taskId);
    const oldest = this.#failed.length > MOST_FAILED ? this.#failed.shift() : undefined;
    if (oldest !== undefined) this.#live.delete(oldest);
  }

  async #stored(taskId: string, caller: Caller): Promise<StoredCall | undefined> {
    if (!taskId.startsWith(PREFIX)) return undefined;
    await this.#rooms.recorder.flush();
    const call = await this.#rooms.store.calls.get(taskId);
    return call !== undefined && isOwn(call, caller) ? call : undefined;
  }
}

function isOwn({ caller }: { readonly caller: string }, { grant }: Caller): boolean {
  return caller === grant.caller;
}

const UNANSWERED = "nobody answered what it asked in the time that the task had";

function touch(task: LiveTask): void {
  task.updatedAt = Date.now();
  task.lifetime.refresh();
}

/** What the call asks its client is open for as long as it is where the client comes back with the call itself. */
function startPatience(task: LiveTask): void {
  clearTimeout(task.patience);
  const { dialog } = task;
  const giveUp = () => {
    for (const { key } of dialog.open) dialog.refuse(key, new Error(tooLate));
  };
  task.patience = setTimeout(giveUp, patience).unref();
}

const tooLate = `The client did not answer within ${patience / 60_000} minutes.`;

/** When the id of a task was made: what a client is told first and what the record says later are then the same time. */
function madeAt(taskId: string): number | undefined {
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
  const { dialog, createdAt, updatedAt, message, unfit, error } = task;
  if (error !== undefined) return { ...base(taskId, "failed", createdAt, updatedAt), error };
  const { open } = dialog;
  const statusMessage = unfit ?? message;
  const said = statusMessage === undefined ? {} : { statusMessage };
  if (open.length === 0) return { ...base(taskId, "working", createdAt, updatedAt), ...said };
  return {
    ...base(taskId, "input_required", createdAt, updatedAt),
    ...said,
    inputRequests: openRequests(dialog),
  };
}

function storedView(call: StoredCall, isPromised: boolean): TaskView {
  const { callId, timestamp, duration, outcome, error, result } = call;
  const createdAt = madeAt(callId) ?? timestamp;
  const common = (status: TaskStatus) => base(callId, status, createdAt, timestamp + Math.round(duration));
  if (outcome === "running") return common("working");
  if (outcome === "interrupted") {
    return {
      ...common("failed"),
      error: { code: -32603, message: error?.message ?? "The server ended while it ran." },
    };
  }
  if (error?.code === "cancelled") return common("cancelled");
  // The extension keeps `failed` for errors of the protocol: a tool that failed has a result that says so.
  const ended = { callId, record: { ...call, status: call.status as "completed" }, recorded: true, result };
  return { ...common("completed"), result: toolAnswer(ended, { canLink: true, isPromised }) };
}

/** How a tool takes part in tasks, as its `metadata.task` says. */
export interface TaskSupport {
  /** `required`: too long for any client that cannot come back for the result. */
  readonly support: "optional" | "required";
  /** What it asks at the beginning is asked before the call becomes a task. */
  readonly asksFirst: boolean;
}

/** How a call takes part in tasks: as the tool does that it reaches, by whatever way. Undefined: its result is waited for. */
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

/** `name`: of the tool that is called, where one is. */
export function missingTasks(name?: string): RpcError {
  const message =
    name === undefined
      ? undefined
      : `The tool "${name}" takes longer than a client should wait, and this client knows no tasks. It did not run. Call it from a client of MCP 2026-07-28 that declares the extension ${tasksExtension}.`;
  return missingCapability({ extensions: { [tasksExtension]: {} } }, message);
}

/** How long the first question of a call is waited for, in milliseconds. One that comes later is asked in the task. */
const FIRST_QUESTION = 1_000;

/** Whether the call asks something before it does anything else. */
export async function asksAtFirst(dialog: ClientDialog<unknown>): Promise<boolean> {
  const settled = new AbortController();
  const late = wait(FIRST_QUESTION, undefined, { signal: settled.signal }).catch(() => {});
  await Promise.race([new Promise<void>((resolve) => dialog.whenNews(resolve)), late]);
  settled.abort();
  // What is asked in one go is told in one go. No step is taken here: whoever goes on with the call takes them.
  await nextTurn();
  return dialog.open.length > 0;
}
