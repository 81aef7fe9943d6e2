import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  BusinessError,
  compileSchema,
  type InferInput,
  type Logger,
  Tool,
  type ToolInfo,
  type ToolRegistry,
} from "@toolrack/core";
import { v7 as uuid } from "uuid";
import type { RackItem } from "../config/index.ts";
import { reasonOf } from "../helpers/index.ts";
import type { NewSchedule, Store, StoredSchedule } from "../store/index.ts";
import { firstRunAt, invalid, nextRunAt, parseTiming } from "./schedule-timing.ts";
import {
  type Creator,
  creatorOfCall,
  maySee,
  SCHEDULE_TOOL,
  type ScheduleParts,
  ScheduleRunner,
  scheduleView,
  visibleSchedules,
} from "./schedules.ts";

const MOST_ACTIVE = 1_000;

export interface Schedules {
  /** Not on the rack yet: the code that calls `openSchedules` must register it. */
  readonly tool: ToolInfo;
  /** Throws an `InvalidArgumentError` or `BusinessError` that says why nothing was scheduled. */
  create(wanted: WantedSchedule, creator: Creator): Promise<StoredSchedule>;
  /** Resolves to undefined when the schedule is not active, so that there is nothing to pause. */
  pause(id: string): Promise<StoredSchedule | undefined>;
  /**
   * Resolves to undefined when the schedule is not paused. Throws an `InvalidArgumentError` when its only time is
   * over.
   */
  resume(id: string): Promise<StoredSchedule | undefined>;
  /** Resumes the stored schedules. Must be called when the tools are on the rack: overdue runs begin at once. */
  start(): void;
  /** Starts no more runs. Runs under way are ordinary calls, which the call service drains. */
  close(): Promise<void>;
}

/** Runs nothing before `start`. */
export function openSchedules(parts: ScheduleParts): Schedules {
  const runner = new ScheduleRunner(parts);
  let isStarted = false;
  const wake = () => {
    if (isStarted) runner.wake();
  };
  const waking = async <Made>(made: Promise<Made>): Promise<Made> => {
    const schedule = await made;
    wake();
    return schedule;
  };
  return {
    tool: scheduleTool(async () => parts, wake),
    create: (wanted, creator) => waking(create(wanted, creator, parts)),
    pause: (id) => pause(id, parts),
    resume: (id) => waking(resume(id, parts)),
    start() {
      isStarted = true;
      wake();
    },
    close: () => runner.close(),
  };
}

const parameters = {
  type: "object",
  properties: {
    action: {
      enum: ["create", "list", "pause", "resume", "cancel", "cancel_all_once", "cancel_all_recurring"],
      description:
        "create needs toolName and one of time, delaySeconds, interval and cron; pause, resume and cancel need id.",
    },
    toolName: { type: "string", description: "The tool to run." },
    toolArgs: { type: "object", additionalProperties: true, description: "Its arguments by name." },
    time: {
      type: "string",
      maxLength: 100,
      description: "Once at this time: 2026-03-15T09:30:00+08:00, or 2026-03-15 09:30:00 in timeZone.",
    },
    delaySeconds: { type: "number", minimum: 0, description: "Once after so many seconds." },
    interval: {
      type: "string",
      maxLength: 100,
      description:
        "Again and again: every@30s, every@5m, every@2h, every@1d. The first run is one interval from now.",
    },
    cron: {
      type: "string",
      maxLength: 200,
      description: 'By a cron expression, such as "0 9 * * 1-5"; a sixth field in front is for seconds.',
    },
    timeZone: {
      type: "string",
      maxLength: 100,
      description: "IANA name for cron and time, such as Asia/Shanghai. Default: the server's own.",
    },
    missed: {
      enum: ["skip", "run_once"],
      default: "skip",
      description:
        "What becomes of times that pass while the server is down: nothing, or one run at its start.",
    },
    id: { type: "string", description: "Which schedule to pause, resume or cancel." },
    all: { type: "boolean", description: "With list: also those that have ended, the last 500." },
  },
  required: ["action"],
} as const;

/** What is to run, and when. */
export type WantedSchedule = Omit<InferInput<typeof parameters>, "action" | "id" | "all">;

type SchedulePlace = Pick<ScheduleParts, "store" | "book">;

/**
 * `schedule_tool` of the toolbox contract: makes, lists, pauses and cancels schedules. `open` is asked for the store when
 * the tool is called. A schedule runs while a server runs on the store.
 */
