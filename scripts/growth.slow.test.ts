import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type CompiledQuery, type KyselyPlugin, sql } from "kysely";
import { afterAll, describe, expect, test } from "vitest";
import { measureCrowd } from "../bench/growth/crowd.ts";
import { measureOthers } from "../bench/growth/others.ts";
import { problemsOf } from "../bench/growth/part.ts";
import { Rack } from "../bench/growth/rack.ts";
import { fillStore, idOf, makerOf, measureStore, RARE_OWNER, rootOf } from "../bench/growth/store.ts";
import { startRack } from "../bench/lib/served-process.ts";
import {
  findMariadb,
  findPostgres,
  startMariadb,
  startPostgres,
  type TestDatabaseServer,
} from "../packages/server/src/builtin-tools/testing/database-servers.ts";
import type { CallQuery } from "../packages/server/src/store/calls/call-query.ts";
import { CallRepository } from "../packages/server/src/store/calls/calls.ts";
import { engineOf, type OpenedDatabase, openDatabase } from "../packages/server/src/store/database.ts";
import { openStore } from "../packages/server/src/store/store.ts";

/** The short form of `npm run bench -- growth`. */
test("no list, statistic or upkeep becomes dearer with the calls on record, nor blocks the main thread", async ({
  task,
}) => {
  const measured = (size: number) =>
    inFolder(async (directory) => measureStore({ directory }, size, await fillStore({ directory }, size)));
  const [small, large] = [await measured(5_000), await measured(100_000)];
  expect(problemsOf(small, large)).toEqual([]);
  task.meta.figures = Object.fromEntries(large.map(({ what, value }) => [what, `${value.toFixed(1)} ms`]));
});

test("statistics cost no more when very many different tools are called every day", async () => {
  const [small, large] = [
    await inFolder((directory) => measureCrowd({ directory }, 1_000)),
    await inFolder((directory) => measureCrowd({ directory }, 10_000)),
  ];
  expect(problemsOf(small, large)).toEqual([]);
});

test("questions, schedules, conversations and requests to /v1 may pile up", async () => {
  const [small, large] = [
    await inFolder((directory) => measureOthers({ directory }, 2_000)),
    await inFolder((directory) => measureOthers({ directory }, 40_000)),
  ];
  expect(problemsOf(small, large)).toEqual([]);
});

test("the file of the database stays within a tenth of its bound while calls pile up", async () => {
  await inFolder(async (directory) => {
    await fillStore({ directory }, 60_000);
    const store = await openStore({ directory });
    const bound = 12 * 1024 ** 2;
    await store.trim(bound);
    const { db, close } = await openDatabase("sqlite", join(directory, "toolrack.db"));
    const pages = async () => {
      const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(db);
      return rows[0]!.page_count * 4_096;
    };
    expect(await pages()).toBeLessThanOrEqual(bound * 1.1);
    // What is left is the newest, and no more was deleted than needed.
    expect(await pages()).toBeGreaterThan(bound * 0.8);
    expect((await store.calls.list({ limit: 1 })).items[0]?.callId).toBe(idOf(59_999));
    await close();
    await store.close();
  });
});

test("a server keeps the file near its bound while it is busy", async () => {
  await inFolder(async (directory) => {
    const bound = 12 * 1024 ** 2;
    const tool = `import { Tool } from "@toolrack/core";
export const long = Tool.define({ name: "long", description: "Gives a long text.", parameters: { type: "object", properties: {} },
  execute: async () => "x".repeat(20_000) });`;
    await fillStore({ directory: join(directory, ".toolrack") }, 25_000);
    await mkdir(join(directory, "tools"));
    await writeFile(join(directory, "tools/long.ts"), tool);
    const server = await startRack(directory, { builtins: false, retention: { maxBytes: bound } });
    try {
      const rack = new Rack(server);
      let largest = 0;
      // 480 calls, so that 9.6 MB are written in 20 s, or slower on a busy machine.
      for (let n = 0; n < 80; n++) {
        await Promise.all([...Array.from({ length: 6 }, () => rack.call("long", {})), sleep(250)]);
        // The server has a second after its start before it deletes what was there.
        const { size } = await stat(join(directory, ".toolrack/toolrack.db"));
        if (n > 40) largest = Math.max(largest, size);
      }
      expect(largest).toBeLessThan(bound * 1.3);
    } finally {
      server.process.kill("SIGKILL");
    }
  });
});

interface Server {
  readonly title: string;
  readonly size: number;
  readonly missing: boolean;
  start?(): Promise<TestDatabaseServer>;
}

const servers: readonly Server[] = [
  { title: "SQLite", size: 100_000, missing: false },
  {
    title: "PostgreSQL",
    size: 1_000_000,
    missing: findPostgres() === undefined,
    start: () => startPostgres(findPostgres()!),
  },
  {
    title: "MariaDB",
    size: 100_000,
    missing: findMariadb() === undefined,
    start: () => startMariadb(findMariadb()!),
  },
];

