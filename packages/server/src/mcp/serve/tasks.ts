import { setImmediate as nextTurn, setTimeout as wait } from "node:timers/promises";
import {
  fromJsonSchema,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import type { ToolInfo } from "@toolrack/core";
import type { EndedCall } from "../../calls/index.ts";
import { meantTool, newCallId } from "../../calls/index.ts";
import type { StoredCall } from "../../store/index.ts";
import { abilitiesOf } from "./carry.ts";
import type { ClientAbilities } from "./clients.ts";
import type { Exchange } from "./exchange.ts";
import { patience } from "./held-exchanges.ts";
import type { Viewer } from "./lists.ts";
import type { McpParts, RackServer, ServerPlace } from "./surface.ts";
import { type ToolCallParams, toolAnswer } from "./tools.ts";

const taskParams = fromJsonSchema<{ taskId: string }>({
  type: "object",
  properties: { taskId: { type: "string" } },
  required: ["taskId"],
});
const updateParams = fromJsonSchema<{ taskId: string; inputResponses?: Record<string, unknown> }>({
  type: "object",
  properties: { taskId: { type: "string" }, inputResponses: { type: "object" } },
  required: ["taskId"],
});

/** The extension by which a client comes back for calls that take long. */
export function serveTasks(
  server: RackServer,
  { tasks }: McpParts,
  viewer: Viewer,
  place: ServerPlace,
): void {
  if (place.era === "legacy") return;
  server.setRequestHandler("tasks/get", { params: taskParams }, async ({ taskId }, context) => {
    if (!knowsTasks(abilitiesOf({ server, context, ...place }))) throw missingTasks();
    const task = await tasks.get(taskId, viewer);
    if (task === undefined) throw unknownTask(taskId);
    return task;
  });
  server.setRequestHandler("tasks/update", { params: updateParams }, async ({ taskId }, context) => {
    if (!knowsTasks(abilitiesOf({ server, context, ...place }))) throw missingTasks();
    // The SDK takes answers out of the parameters, whatever the method.
    const answers = context.mcpReq.inputResponses ?? {};
    if (!(await tasks.update(taskId, answers, viewer))) throw unknownTask(taskId);
    return {};
  });
  server.setRequestHandler("tasks/cancel", { params: taskParams }, async ({ taskId }, context) => {
    if (!knowsTasks(abilitiesOf({ server, context, ...place }))) throw missingTasks();
    if (!(await tasks.cancel(taskId, viewer))) throw unknownTask(taskId);
    return {};
  });
}

function unknownTask(taskId: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no task "${taskId}" for this token.`);
}

/** What a client is told of a task, in the words of the extension. */
export type TaskView = Readonly<Record<string, unknown>> & {
  readonly taskId: string;
  readonly status: TaskStatus;
};

type TaskStatus = "working" | "input_required" | "completed" | "failed" | "cancelled";

interface LiveTask {
  readonly exchange: Exchange<EndedCall>;
  readonly caller: string;
  readonly createdAt: number;
  updatedAt: number;
  message: string | undefined;
  /** What the client is told of an answer that did not fit, until it gives one that does. */
  unfit: string | undefined;
  /** Runs out when nobody has answered what it asks. */
  patience: NodeJS.Timeout | undefined;
  /** Runs out when nothing has happened to it for as long as a task can be asked for. */
  readonly lifetime: NodeJS.Timeout;
}

/** An error of the protocol, which no record has. */
interface FailedTask {
  readonly caller: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly error: object;
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
 * here; afterwards its record is the task, also after a restart. It is there for who made the call, and for nobody else.
 */
export class TaskDesk {
  readonly #parts: Pick<McpParts, "store" | "recorder" | "lists" | "desk">;
  readonly #live = new Map<string, LiveTask>();
  readonly #failed = new Map<string, FailedTask>();

  constructor(parts: Pick<McpParts, "store" | "recorder" | "lists" | "desk">) {
    this.#parts = parts;
  }

  /** Goes on with a call that has begun, without its client. `toError` says what of an end is no result. */
  adopt(
    taskId: string,
    exchange: Exchange<EndedCall>,
    viewer: Viewer,
    toError: (end: { readonly ended?: EndedCall; readonly reason?: unknown }) => object | undefined,
  ): TaskView {
    const now = Date.now();
    const createdAt = madeAt(taskId) ?? now;
    const task: LiveTask = {
      exchange,
      caller: viewer.grant.caller,
      createdAt,
      updatedAt: now,
      message: exchange.warned,
      unfit: undefined,
      patience: undefined,
      lifetime: setTimeout(() => this.#outlive(taskId, task), TIME_TO_LIVE).unref(),
    };
    this.#live.set(taskId, task);
    if (exchange.open.length > 0) startPatience(task);
    exchange.wants = { progress: true, messages: false };
    void this.#follow(taskId, task, toError);
    return { resultType: "task", ...base(taskId, "working", createdAt, now) };
  }

  /** Undefined when there is no such task for this viewer. */
  async get(taskId: string, viewer: Viewer): Promise<TaskView | undefined> {
    const live = this.#live.get(taskId);
    if (live !== undefined) return isOwn(live, viewer) ? liveView(taskId, live) : undefined;
    const failed = this.#failed.get(taskId);
    if (failed !== undefined) {
      if (!isOwn(failed, viewer)) return undefined;
      return { ...base(taskId, "failed", failed.createdAt, failed.updatedAt), error: failed.error };
    }
    const call = await this.#stored(taskId, viewer);
    if (call === undefined) return undefined;
    const listed = this.#parts.lists.of(viewer).byName.get(call.toolName);
    return storedView(call, listed?.outputSchema !== undefined);
  }

  /** Answers whether there is such a task. What is not asked for, or no longer, is left aside, as the extension says. */
  async update(taskId: string, answers: Readonly<Record<string, unknown>>, viewer: Viewer): Promise<boolean> {
    const live = this.#live.get(taskId);
    if (live === undefined || !isOwn(live, viewer)) return this.#isKnown(taskId, viewer);
    const asked = new Set(live.exchange.open.map(({ key }) => key));
    for (const [key, value] of Object.entries(answers)) {
      if (!asked.has(key)) continue;
      const fits = live.exchange.answer(key, value);
      // What it has answered, a client need not look at again: what is still to be answered is asked as something new.
      if (!fits) live.exchange.askAnew(key);
      live.unfit = fits
        ? undefined
        : `The answer to "${key}" does not fit what was asked for. It is asked again.`;
      touch(live);
      startPatience(live);
    }
    return true;
  }

  /** Answers whether there is such a task. One that has ended stays as it ended. */
  async cancel(taskId: string, viewer: Viewer): Promise<boolean> {
    const live = this.#live.get(taskId);
    if (live === undefined || !isOwn(live, viewer)) return this.#isKnown(taskId, viewer);
    live.exchange.cancel("the client cancelled the task");
    return true;
  }

  /** To be called when the server stops: nobody will come with answers any more. */
  close(): void {
    for (const { exchange } of this.#live.values()) {
      for (const { key } of exchange.open) exchange.refuse(key, new Error("The server is stopping."));
    }
  }

  async #isKnown(taskId: string, viewer: Viewer): Promise<boolean> {
    return (await this.get(taskId, viewer)) !== undefined;
  }

  async #follow(
    taskId: string,
    task: LiveTask,
    toError: (end: { readonly ended?: EndedCall; readonly reason?: unknown }) => object | undefined,
  ): Promise<void> {
    for (;;) {
      const step = await task.exchange.next();
      touch(task);
      if (step.kind === "says") {
        for (const notice of step.notices)
          if (notice.kind === "progress") task.message = notice.update.message;
      } else if (step.kind === "asks") {
        startPatience(task);
      } else if (step.kind === "ended" || step.kind === "failed") {
        const error = toError(step.kind === "ended" ? { ended: step.result } : { reason: step.reason });
        if (error !== undefined) this.#fail(taskId, task, error);
        this.#live.delete(taskId);
        clearTimeout(task.patience);
        clearTimeout(task.lifetime);
        return;
      }
    }
  }

  /** Its client was told until when it can be asked for. One that still works goes on; one that waits is waited for in vain. */
  #outlive(taskId: string, task: LiveTask): void {
    if (this.#parts.desk.isWaiting(taskId)) task.exchange.cancel(UNANSWERED);
    else task.lifetime.refresh();
  }

  #fail(taskId: string, { caller, createdAt, updatedAt }: LiveTask, error: object): void {
    this.#failed.set(taskId, { caller, createdAt, updatedAt, error });
    const oldest = this.#failed.keys().next();
    if (this.#failed.size > MOST_FAILED && oldest.value !== undefined) this.#failed.delete(oldest.value);
  }

  async #stored(taskId: string, viewer: Viewer): Promise<StoredCall | undefined> {
    if (!taskId.startsWith(PREFIX)) return undefined;
    await this.#parts.recorder.flush();
    const call = await this.#parts.store.calls.get(taskId);
    return call !== undefined && isOwn(call, viewer) ? call : undefined;
  }
}

function isOwn({ caller }: { readonly caller: string }, { grant }: Viewer): boolean {
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
  const { exchange } = task;
  const giveUp = () => {
    for (const { key } of exchange.open) exchange.refuse(key, new Error(tooLate));
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

function liveView(taskId: string, { exchange, createdAt, updatedAt, message, unfit }: LiveTask): TaskView {
  const { open } = exchange;
  const statusMessage = unfit ?? message;
  const said = statusMessage === undefined ? {} : { statusMessage };
  if (open.length === 0) return { ...base(taskId, "working", createdAt, updatedAt), ...said };
  const requests = open.map(({ key, method, params }) => [key, { method, params }] as const);
  return {
    ...base(taskId, "input_required", createdAt, updatedAt),
    ...said,
    inputRequests: Object.fromEntries(requests),
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

export const tasksExtension = "io.modelcontextprotocol/tasks";

/** How a tool takes part in tasks, as its `metadata.task` says. */
export interface TaskSupport {
  /** `required`: too long for any client that cannot come back for the result. */
  readonly support: "optional" | "required";
  /** What it asks at the beginning is asked before the call becomes a task. */
  readonly asksFirst: boolean;
}

/** How a call takes part in tasks: as the tool does that it reaches, by whatever way. Undefined: its result is waited for. */
export function taskSupportOf(
  { registry }: Pick<McpParts, "registry">,
  viewer: Viewer,
  params: ToolCallParams,
): TaskSupport | undefined {
  const info = meantTool(registry, params);
  const support = info && supportOf(info);
  return support !== undefined && viewer.sees(info!) ? support : undefined;
}

function supportOf({ metadata: { task } }: ToolInfo): TaskSupport | undefined {
  if (task === "optional" || task === "required") return { support: task, asksFirst: false };
  if (typeof task !== "object" || task === null) return undefined;
  const { support = "optional", asksFirst = false } = task as Partial<TaskSupport>;
  return { support, asksFirst };
}

export function knowsTasks({ extensions }: ClientAbilities): boolean {
  return extensions?.[tasksExtension] !== undefined;
}

/** `name`: of the tool that is called, where one is. */
export function missingTasks(name?: string): MissingRequiredClientCapabilityError {
  const message =
    name === undefined
      ? undefined
      : `The tool "${name}" takes longer than a client should wait, and this client knows no tasks. It did not run. Call it from a client of MCP 2026-07-28 that declares the extension ${tasksExtension}.`;
  return new MissingRequiredClientCapabilityError(
    { requiredCapabilities: { extensions: { [tasksExtension]: {} } } },
    message,
  );
}

/** How long the first question of a call is waited for, in milliseconds. One that comes later is asked in the task. */
const FIRST_QUESTION = 1_000;

/**
 * Whether the call asks something before it does anything else. Until its client has been told of the task, the call ends
 * with the request, whose signal this is.
 */
export async function asksAtFirst(exchange: Exchange<unknown>, signal: AbortSignal): Promise<boolean> {
  const cancel = () => exchange.cancel("the client closed the connection");
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  const settled = new AbortController();
  try {
    const late = wait(FIRST_QUESTION, undefined, { signal: settled.signal }).catch(() => {});
    await Promise.race([exchange.stirred(), late]);
    // What is asked in one go is told in one go. No step is taken here: who goes on with the call takes them.
    await nextTurn();
    return exchange.open.length > 0;
  } finally {
    settled.abort();
    signal.removeEventListener("abort", cancel);
  }
}
