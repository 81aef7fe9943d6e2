import { chmod, cp } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  findPostgres,
  findRedis,
  startPostgres,
  startRedis,
} from "../../builtin-tools/testing/database-servers.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { laneTools } from "./testing/lane-tools.ts";
import { type Json, linesOf, ServerProcess } from "./testing/server-process.ts";

const postgres = findPostgres();
const redis = findRedis();
if (redis === undefined)
  console.warn("SKIPPED: tools of all kinds in a worker. Install redis-server to run it.");

const RATE = { calls: 3, seconds: 1 };
const config = `export default { builtins: false, workers: { lanes: { kinds: {
  tools: ["mcp:calendar", "reading-time", "*draft*"] },
  heavy: { limits: { limited: { rate: ${JSON.stringify(RATE)} } } } } } };`;
const example = join(import.meta.dirname, "../../../../../examples/workspace");

describe.each([
  { store: "SQLite on one machine", isMissing: redis === undefined, start: undefined },
  { store: "PostgreSQL", isMissing: redis === undefined || postgres === undefined, start: startPostgres },
])("tools of all kinds in workers, with $store", ({ isMissing, start }) => {
  const stack = new AsyncDisposableStack();
  let workspace: TemporaryWorkspace;
  let server: ServerProcess;

  beforeAll(async () => {
    if (isMissing) return;
    const queue = stack.use(await startRedis(redis!));
    const database = start && stack.use(await start(postgres!));
    workspace = stack.use(await TemporaryWorkspace.create());
    // Where there is no bubblewrap, scripts run as a user of their own.
    await chmod(workspace.directory, 0o755);
    await cp(example, workspace.directory, { recursive: true });
    await workspace.write("toolrack.config.ts", config);
    await workspace.write("tools/all.ts", laneTools);
    const env = {
      ...(database && { DATABASE_URL: database.url }),
      ...{ REDIS_URL: queue.url, TOOLRACK_KEYRING: "off" },
    };
    server = stack.use(await ServerProcess.start(workspace.directory, { env }));
    const worker = () => ServerProcess.start(workspace.directory, { command: "worker", env });
    for (const one of await Promise.all([worker(), worker()])) stack.use(one);
  }, 60_000);
  afterAll(() => stack.disposeAsync(), 30_000);

  it.skipIf(isMissing)(
    "runs a single-file tool, a skill's script and a stdio server's tool there",
    async () => {
      const { items } = (await server.ask("/api/tools?limit=100")).body;
      const names: string[] = items.map(({ name }: Json) => name);
      const draft = names.find((name) => name.includes("draft"))!;
      const calls: [string, Json, string][] = [
        ["reading-time", { text: "word ".repeat(440) }, "2"],
        [draft, { messages: ["feat: lanes", "fix: a leak"] }, "lanes"],
        ["mcp_calendar_weekday", { date: "2026-07-28" }, "Tuesday"],
      ];
      for (const [name, input, expected] of calls) {
        const { body } = await server.call(name, input);
        expect([name, body.error, body.status, body.result?.content]).toEqual([
          ...[name, undefined, "completed"],
          expect.stringContaining(expected),
        ]);
        const record = (await server.ask(`/api/calls/${body.callId}`)).body;
        expect(record).toMatchObject({ toolName: name, status: "completed", lane: "kinds" });
      }
    },
    60_000,
  );

  it.skipIf(isMissing)(
    "begins no more calls of a tool in some seconds than its rate lets, over all workers",
    async () => {
      const before = performance.now();
      const calls = Array.from({ length: 7 }, () => server.call("limited", { n: 1, ms: 1 }));
      for (const { body } of await Promise.all(calls)) expect(body.status).toBe("completed");
      // Seven calls at three a second take two seconds at least; a busy machine only makes it longer.
      expect(performance.now() - before).toBeGreaterThan(2 * RATE.seconds * 1_000 - 100);
      expect(linesOf(workspace.directory, "limited.txt").filter((line) => line === "begin").length).toBe(7);
    },
    60_000,
  );
});