describe.each(servers)("on $title", ({ size, missing, start }) => {
  let server: TestDatabaseServer | undefined;
  afterAll(() => server?.[Symbol.asyncDispose]());

  test.skipIf(missing)(
    "every list and statistic is found by an index, as the database itself explains",
    async () => {
      server = await start?.();
      await inFolder(async (directory) => {
        const url = server?.url;
        // So many tools that a list of those with the most calls must not read the counts of all.
        await fillStore({ directory, ...(url && { url }) }, size, size / 200);
        const opened = await openDatabase(engineOf(url), url ?? join(directory, "toolrack.db"));
        // A database looks at what was written by itself, but not at once.
        if (engineOf(url) === "mysql") await sql`analyze table calls`.execute(opened.db);
        if (engineOf(url) === "postgres") await sql`analyze`.execute(opened.db);
        const seen: CompiledQuery[] = [];
        const calls = repositoryOn(opened, seen);
        const session = `session_${size / 200}`;
        const parent = makerOf(size);
        const root = rootOf(size);
        const queries: CallQuery[] = [
          {},
          { session },
          { session, status: "error" },
          { parent },
          { parent, status: "error" },
          { status: "error" },
          { status: "running" },
          { status: "cancelled" },
          { flag: "loop" },
          { status: "error", tool: "tool_7" },
          { tool: "tool_7" },
          { owner: RARE_OWNER },
          { owner: RARE_OWNER, status: "completed" },
          { owner: RARE_OWNER, root },
          { root },
          { root, status: "error" },
          { root: parent },
          { root: parent, status: "error" },
          { caller: RARE_OWNER },
          { caller: RARE_OWNER, tool: "tool_7" },
          // A call within a chain.
          { root: idOf(size - 1) },
        ];
        for (const query of queries) {
          await calls.list(query);
          expect(await whatIsWrong(opened, seen), JSON.stringify(query)).toEqual([]);
        }
        const until = Date.now();
        for (const hours of [2, 24, 168, 720])
          for (const tool of [undefined, "tool_7", "tool_12*", "*99"]) {
            await calls.statistics({ since: until - hours * 3_600_000, until, ...(tool && { tool }) });
            expect(await whatIsWrong(opened, seen), `${tool}, ${hours} hours`).toEqual([]);
          }
        await opened.close();
      });
    },
  );
});

/** The calls of a database, with all queries that they make. */
function repositoryOn(opened: OpenedDatabase, seen: CompiledQuery[]): CallRepository {
  const plugin: KyselyPlugin = {
    transformQuery({ node, queryId }) {
      if (node.kind === "SelectQueryNode") seen.push(opened.db.getExecutor().compileQuery(node, queryId));
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  const db = opened.db.withPlugin(plugin);
  const unused = { open: () => undefined, openSpare: () => undefined };
  return new CallRepository(
    // Without the reading thread, so that the plugin sees every query.
    { ...opened, db, scan: (query) => query.execute() },
    // Nothing is written.
    {
      blobs: {},
      instance: { id: "bench" },
      journals: unused,
      logger: console,
    } as unknown as ConstructorParameters<typeof CallRepository>[1],
  );
}

/** The most rows of a table that a query may pass over. All counts of 1,000,000 calls are more, and so are all of a day. */
const MOST_ROWS = 50_000;

/** Explains the queries that were made, and forgets them. Returns those that look at too many rows or at all. */
async function whatIsWrong({ db, engine }: OpenedDatabase, seen: CompiledQuery[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const query of seen.splice(0)) {
    const explained = { sqlite: "explain query plan ", postgres: "explain (analyze) ", mysql: "explain " }[
      engine
    ];
    const { rows } = await db.executeQuery<Record<string, unknown>>({ ...query, sql: explained + query.sql });
    const plan = rows.map((row) => JSON.stringify(row)).join("\n");
    const isBad = {
      sqlite: /SCAN (calls|call_counts|tool_days)(?! USING)/,
      postgres: /Seq Scan on (?:calls|call_counts|tool_days)/,
      mysql: /"type":"ALL"[^}]*"table":"calls"|"table":"calls","type":"ALL"/,
    }[engine].test(plan);
    const most = Math.max(
      0,
      ...[...plan.matchAll(/Rows Removed by Filter: (\d+)/g)].map((found) => Number(found[1])),
    );
    if (isBad || most > MOST_ROWS) wrong.push(`${query.sql}\n${plan}`);
  }
  return wrong;
}

async function inFolder<Result>(work: (directory: string) => Promise<Result>): Promise<Result> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-growth-"));
  try {
    return await work(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
