import { isToolError } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import {
  creatorOfGrant,
  maySee,
  previewTiming,
  scheduleView,
  timesFrom,
  visibleSchedules,
} from "../../calls/index.ts";
import { inSlices } from "../../helpers/index.ts";
import type { StoredSchedule } from "../../store/index.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, type Route, routesFor, s } from "../wire/index.ts";

/** When to run: exactly one of the first four. */
const timing = s.partial({
  time: s.text("Once: `2026-03-15T09:30:00+08:00`, or local in `timeZone`.", { maxLength: 100 }),
  delaySeconds: s.amount("Once, after so many seconds."),
  interval: s.text("Again and again, such as `every@5m`.", { maxLength: 100 }),
  cron: s.text("Such as `0 9 * * 1-5`.", { maxLength: 200 }),
  timeZone: s.text("Of `cron` and `time`. Default: the server's own.", { maxLength: 100 }),
});
const params = { id: s.text({ minLength: 1, maxLength: 80 }) };

/** What is to run later. The tool `schedule_tool` does the same for models. */
export function scheduleRoutes({ store, schedules }: HttpServices): Route[] {
  const route = routesFor("schedules", "token");
  return [
    route("GET /api/schedules", "listSchedules", "What is to run later, the soonest first", {
      description:
        "An admin sees all schedules; any other token those that were made with it. Of those that have ended, the last 500.",
      query: {
        state: s.choice(["open", "active", "paused", "finished", "cancelled", "all"], {
          default: "open",
          description: "`open`: active or paused.",
        }),
      },
      answer: ["The schedules.", s.items(s.ref("Schedule"))],
      async handle({ query: { state = "open" }, grant }) {
        const wanted = state === "all" ? undefined : state;
        const items: object[] = [];
        const found = await visibleSchedules(creatorOfGrant(grant), store, wanted);
        await inSlices(found.values(), (schedule) => items.push(viewOf(schedule)));
        return { items };
      },
    }),
    route("POST /api/schedules", "createSchedule", "Schedules a tool", {
      description:
        "Exactly one of `time`, `delaySeconds`, `interval` and `cron` says when. It runs with the rights that this token has at that time.",
      body: s.closed({
        toolName: s.text({ minLength: 1 }),
        "toolArgs?": s.anyObject("Its arguments."),
        ...timing,
        "missed?": s.choice(["skip", "run_once"], {
          default: "skip",
          description: "What becomes of times that pass while the server is down.",
        }),
      }),
      answer: ["The schedule.", s.ref("Schedule")],
      errors: ["invalid_arguments"],
      handle: ({ body, grant }) =>
        refusing(async () =>
          viewOf(await schedules.create({ missed: "skip", ...body }, creatorOfGrant(grant))),
        ),
    }),
    route("GET /api/schedule-times", "previewSchedule", "The first times that a schedule would run", {
      description: "At most five. Nothing is scheduled.",
      query: { ...timingQuery },
      answer: ["The times.", s.object({ times: s.texts() })],
      errors: ["invalid_arguments"],
      handle: ({ query }) => refusing(async () => ({ times: previewTiming(query, Date.now()).map(shown) })),
    }),
    route("PATCH /api/schedules/{id}", "pauseSchedule", "Pauses a schedule, or lets it go on", {
      description: "Times that pass while it is paused do not run. A run that is under way goes on.",
      params,
      body: s.closed({ paused: s.boolean() }),
      answer: ["The schedule as it is now.", s.ref("Schedule")],
      errors: ["schedule_not_found", "schedule_ended", "invalid_arguments"],
      async handle({ params: { id }, body: { paused }, grant }) {
        const schedule = await requireSchedule(id, grant);
        const changed = await refusing(() => (paused ? schedules.pause(id) : schedules.resume(id)));
        return viewOf(changed ?? (await isAlready(schedule)));
      },
    }),
    route("DELETE /api/schedules/{id}", "cancelSchedule", "Cancels a schedule", {
      description: "A run that is under way goes on; cancel its call to end it.",
      params,
      answer: ["The schedule as it is now.", s.ref("Schedule")],
      errors: ["schedule_not_found", "schedule_ended"],
      async handle({ params: { id }, grant }) {
        const schedule = await requireSchedule(id, grant);
        if (!(await store.schedules.cancel(id))) return isAlready(schedule);
        return viewOf((await store.schedules.get(id)) ?? schedule);
      },
    }),
  ];

  /** The refusal is the same for a schedule of somebody else and for one that never existed. */
  async function requireSchedule(id: string, grant: Grant): Promise<StoredSchedule> {
    const schedule = await store.schedules.get(id);
    if (schedule !== undefined && maySee(creatorOfGrant(grant), schedule)) return schedule;
    const message = `This token knows no schedule "${id}". GET /api/schedules lists those that it may see.`;
    throw new HttpError("schedule_not_found", message, { details: { id } });
  }

  async function isAlready(before: StoredSchedule): Promise<never> {
    const { id, state } = (await store.schedules.get(before.id)) ?? before;
    const message = `The schedule "${id}" is ${state} already.`;
    throw new HttpError("schedule_ended", message, { details: { id, state } });
  }
}

const timingQuery = {
  time: timing["time?"],
  delaySeconds: timing["delaySeconds?"],
  interval: timing["interval?"],
  cron: timing["cron?"],
  timeZone: timing["timeZone?"],
};

/** Says in the API's form why a schedule cannot be made or go on. */
async function refusing<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (thrown) {
    if (!isToolError(thrown)) throw thrown;
    throw new HttpError("invalid_arguments", thrown.message, { details: { issues: [] } });
  }
}

function viewOf(schedule: StoredSchedule): object {
  const times = timesFrom(schedule.timing, schedule.nextRunAt);
  return { ...scheduleView(schedule), ...(times.length > 0 && { nextRuns: times.map(shown) }) };
}

function shown(at: number): string {
  return new Date(at).toISOString();
}