export function scheduleTool(open: () => Promise<SchedulePlace>, onChange: () => void): ToolInfo {
  const tool = Tool.define({
    name: SCHEDULE_TOOL,
    description:
      "Runs a tool later: once at a time, once after a delay, at every interval, or by a cron expression. Schedules " +
      "survive restarts. Also lists, pauses and cancels them.",
    parameters,
    metadata: { category: "toolbox", permissions: ["schedule:manage"] },
    execute: async ({ input, callId }) => {
      const parts = await open();
      const { schedules } = parts.store;
      const creator = await creatorOfCall(parts.book.firstCallerOf(callId), parts.store);
      if (input.action === "list") {
        const found = await visibleSchedules(creator, parts.store, input.all ? undefined : "open");
        return { total: found.length, schedules: found.map(scheduleView) };
      }
      if (input.action === "create") {
        const schedule = await create(input, creator, parts);
        onChange();
        return { created: scheduleView(schedule) };
      }
      if (input.action === "cancel" || input.action === "pause" || input.action === "resume") {
        const changed = await change(input.action, input.id, creator, parts);
        onChange();
        return changed;
      }
      const isOnce = input.action === "cancel_all_once";
      const cancelled: string[] = [];
      for (const { id, timing } of await visibleSchedules(creator, parts.store, "open")) {
        if ((timing.kind === "once") === isOnce && (await schedules.cancel(id))) cancelled.push(id);
      }
      return { cancelled };
    },
  });
  return { ...tool, origin: `built-in toolbox/${SCHEDULE_TOOL}` };
}

async function create(
  input: WantedSchedule,
  creator: Creator,
  { book: { registry }, store }: SchedulePlace,
): Promise<StoredSchedule> {
  const now = Date.now();
  const { toolName: asked, toolArgs = {}, missed } = input;
  if (asked === undefined) throw invalid("Say which tool to run with toolName.");
  const timing = parseTiming(input, now);
  const toolName = await checkTool(asked, toolArgs, creator, registry);
  if ((await store.schedules.countOpen()) >= MOST_ACTIVE) {
    throw new BusinessError(
      `There are ${MOST_ACTIVE} active schedules, which is the most. Cancel some first.`,
    );
  }
  return store.schedules.add({
    id: uuid(),
    toolName,
    arguments: toolArgs,
    caller: creator.key,
    timing,
    missed: missed === "run_once" ? "run" : "skip",
    nextRunAt: firstRunAt(timing, now),
  });
}

/**
 * Refuses a tool or arguments that would fail at every run, while the caller can still read why. Returns the
 * tool's canonical name.
 */
async function checkTool(
  asked: string,
  input: Readonly<Record<string, unknown>>,
  creator: Creator,
  registry: ToolRegistry,
): Promise<string> {
  const known = registry.get(asked);
  const mayUse = (tool: RackItem) => creator.grant?.mayUse(tool) === true;
  if (!mayUse(known ?? { name: asked })) throw invalid(registry.notFound(asked, mayUse).message);
  const { name, parameters } = known ?? registry.require(asked);
  if (name === SCHEDULE_TOOL) {
    throw invalid(
      `${SCHEDULE_TOOL} may not schedule itself. Use an interval or a cron expression to repeat a tool.`,
    );
  }
  const outcome = await compileSchema(parameters).validate(input);
  if (outcome.ok) return name;
  const problems = outcome.issues.map(({ message }) => `- ${message}`).join("\n");
  throw invalid(`The toolArgs do not fit "${name}", so nothing was scheduled. Correct these:\n${problems}`);
}

async function pause(id: string, { store }: SchedulePlace): Promise<StoredSchedule | undefined> {
  return (await store.schedules.pause(id)) ? store.schedules.get(id) : undefined;
}

async function resume(id: string, { store }: SchedulePlace): Promise<StoredSchedule | undefined> {
  const schedule = await store.schedules.get(id);
  if (schedule?.state !== "paused") return undefined;
  const now = Date.now();
  const next = nextRunAt(schedule.timing, now, now);
  if (next === undefined) throw invalid("Its only time is over. Cancel it, and make another.");
  return (await store.schedules.resume(id, next)) ? store.schedules.get(id) : undefined;
}

async function change(
  action: "cancel" | "pause" | "resume",
  id: string | undefined,
  creator: Creator,
  place: SchedulePlace,
): Promise<Readonly<Record<string, unknown>>> {
  if (id === undefined) throw invalid(`Say which schedule to ${action} with id. The action list names them.`);
  const { store } = place;
  const schedule = await store.schedules.get(id);
  if (schedule === undefined || !maySee(creator, schedule))
    throw invalid(`There is no schedule "${id}". The action list names them.`);
  if (action === "cancel" && (await store.schedules.cancel(id))) return { cancelled: [id] };
  const changed = action === "cancel" ? undefined : await { pause, resume }[action](id, place);
  if (changed !== undefined) return { [`${action}d`]: scheduleView(changed) };
  const { state } = (await store.schedules.get(id)) ?? schedule;
  throw new BusinessError(`The schedule "${id}" is ${state} already; nothing has changed.`);
}

