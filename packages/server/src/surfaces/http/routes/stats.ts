import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";
import { ref } from "../schemas.ts";

interface StatsQuery {
  readonly since?: number;
  readonly tool?: string;
}

const DAY = 24 * 60 * 60_000;
const LATEST = 8_640_000_000_000_000;

export function statsRoutes({ store: { calls } }: HttpParts): Route[] {
  return [
    defineRoute<object, StatsQuery>({
      method: "GET",
      path: "/api/stats",
      id: "getStats",
      tag: "calls",
      summary: "How many calls ended, failed and how long they took: in all, over time and by tool",
      description:
        "Of all recorded calls. The slices of time are minutes for the last two hours, quarters of an hour for two days, hours for a week and days for more.",
      access: "admin",
      query: {
        since: {
          type: "integer",
          minimum: 0,
          maximum: LATEST,
          description: "Milliseconds since the epoch. Default a day ago.",
        },
        tool: { type: "string", description: "The tool's name; `*` stands for anything." },
      },
      responses: { 200: { description: "The numbers.", schema: ref("Statistics") } },
      async handle({ query: { since, tool } }) {
        const until = Date.now();
        const from = since ?? until - DAY;
        const found = await calls.statistics({ since: from, until, ...(tool === undefined ? {} : { tool }) });
        return { body: { since: from, until, ...found } };
      },
    }),
  ];
}
