import { afterAll, beforeAll, expect, it } from "vitest";
import { grantOf } from "../../access/grants.ts";
import { sampleTools, TestServer } from "../server.fixture.ts";

let server: TestServer;
let tokenOf: { readonly mine: string; readonly other: string };

beforeAll(async () => {
  server = await TestServer.start({ tools: sampleTools().tools });
  tokenOf = {
    mine: await server.issue({ tools: ["*"] }, { name: "mine" }),
    other: await server.issue({ tools: ["*"] }, { name: "other" }),
  };
  const mine = (await server.store.tokens.list()).find(({ name }) => name === "mine")!;
  const soon = Date.now() + 3_600_000;
  const common = { toolName: "add", arguments: { a: 1 }, missed: "skip" } as const;
  const { schedules } = server.store;
  await schedules.add({
    ...common,
    id: "late",
    caller: "http",
    timing: { kind: "cron", expression: "0 9 * * *", timeZone: "Asia/Tokyo" },
    nextRunAt: soon + 1,
  });
  await schedules.add({
    ...common,
    id: "early",
    caller: `token:${grantOf(mine).id}`,
    timing: { kind: "every", interval: 60_000 },
    nextRunAt: soon,
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const idsFor = async (query = "", token?: string) => {
  const { body } = await server.ask(`/api/schedules${query}`, token === undefined ? {} : { token });
  return body.items.map(({ id }: { id: string }) => id);
};

it("lists schedules, the soonest first, and to a token only its own", async () => {
  expect(await idsFor()).toEqual(["early", "late"]);
  expect(await idsFor("", tokenOf.mine)).toEqual(["early"]);
  expect(await idsFor("", tokenOf.other)).toEqual([]);
  const { body } = await server.ask("/api/schedules");
  expect(body.items[1]).toMatchObject({ cron: "0 9 * * *", timeZone: "Asia/Tokyo", toolArgs: { a: 1 } });
});

it("cancels one, once, and not for a token of others", async () => {
  const cancel = (id: string, token?: string) =>
    server.ask(`/api/schedules/${id}`, { method: "DELETE", ...(token === undefined ? {} : { token }) });
  const hidden = await cancel("early", tokenOf.other);
  expect([hidden.status, hidden.body.error.code]).toEqual([404, "schedule_not_found"]);
  expect((await cancel("early", tokenOf.mine)).body).toMatchObject({ id: "early", state: "cancelled" });
  const again = await cancel("early");
  expect([again.status, again.body.error.code]).toEqual([409, "schedule_ended"]);
  expect(await idsFor()).toEqual(["late"]);
  expect((await idsFor("?state=all")).sort()).toEqual(["early", "late"]);
  expect((await cancel("nothing")).status).toBe(404);
});

it("makes a schedule with the rights of its token, and shows the next five times", async () => {
  const make = (body: object, token?: string) =>
    server.ask("/api/schedules", { method: "POST", body, ...(token === undefined ? {} : { token }) });
  const { status, body } = await make(
    { toolName: "add", toolArgs: { a: 1, b: 2 }, cron: "0 9 * * *", timeZone: "UTC" },
    tokenOf.mine,
  );
  expect(status).toBe(200);
  expect(body).toMatchObject({ state: "active", cron: "0 9 * * *", missed: "skip", runs: 0 });
  expect(body.nextRuns).toHaveLength(5);
  expect(body.nextRuns[0]).toBe(body.nextRun);
  expect(body.nextRuns.every((time: string) => time.endsWith("T09:00:00.000Z"))).toBe(true);
  expect(await idsFor("", tokenOf.mine)).toContain(body.id);
  expect(await idsFor("", tokenOf.other)).toEqual([]);
  const unfit = await make({ toolName: "add", toolArgs: { a: "no" }, delaySeconds: 5 });
  expect([unfit.status, unfit.body.error.code]).toEqual([422, "invalid_arguments"]);
  const twice = await make({ toolName: "add", toolArgs: { a: 1, b: 2 }, delaySeconds: 5, cron: "* * * * *" });
  expect(twice.body.error.message).toMatch(/exactly one of time, delaySeconds, interval and cron/);
});

it("tells the first times of a schedule before it is made", async () => {
  const timesOf = async (query: string) => (await server.ask(`/api/schedule-times?${query}`)).body;
  const { times } = await timesOf("interval=every@1h");
  const gaps = times.slice(1).map((time: string, at: number) => Date.parse(time) - Date.parse(times[at]));
  expect(gaps).toEqual([3_600_000, 3_600_000, 3_600_000, 3_600_000]);
  expect((await timesOf("delaySeconds=60")).times).toHaveLength(1);
  expect((await timesOf("cron=whatever")).error).toMatchObject({ code: "invalid_arguments" });
});

it("pauses a schedule, which then has no next time, and lets it go on", async () => {
  const pause = (paused: boolean, token?: string) =>
    server.ask("/api/schedules/late", {
      method: "PATCH",
      body: { paused },
      ...(token === undefined ? {} : { token }),
    });
  expect((await pause(true, tokenOf.other)).status).toBe(404);
  const paused = await pause(true);
  expect(paused.body).toMatchObject({ id: "late", state: "paused" });
  expect(paused.body.nextRun).toBeUndefined();
  expect((await pause(true)).body.error).toMatchObject({
    code: "schedule_ended",
    details: { state: "paused" },
  });
  expect(await idsFor()).toContain("late");
  expect(await idsFor("?state=active")).not.toContain("late");
  expect((await pause(false)).body).toMatchObject({ state: "active", nextRun: expect.any(String) });
  await pause(true);
  const cancelled = await server.ask("/api/schedules/late", { method: "DELETE" });
  expect(cancelled.body).toMatchObject({ state: "cancelled" });
  expect((await pause(false)).status).toBe(409);
});