interface ImportParts {
  /** The workspace. */
  readonly directory: string;
  readonly registry: Pick<ToolRegistry, "get">;
  readonly store: Pick<Store, "schedules">;
  readonly logger: Logger;
}

const text = { type: "string" } as const;
/** A scheduled task as the original toolbox stored it. */
const taskSchema = {
  type: "object",
  properties: {
    id: { type: "string", pattern: "^[\\w.:-]{1,80}$" },
    type: { enum: ["once_absolute", "once_relative", "recurring"] },
    toolName: { type: "string", minLength: 1 },
    toolArgs: { type: ["object", "null"] },
    executed: { type: "boolean" },
    creationTime: text,
    lastExecutionTime: text,
    startTime: text,
    time: text,
    delaySeconds: { type: "number", minimum: 0 },
    interval: text,
  },
  required: ["id", "type", "toolName"],
  additionalProperties: true,
} as const;
type ToolboxTask = InferInput<typeof taskSchema>;
const validator = compileSchema(taskSchema);

/**
 * Imports the tasks of the original toolbox from `json/scheduled_tasks.json`, once per workspace, so that a
 * schedule cancelled here later does not come back. The file stays as it is. Returns how many tasks were
 * imported.
 */
export async function importTasks({ directory, registry, store, logger }: ImportParts): Promise<number> {
  const file = join(directory, "json", "scheduled_tasks.json");
  const mark = join(directory, ".toolrack", "scheduled-tasks-imported");
  if (existsSync(mark)) return 0;
  const found = await readFile(file, "utf8").catch(() => "");
  if (found.trim() === "") return 0;
  let tasks: unknown;
  try {
    tasks = JSON.parse(found);
  } catch (thrown) {
    logger.warn(`json/scheduled_tasks.json is not taken over: ${reasonOf(thrown)}`);
    return 0;
  }
  // The toolbox wrote an empty list where there was no file, so an empty list does not count as imported.
  if (!Array.isArray(tasks) || tasks.length === 0) return 0;
  let taken = 0;
  for (const task of tasks) {
    try {
      const schedule = await toSchedule(task, Date.now());
      if (schedule === undefined || (await store.schedules.get(schedule.id)) !== undefined) continue;
      const known = registry.get(schedule.toolName);
      if (known === undefined)
        logger.warn(`The schedule ${schedule.id} is for "${schedule.toolName}", which is not on the rack.`);
      await store.schedules.add({ ...schedule, toolName: known?.name ?? schedule.toolName });
      taken++;
    } catch (thrown) {
      logger.warn(`A task of json/scheduled_tasks.json is not taken over: ${reasonOf(thrown)}`);
    }
  }
  await writeFile(mark, `${new Date().toISOString()}\n`);
  if (taken > 0)
    logger.info(`${taken} of ${tasks.length} tasks of json/scheduled_tasks.json are schedules now.`);
  return taken;
}

/**
 * Undefined for a task to run once that has run already or whose time is over: it must run neither twice nor
 * late.
 */
async function toSchedule(found: unknown, now: number): Promise<NewSchedule | undefined> {
  const outcome = await validator.validate(found);
  if (!outcome.ok) throw new Error(outcome.issues.map(({ message }) => message).join(" "));
  const task = outcome.value as ToolboxTask; // The schema accepts nothing else.
  const isOnce = task.type !== "recurring";
  if (isOnce && task.executed === true) return undefined;
  const at = isOnce ? timeOf(task) : undefined;
  if (at !== undefined && at <= now) return undefined;
  const timing =
    at === undefined ? parseTiming({ interval: task.interval ?? "" }, now) : ({ kind: "once", at } as const);
  const anchor = momentOf(task.lastExecutionTime) ?? momentOf(task.startTime) ?? now;
  // When the task's start is in the future, it is the time of the first run.
  const next = at ?? (anchor > now ? anchor : nextRunAt(timing, anchor, now));
  if (next === undefined) return undefined;
  return {
    id: task.id,
    toolName: task.toolName,
    arguments: task.toolArgs ?? {},
    // Only the operator can write the file, so its schedules run with the operator's rights.
    caller: "toolbox",
    timing,
    missed: "skip",
    nextRunAt: next,
  };
}

function timeOf({ type, id, time, delaySeconds, creationTime }: ToolboxTask): number {
  const at =
    type === "once_absolute"
      ? momentOf(time)
      : (momentOf(creationTime) ?? Number.NaN) + (delaySeconds ?? Number.NaN) * 1_000;
  if (at === undefined || Number.isNaN(at)) throw new Error(`the task ${id} does not say when it is due`);
  return at;
}

/** Like the toolbox, takes a time without a zone as the machine's local time. */
function momentOf(value: string | undefined): number | undefined {
  const at = value === undefined ? Number.NaN : new Date(value).getTime();
  return Number.isNaN(at) ? undefined : at;
}
