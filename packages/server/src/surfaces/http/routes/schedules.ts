import type { Grant } from "../../../auth/grant.ts";
import { creatorOfGrant, maySee } from "../../../schedules/creator.ts";
import { scheduleView } from "../../../schedules/schedule-view.ts";
import type { StoredSchedule } from "../../../store/schedules/schedule-store.ts";
import { HttpError } from "../http-error.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";
import { ref } from "../schemas.ts";

/** Schedules are made with `schedule_tool`, like everything that a model may ask for; here people look after them. */
export function scheduleRoutes({ store }: HttpParts): Route[] {
  const { schedules } = store;
  return [
    defineRoute<object, { state?: StoredSchedule["state"] | "all" }>({
      method: "GET",
      path: "/api/schedules",
      id: "listSchedules",
      tag: "schedules",
      summary: "What is to run later, the soonest first",
      description: "An admin sees all schedules; any other token those that were made with it.",
      access: "token",
      query: { state: { enum: ["active", "finished", "cancelled", "all"], default: "active" } },
      responses: {
        200: {
          description: "The schedules.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("Schedule") } },
            required: ["items"],
          },
        },
      },
      async handle({ query: { state = "active" }, grant }) {
        const creator = creatorOfGrant(grant);
        const found = await schedules.list(state === "all" ? {} : { state });
        return { body: { items: found.filter((one) => maySee(creator, one)).map(scheduleView) } };
      },
    }),
    defineRoute<{ id: string }>({
      method: "DELETE",
      path: "/api/schedules/{id}",
      id: "cancelSchedule",
      tag: "schedules",
      summary: "Cancels a schedule",
      description: "A run that is under way goes on; cancel its call to end it.",
      access: "token",
      params: { id: { type: "string", minLength: 1, maxLength: 80 } },
      responses: { 200: { description: "The schedule as it is now.", schema: ref("Schedule") } },
      errors: ["schedule_not_found", "schedule_ended"],
      async handle({ params: { id }, grant }) {
        const schedule = await requireSchedule(id, grant);
        const isCancelled = await schedules.cancel(id);
        const now = (await schedules.get(id)) ?? schedule;
        if (isCancelled) return { body: scheduleView(now) };
        throw new HttpError("schedule_ended", `The schedule "${id}" is ${now.state} already.`, {
          details: { id, state: now.state },
        });
      },
    }),
  ];

  /** One of others is not told from one that never was. */
  async function requireSchedule(id: string, grant: Grant): Promise<StoredSchedule> {
    const schedule = await schedules.get(id);
    if (schedule !== undefined && maySee(creatorOfGrant(grant), schedule)) return schedule;
    throw new HttpError(
      "schedule_not_found",
      `This token knows no schedule "${id}". GET /api/schedules lists those that it may see.`,
      { details: { id } },
    );
  }
}
