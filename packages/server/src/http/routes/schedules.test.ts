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
