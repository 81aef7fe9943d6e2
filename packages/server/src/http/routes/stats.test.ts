import { afterAll, beforeAll, expect, it } from "vitest";
import { makeRecord, textResult } from "../../store/testing/records.fixture.ts";
import { sampleTools, TestServer } from "../server.fixture.ts";

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ tools: sampleTools().tools });
});
afterAll(() => server[Symbol.asyncDispose]());

it("counts the calls of the last day, in all, over time and by tool", async () => {
  await server.call("add", { a: 1 });
  await server.call("add", { a: 2 });
  await server.call("fail");
  const timestamp = Date.now() - 25 * 3_600_000;
  await server.store.calls.finished(makeRecord({ timestamp, toolName: "old" }), textResult("x"));

  const { body } = await server.ask("/api/stats");
  expect(body).toMatchObject({ calls: 3, errors: 1, interval: 900_000 });
  expect(body.until - body.since).toBe(24 * 3_600_000);
  expect(body.p50).toBeLessThanOrEqual(body.p95);
  expect(body.tools.map(({ toolName, calls }: Totals) => [toolName, calls])).toEqual([
    ["add", 2],
    ["fail", 1],
  ]);
  expect((await server.ask("/api/stats?tools=1")).body.tools).toEqual(body.tools.slice(0, 1));
  const slices: Totals[] = body.buckets;
  expect(slices.reduce((sum, { calls }) => sum + calls, 0)).toBe(3);
  for (const { at } of slices) expect(at % 900_000).toBe(0);

  expect((await server.ask("/api/stats?since=0")).body).toMatchObject({ calls: 4, interval: 86_400_000 });
  const since = Date.now() - 3_600_000;
  expect((await server.ask(`/api/stats?since=${since}&tool=a*`)).body).toMatchObject({
    since,
    calls: 2,
    errors: 0,
    interval: 60_000,
  });
});

it("takes a moment that cannot be for what it is", async () => {
  for (const since of ["yesterday", "-1", "1.5"]) {
    const { status, body } = await server.ask(`/api/stats?since=${since}`);
    expect([since, status, body.error.code]).toEqual([since, 400, "invalid_request"]);
  }
  const later = Date.now() + 1_000_000;
  expect((await server.ask(`/api/stats?since=${later}`)).body).toMatchObject({ calls: 0, buckets: [] });
});

it("refuses a pattern that means more tools than are added up, and says so", async () => {
  const timestamp = Date.now() - 60_000;
  const names = Array.from({ length: 251 }, (_, n) => `wide_${n}`);
  await Promise.all(
    names.map((toolName) =>
      server.store.calls.finished(makeRecord({ timestamp, toolName }), textResult("x")),
    ),
  );
  const { status, body } = await server.ask("/api/stats?tool=wide_*");
  const message = expect.stringContaining('"wide_*" means more than 250 tools');
  expect([status, body.error]).toEqual([
    400,
    expect.objectContaining({ code: "invalid_request", message, param: "tool" }),
  ]);
});

interface Totals {
  readonly toolName: string;
  readonly at: number;
  readonly calls: number;
}
