import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  findMariadb,
  startMariadb,
  type TestDatabaseServer,
  testPassword,
} from "../testing/database-servers.ts";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import query from "./query.ts";
import update from "./update.ts";

const program = findMariadb();
if (program === undefined) {
  console.warn("SKIPPED: the MariaDB tests. Install Debian's mariadb-server to run them.");
}

describe.skipIf(program === undefined)("MariaDB", () => {
  let server: TestDatabaseServer;
  let workspace: TestWorkspace;

  beforeAll(async () => {
    server = await startMariadb(program!);
    workspace = await openTestWorkspace({}, { databases: { main: server.url } });
    await change(
      "CREATE TABLE people (id bigint AUTO_INCREMENT PRIMARY KEY, name varchar(50) UNIQUE, born date) ENGINE=InnoDB",
    );
    await change("INSERT INTO people (name, born) VALUES ('Ada', '1815-12-10'), ('小林', NULL)");
  }, 90_000);
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
      "SELECT count(*) AS n FROM information_schema.processlist WHERE id <> connection_id() AND user = 'tester'",
    );
    return rows[0]!.n;
  };

  test("values come as the server writes them", async () => {
    const { rows } =
      await ask(`SELECT id, name, born, TIMESTAMP '2024-03-01 12:00:00' AS t, 9223372036854775807 AS big,
      CAST(1.10 AS DECIMAL(5,2)) AS price, x'00ff' AS raw FROM people ORDER BY id`);
    expect(rows[0]).toEqual({
      id: 1,
      name: "Ada",
      born: "1815-12-10",
      t: "2024-03-01 12:00:00",
      big: "9223372036854775807",
      price: "1.10",
      raw: { bytes: 2, base64: "AP8=" },
    });
    expect(rows[1]).toMatchObject({ name: "小林", born: null });
  });

  test("parameters go by position or by name, and texts and comments are left alone", async () => {
    const sql = "SELECT name FROM people WHERE id = ? LIMIT ?";
    expect((await ask(sql, { params: [1, 5] })).rows).toEqual([{ name: "Ada" }]);
    const named = `SELECT ':x ?' AS a, "it\\":y" AS b, :name AS c /* :z */ FROM people WHERE name = :name # :not`;
    expect((await ask(named, { params: { name: "Ada" } })).rows).toEqual([
      { a: ":x ?", b: 'it":y', c: "Ada" },
    ]);
    expect((await ask("SELECT ? AS t, ? AS d", { params: [true, { a: 1 }] })).rows).toMatchObject([
      { t: 1, d: '{"a":1}' },
    ]);
    expect((await ask("SELECT ? AS quoted", { params: ["a'; DROP TABLE people; -- \\"] })).rows).toEqual([
      { quoted: "a'; DROP TABLE people; -- \\" },
    ]);
  });

  test("only limit rows are read of a large result, quickly", async () => {
    const { rows, truncated } = await ask("SELECT seq, repeat('x', 1000) FROM seq_1_to_100000000", {
      limit: 7,
    });
    expect([rows.length, truncated]).toEqual([7, true]);
    await expect.poll(active, { timeout: 10_000 }).toBe(0);
  }, 30_000);

  test("the schema can be looked at", async () => {
    expect((await ask("SHOW TABLES")).rows).toEqual([{ Tables_in_shop: "people" }]);
    expect((await ask("DESCRIBE people")).rows).toHaveLength(3);
    expect((await ask("EXPLAIN SELECT * FROM people")).rows).toHaveLength(1);
  });

  test("changes tell affected rows and the last inserted id", async () => {
    expect(
      await change("INSERT INTO people (name) VALUES (:name)", { params: { name: "Grace" } }),
    ).toMatchObject({
      affectedRows: 1,
      lastInsertId: 3,
    });
    expect(await change("UPDATE people SET name = 'Hopper' WHERE name = 'Grace'")).toMatchObject({
      affectedRows: 1,
    });
    expect(await change("DELETE FROM people WHERE name = 'Hopper' RETURNING name")).toMatchObject({
      affectedRows: 1,
      rows: [{ name: "Hopper" }],
    });
    expect(await change("CREATE TABLE other (a int)")).toMatchObject({ affectedRows: null });
    await change("DROP TABLE other");
  });

  test("a failed change is undone and explained", async () => {
    const sql = "INSERT INTO people (name) VALUES ('New'), ('Ada')";
    expect(await workspace.failure(update, { sql })).toContain("Duplicate entry 'Ada'");
    expect((await ask("SELECT count(*) AS n FROM people WHERE name = 'New'")).rows).toEqual([{ n: 0 }]);
  });

  test.each([
    ["WITH x AS (SELECT 1) DELETE FROM people", /syntax|READ ONLY/],
    ["EXPLAIN DELETE FROM people WHERE sleep(0)", /./],
    ["SELECT * FROM people INTO OUTFILE '/tmp/toolrack-outfile'", /only reads/],
    ["SELECT 1 INTO/**/DUMPFILE '/tmp/toolrack-outfile'", /only reads/],
    ["SELECT 1 /*! INTO OUTFILE '/tmp/toolrack-outfile' */", /only reads/],
    ["/*! DELETE FROM people */", /only reads/],
    ["SELECT counted()", /READ ONLY transaction/],
  ])("%s changes nothing", async (sql, reason) => {
    await change("CREATE OR REPLACE FUNCTION counted() RETURNS int BEGIN DELETE FROM people; RETURN 1; END");
    const result = await workspace.call(query, { sql });
    expect(result.content).toMatch(reason);
    expect((await ask("SELECT count(*) AS n FROM people")).rows).toEqual([{ n: 2 }]);
  });

  test("only one statement is taken", async () => {
    expect(await refused("SELECT 1; SELECT 2")).toContain("syntax");
    expect((await ask("SELECT 1 AS one;")).rows).toEqual([{ one: 1 }]);
  });

  test("options in the address cannot widen what is allowed", async () => {
    const url = `${server.url}?multipleStatements=true&flags=LOCAL_FILES`;
    await using wide = await openTestWorkspace({}, { databases: { main: url } });
    expect(await wide.failure(query, { sql: "SELECT 1; SELECT 2" })).toContain("syntax");
  });

  test("a timeout and a cancel end the work on the server", async () => {
    expect(await refused("SELECT sleep(60)", { timeout: 400 })).toContain("longer than 400 ms");
    await expect.poll(active).toBe(0);
    const controller = new AbortController();
    const call = workspace.call(query, { sql: "SELECT sleep(60)" }, { signal: controller.signal });
    await expect.poll(active).toBe(1);
    controller.abort();
    expect((await call).type).toBe("error");
    await expect.poll(active).toBe(0);
  });

  test("a change that is cancelled is undone", async () => {
    const controller = new AbortController();
    const sql = "INSERT INTO people (name) SELECT concat('late', seq, sleep(seq * 10)) FROM seq_0_to_5";
    const call = workspace.call(update, { sql }, { signal: controller.signal });
    await expect.poll(active).toBe(1);
    controller.abort();
    expect((await call).type).toBe("error");
    await expect.poll(active).toBe(0);
    expect((await ask("SELECT 1 FROM people WHERE name LIKE 'late%'")).rows).toEqual([]);
  });

  test("a refused password is told without the password", async () => {
    const url = server.url.replace(encodeURIComponent(testPassword), "wr%40ng");
    await using wrong = await openTestWorkspace({}, { databases: { main: url } });
    const result = await wrong.call(query, { sql: "SELECT 1" });
    expect(result.content).toContain("Access denied");
    expect(JSON.stringify(result)).not.toMatch(/wr@ng|wr%40ng/);
  });
});
