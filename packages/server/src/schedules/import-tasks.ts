import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { compileSchema, type Logger, type ToolRegistry } from "@toolrack/core";
import type { NewSchedule } from "../store/schedules/schedule-store.ts";
import type { Store } from "../store/store.ts";
import { nextRunAt, parseTiming } from "./timing.ts";

export interface ImportParts {
  /** The workspace. */
  readonly directory: string;
  readonly registry: Pick<ToolRegistry, "get">;
  readonly store: Pick<Store, "schedules">;
  readonly logger: Logger;
}

/** A task as the toolbox's own `schedule_tool` kept it. */
interface ToolboxTask {
  readonly id: string;
  readonly type: "once_absolute" | "once_relative" | "recurring";
  readonly toolName: string;
  readonly toolArgs?: Record<string, unknown> | null;
  readonly executed?: boolean;
  readonly creationTime?: string;
  readonly lastExecutionTime?: string;
  readonly startTime?: string;
  readonly time?: string;
  readonly delaySeconds?: number;
  readonly interval?: string;
}

const text = { type: "string" } as const;
const schema = compileSchema({
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
});

/**
 * Takes over what the toolbox had scheduled in `json/scheduled_tasks.json`, once for a workspace: what was cancelled here
 * later does not come back. The file stays as it is. Answers how many were taken over.
 */
export async function importTasks({ directory, registry, store, logger }: ImportParts): Promise<number> {
  const file = join(directory, "json", "scheduled_tasks.json");
  const mark = join(directory, ".toolrack", "scheduled-tasks-imported");
  if ((await readText(mark)) !== undefined) return 0;
  const found = await readText(file);
  if (found === undefined || found.trim() === "") return 0;
  let tasks: unknown;
  try {
    tasks = JSON.parse(found);
  } catch (thrown) {
    logger.warn(`json/scheduled_tasks.json is not taken over: ${textOf(thrown)}`);
    return 0;
  }
  // The file is made empty where there is none.
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
      logger.warn(`A task of json/scheduled_tasks.json is not taken over: ${textOf(thrown)}`);
    }
  }
  await writeFile(mark, `${new Date().toISOString()}\n`);
  if (taken > 0)
    logger.info(`${taken} of ${tasks.length} tasks of json/scheduled_tasks.json are schedules now.`);
  return taken;
}

/** Undefined for one that has run, or whose time is over: it is not run late, and not twice. */
async function toSchedule(found: unknown, now: number): Promise<NewSchedule | undefined> {
  const outcome = await schema.validate(found);
  if (!outcome.ok) throw new Error(outcome.issues.map(({ message }) => message).join(" "));
  const task = outcome.value as unknown as ToolboxTask; // As the schema has checked.
  const isOnce = task.type !== "recurring";
  if (isOnce && task.executed === true) return undefined;
  const at = isOnce ? timeOf(task) : undefined;
  if (at !== undefined && at <= now) return undefined;
  const timing =
    at === undefined ? parseTiming({ interval: task.interval ?? "" }, now) : ({ kind: "once", at } as const);
  const anchor = momentOf(task.lastExecutionTime) ?? momentOf(task.startTime) ?? now;
  // A start that is still to come is the first run.
  const next = at ?? (anchor > now ? anchor : nextRunAt(timing, anchor, now));
  if (next === undefined) return undefined;
  return {
    id: task.id,
    toolName: task.toolName,
    arguments: task.toolArgs ?? {},
    // Whoever can write the file is the operator.
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

/** As the toolbox read it: a time without a zone is the machine's own. */
function momentOf(value: string | undefined): number | undefined {
  const at = value === undefined ? Number.NaN : new Date(value).getTime();
  return Number.isNaN(at) ? undefined : at;
}

async function readText(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch {
    return undefined;
  }
}

function textOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
