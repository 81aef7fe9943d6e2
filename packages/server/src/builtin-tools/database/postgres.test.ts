import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  findPostgres,
  startPostgres,
  type TestDatabaseServer,
  testPassword,
} from "../testing/database-servers.ts";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import query from "./query.ts";
import update from "./update.ts";

const bin = findPostgres();
if (bin === undefined) {
  console.warn("SKIPPED: the PostgreSQL tests. Install Debian's postgresql to run them.");
}

describe.skipIf(bin === undefined)("PostgreSQL", () => {
  let server: TestDatabaseServer;
  let workspace: TestWorkspace;

  beforeAll(async () => {
    server = await startPostgres(bin!);
    workspace = await openTestWorkspace({}, { databases: { main: server.url } });
    await change("CREATE TABLE people (id bigserial PRIMARY KEY, name text UNIQUE, born date, tags text[])");
    await change(
      "INSERT INTO people (name, born, tags) VALUES ('Ada', '1815-12-10', '{a,b}'), ('Grace', NULL, NULL)",
    );
  }, 60_000);
  afterAll(async () => {
    await workspace?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  interface Result {
    readonly rows: Record<string, unknown>[];
    readonly truncated: boolean;
  }
  const ask = (sql: string, more: Record<string, unknown> = {}) =>
    workspace.structured<Result>(query, { sql, ...more });
  const change = (sql: string, more: Record<string, unknown> = {}) =>
    workspace.structured<Result>(update, { sql, ...more });
  const refused = (sql: string, more: Record<string, unknown> = {}) =>
    workspace.failure(query, { sql, ...more });

  const active = async () => {
    const { rows } = await ask(
      "SELECT count(*) AS n FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'toolrack'",
    );
    return rows[0]!.n;
  };

  test("values come as the server writes them", async () => {
    const { rows } =
      await ask(`SELECT id, born, tags, '2024-03-01 12:00:00'::timestamp AS t, 9223372036854775807 AS big,
      1.10::numeric AS price, '{"a": [1]}'::jsonb AS doc, '\\x00ff'::bytea AS raw, 'NaN'::float8 AS nan
      FROM people WHERE name = 'Ada'`);
    expect(rows).toEqual([
      {
        id: 1,
        born: "1815-12-10",
        tags: ["a", "b"],
        t: "2024-03-01 12:00:00",
        big: "9223372036854775807",
        price: "1.10",
        doc: { a: [1] },
        raw: { bytes: 2, base64: "AP8=" },
        nan: "NaN",
      },
    ]);
  });

  test("parameters go by number or by name, and texts, casts and slices are left alone", async () => {
    expect((await ask("SELECT name FROM people WHERE id = $1", { params: [1] })).rows).toEqual([
      { name: "Ada" },
    ]);
    const sql = `SELECT ':x'::text AS a, $tag$ :y $tag$ AS b, E'\\':z' AS c, (tags)[1:1] AS d, :name::text AS e, :name AS f
      FROM people WHERE name = :name -- :not`;
    expect((await ask(sql, { params: { name: "Ada" } })).rows).toEqual([
      { a: ":x", b: " :y ", c: "':z", d: ["a"], e: "Ada", f: "Ada" },
    ]);
  });

  test("only limit rows are read of a large result, quickly", async () => {
    const startedAt = performance.now();
    const { rows, truncated } = await ask("SELECT generate_series(1, 100000000) AS n, repeat('x', 1000)", {
      limit: 7,
    });
    expect([rows.length, truncated]).toEqual([7, true]);
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    await expect.poll(active, { timeout: 10_000 }).toBe(0);
  }, 30_000);

  test("changes tell affected rows and what RETURNING gives", async () => {
    const sql =
      "INSERT INTO people (name) SELECT 'n' || n FROM generate_series(1, 5) AS n RETURNING id, name";
    expect(await change(sql, { limit: 2 })).toMatchObject({
      affectedRows: 5,
      lastInsertId: null,
      rows: [expect.objectContaining({ name: "n1" }), expect.objectContaining({ name: "n2" })],
      truncated: true,
    });
    expect(await change("DELETE FROM people WHERE name LIKE 'n%'")).toMatchObject({ affectedRows: 5 });
    expect(await change("CREATE TABLE other (a int)")).toMatchObject({ affectedRows: null });
  });

  test("a failed change is undone and explained", async () => {
    const message = await workspace.failure(update, {
      sql: "INSERT INTO people (name) VALUES ('New'), ('Ada')",
    });
    expect(message).toContain("duplicate key");
    expect(message).toContain("Key (name)=(Ada) already exists.");
    expect((await ask("SELECT count(*) AS n FROM people WHERE name = 'New'")).rows).toEqual([{ n: 0 }]);
  });

  test.each([
    "WITH x AS (DELETE FROM people RETURNING *) SELECT * FROM x",
    "EXPLAIN ANALYZE DELETE FROM people",
    "SELECT nextval('people_id_seq')",
    "SELECT * INTO copied FROM people",
    "WITH x AS (SELECT set_config('transaction_read_only', 'off', false)) SELECT nextval('people_id_seq') FROM x",
  ])("%s is refused by the server", async (sql) => {
    expect(await refused(sql)).toMatch(/read-only|read-write mode/);
  });

  test("only one statement is taken", async () => {
    expect(await refused("SELECT 1; SELECT 2")).toContain("multiple commands");
    expect(await refused("SELECT 1; COMMIT; DELETE FROM people")).toContain("multiple commands");
    expect((await ask("SELECT 1 AS one;")).rows).toEqual([{ one: 1 }]);
  });

  test("a timeout and a cancel end the work on the server", async () => {
    expect(await refused("SELECT pg_sleep(60)", { timeout: 400 })).toContain("longer than 400 ms");
    await expect.poll(active).toBe(0);
    const controller = new AbortController();
    const call = workspace.call(query, { sql: "SELECT pg_sleep(60)" }, { signal: controller.signal });
    await expect.poll(active).toBe(1);
    controller.abort();
    expect((await call).type).toBe("error");
    await expect.poll(active).toBe(0);
  });

  test("a change that is cancelled is undone", async () => {
    const controller = new AbortController();
    const sql = "WITH x AS (SELECT pg_sleep(60)) INSERT INTO people (name) SELECT 'late' FROM x";
    const call = workspace.call(update, { sql }, { signal: controller.signal });
    await expect.poll(active).toBe(1);
    controller.abort();
    expect((await call).type).toBe("error");
    await expect.poll(active).toBe(0);
    expect((await ask("SELECT 1 FROM people WHERE name = 'late'")).rows).toEqual([]);
  });

  test("a refused password is told without the password", async () => {
    const url = server.url.replace(encodeURIComponent(testPassword), "wr%40ng");
    await using wrong = await openTestWorkspace({}, { databases: { main: url } });
    const result = await wrong.call(query, { sql: "SELECT 1" });
    expect(result.content).toContain("password authentication failed");
    expect(JSON.stringify(result)).not.toMatch(/wr@ng|wr%40ng/);
  });

  test("a complaint that repeats the password is shown without it", async () => {
    const message = await refused("SELECT $1::text::int", { params: [testPassword] });
    expect(message).toContain('invalid input syntax for type integer: "[hidden]"');
  });
});
