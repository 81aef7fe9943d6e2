import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, symlinkSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import query from "./query.ts";

interface Queried {
  readonly columns: string[];
  readonly rows: Record<string, unknown>[];
  readonly rowCount: number;
  readonly truncated: boolean;
}

const endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c";

let workspace: TestWorkspace;

beforeAll(async () => {
  workspace = await openTestWorkspace({ "data/.keep": "" }, { databases: { main: "sqlite:data/app.db" } });
  const database = new DatabaseSync(workspace.path("data/app.db"));
  database.exec(`
    CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
    INSERT INTO people (name, city) VALUES ('Ada', 'London'), ('小林', '東京'), ('Tab|le', NULL);
    CREATE TABLE numbers AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 500) SELECT n FROM c;
    CREATE VIRTUAL TABLE notes USING fts5(body);
    INSERT INTO notes VALUES ('the quick fox');
    CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1);
    INSERT INTO boxes VALUES (1, 0, 10);
  `);
  database.close();
});
afterAll(() => workspace[Symbol.asyncDispose]());

const ask = (sql: string, more: Record<string, unknown> = {}) =>
  workspace.structured<Queried>(query, { sql, ...more });
const refused = (sql: string, more: Record<string, unknown> = {}) =>
  workspace.failure(query, { sql, ...more });

describe("reading", () => {
  test("rows come as an aligned table and as objects", async () => {
    const result = await workspace.call(query, { sql: "SELECT * FROM people ORDER BY id" });
    expect(result.structured).toMatchObject({
      database: "main",
      columns: ["id", "name", "city"],
      rows: [
        { id: 1, name: "Ada", city: "London" },
        { id: 2, name: "小林", city: "東京" },
        { id: 3, name: "Tab|le", city: null },
      ],
      rowCount: 3,
      truncated: false,
    });
    expect(result.content.split("\n").slice(0, 5)).toEqual([
      "|  id | name    | city   |",
      "| --: | ------- | ------ |",
      "|   1 | Ada     | London |",
      "|   2 | 小林    | 東京   |",
      "|   3 | Tab\\|le | NULL   |",
    ]);
  });

  test("no rows still name their columns", async () => {
    expect(await ask("SELECT id, name FROM people WHERE id > 99")).toMatchObject({
      columns: ["id", "name"],
      rows: [],
    });
  });

  test("columns of one name are told apart", async () => {
    expect((await ask("SELECT 1 AS a, 2 AS a, 3 AS a")).rows).toEqual([{ a: 1, a_2: 2, a_3: 3 }]);
  });

  test("values that JSON cannot hold are made safe", async () => {
    const { rows } = await ask(
      "SELECT 9223372036854775807 AS big, 9007199254740991 AS safe, x'00ff' AS blob, 1e999 AS inf",
    );
    expect(rows).toEqual([
      {
        big: "9223372036854775807",
        safe: 9007199254740991,
        blob: { bytes: 2, base64: "AP8=" },
        inf: "Infinity",
      },
    ]);
  });

  test("long cells are clipped in the text and whole in the rows", async () => {
    const result = await workspace.call(query, {
      sql: "SELECT printf('%.*c', 5000, 'x') || char(10) || 'end' AS t",
    });
    expect(result.content).toContain("… (5004 characters)");
    expect(result.content.length).toBeLessThan(1_000);
    expect((result.structured as Queried).rows[0]!.t).toHaveLength(5_004);
  });

  test("only limit rows are read, and more are announced", async () => {
    expect(await ask("SELECT n FROM numbers")).toMatchObject({ rowCount: 100, truncated: true });
    expect(await ask("SELECT n FROM numbers LIMIT 100")).toMatchObject({ rowCount: 100, truncated: false });
    expect(await ask("SELECT n FROM numbers", { limit: 5 })).toMatchObject({ rowCount: 5, truncated: true });
    expect(await workspace.text(query, { sql: "SELECT n FROM numbers" })).toContain("raise limit");
  });

  test("the schema can be looked at, and full-text and spatial tables can be searched", async () => {
    expect((await ask("PRAGMA table_info(people)")).rows.map((row) => row.name)).toEqual([
      "id",
      "name",
      "city",
    ]);
    expect((await ask("SELECT name FROM pragma_table_info('people')")).rowCount).toBe(3);
    expect((await ask("EXPLAIN QUERY PLAN SELECT * FROM people")).rowCount).toBe(1);
    expect((await ask("SELECT body FROM notes WHERE notes MATCH 'fox'")).rowCount).toBe(1);
    expect((await ask("SELECT id FROM boxes WHERE x1 > 5")).rowCount).toBe(1);
  });
});

describe("parameters", () => {
  test("by position, by number and by name", async () => {
    const sql = "SELECT name FROM people WHERE";
    expect((await ask(`${sql} id = ?`, { params: [1] })).rows).toEqual([{ name: "Ada" }]);
    expect((await ask(`${sql} id = $2 AND name = $1`, { params: ["Ada", 1] })).rows).toEqual([
      { name: "Ada" },
    ]);
    for (const sign of [":", "@", "$"]) {
      expect((await ask(`${sql} city = ${sign}city`, { params: { city: "東京" } })).rows).toEqual([
        { name: "小林" },
      ]);
    }
  });

  test("whole numbers stay integers, and other values become what SQLite has", async () => {
    const sql = "SELECT typeof(?) a, typeof(?) b, ? c, ? d, typeof(?) e";
    const { rows } = await ask(sql, { params: [5, 5.5, true, { x: [1] }, null] });
    expect(rows).toEqual([{ a: "integer", b: "real", c: 1, d: '{"x":[1]}', e: "null" }]);
  });

  test("what looks like a placeholder in a text or a comment is none", async () => {
    expect(
      (await ask("SELECT ':a ?' AS t, \"id\" /* ? :b */ FROM people WHERE id = ? -- :c", { params: [1] }))
        .rows,
    ).toEqual([{ t: ":a ?", id: 1 }]);
  });

  test("none may be missing, left over or of the wrong kind", async () => {
    expect(await refused("SELECT ?, ?", { params: [1] })).toContain(
      "2 placeholders, but params has 1 values",
    );
    expect(await refused("SELECT ?")).toContain("1 placeholders, but params has 0");
    expect(await refused("SELECT :a", { params: { b: 1 } })).toContain('params has no "a"');
    expect(await refused("SELECT 1", { params: { b: 1 } })).toContain(
      '"b", which the statement does not use',
    );
    expect(await refused("SELECT ?", { params: { a: 1 } })).toContain("must be an array");
    expect(await refused("SELECT :a", { params: [1] })).toContain("must be an object");
  });
});

describe("only reading", () => {
  test.each([
    "DELETE FROM people",
    "insert into people (name) values ('x')",
    "-- harmless\n/* really */ UPDATE people SET name = 'x'",
    "DROP TABLE people",
    "VACUUM",
    "VACUUM INTO 'copy.db'",
    "ATTACH 'other.db' AS other",
    "BEGIN",
    ";;",
    "",
  ])("%j is refused before the database sees it", async (sql) => {
    expect(await refused(sql)).toMatch(/only reads|holds no statement|sql/);
  });

  test.each([
    "WITH x AS (SELECT 1) DELETE FROM people",
    "WITH x AS (SELECT 1) INSERT INTO people (name) SELECT 'x' FROM x",
    "PRAGMA user_version = 7",
    "PRAGMA query_only = OFF",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA writable_schema = ON",
    "SELECT load_extension('/tmp/x.so')",
  ])("%s is refused by the database", async (sql) => {
    expect(await refused(sql)).toMatch(/SQLite \("main"\): .*(only reads|may not|not authorized)/);
  });

  test("more than one statement is refused, a closing semicolon is not", async () => {
    expect(await refused("SELECT 1; DELETE FROM people")).toContain("only one statement");
    expect(await refused("SELECT ';'; SELECT 2 -- x")).toContain("only one statement");
    expect(await refused("SELECT 1; /* a */ SELECT 2 /* b")).toContain("only one statement");
    expect((await ask("SELECT 'a;b' AS t; -- done\n /* really */ ;")).rows).toEqual([{ t: "a;b" }]);
  });

  test("the file does not change", async () => {
    const before = readFileSync(workspace.path("data/app.db"));
    await ask("SELECT count(*) FROM people");
    await refused("WITH x AS (SELECT 1) DELETE FROM people");
    expect(before.equals(readFileSync(workspace.path("data/app.db")))).toBe(true);
    expect(existsSync(workspace.path("copy.db"))).toBe(false);
  });
});

describe("ending", () => {
  test("a heavy query ends at its timeout and does not hold up the server meanwhile", async () => {
    let ticks = 0;
    const clock = setInterval(() => ticks++, 20);
    expect(await refused(endless, { timeout: 600 })).toContain("longer than 600 ms and was stopped");
    clearInterval(clock);
    expect(ticks).toBeGreaterThan(10);
  });

  test("cancelling ends it at once", async () => {
    const controller = new AbortController();
    const call = workspace.call(query, { sql: endless }, { signal: controller.signal });
    setTimeout(() => controller.abort(), 200);
    expect((await call).error?.code).toBe("cancelled");
  });

  test("a heavy query does not outlive its timeout even when the server dies", async () => {
    const program = new URL("./support/sqlite-child.ts", import.meta.url);
    const statement = { sql: endless, params: [], limit: 1, timeout: 100, isWrite: false };
    const child = fork(program, [], { execArgv: ["--disable-warning=ExperimentalWarning"] });
    child.send({ file: workspace.path("data/app.db"), statement }, () => child.disconnect());
    const [, signal] = await once(child, "exit");
    expect(signal).toBe("SIGKILL");
  }, 10_000);

  test("a value beyond all measure is refused, not built", async () => {
    expect(await refused("SELECT zeroblob(1000000000)")).toMatch(/too big/);
  });
});

describe("declared databases", () => {
  test("must be named when there are several, and unknown names list the known ones", async () => {
    const databases = { one: "sqlite:a.db", two: "postgres://user:hush@db.internal/app" };
    await using several = await openTestWorkspace({}, { databases });
    const unnamed = await several.failure(query, { sql: "SELECT 1" });
    const unknown = await several.failure(query, { sql: "SELECT 1", database: "three" });
    expect(unnamed).toContain("Declared: one, two.");
    expect(unknown).toContain('no database "three". Declared: one, two.');
    expect(await several.failure(query, { sql: "SELECT 1", database: "__proto__" })).toContain(
      "Declared: one, two.",
    );
    for (const message of [unnamed, unknown]) expect(message).not.toMatch(/hush|db\.internal/);
  });

  test("may be none", async () => {
    await using none = await openTestWorkspace();
    expect(await none.failure(query, { sql: "SELECT 1" })).toContain("declares no databases");
  });

  test("a SQLite file stays inside the workspace and must exist to be read", async () => {
    const databases = {
      up: "sqlite:../x.db",
      link: "sqlite:link.db",
      gone: "sqlite:gone.db",
      memory: "sqlite::memory:",
    };
    await using odd = await openTestWorkspace({}, { databases });
    symlinkSync("/etc/passwd", odd.path("link.db"));
    const failure = (database: string) => odd.failure(query, { sql: "SELECT 1", database });
    expect(await failure("up")).toContain("outside");
    expect(await failure("link")).toContain("link");
    expect(await failure("gone")).toContain("gone.db");
    expect(await failure("memory")).toContain("names no file");
    expect(existsSync(odd.path("gone.db"))).toBe(false);
  });

  test("a server that never answers is given up at the timeout", async () => {
    const silent = createServer((socket) => socket.on("error", () => {}).resume()).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const databases = { pg: `postgres://u:p@127.0.0.1:${port}/a`, my: `mysql://u:p@127.0.0.1:${port}/a` };
    await using quiet = await openTestWorkspace({}, { databases });
    for (const database of ["pg", "my"]) {
      const message = await quiet.failure(query, { sql: "SELECT 1", database, timeout: 200 });
      expect(message).toContain("longer than 200 ms");
    }
    await expect
      .poll(() => new Promise((resolve) => silent.getConnections((_error, count) => resolve(count))))
      .toBe(0);
    silent.close();
  });

  test("an unreachable server is told without its password", async () => {
    const databases = {
      pg: "postgres://user:hu%40sh@127.0.0.1:1/app",
      my: "mysql://user:hu%40sh@127.0.0.1:1/app",
      odd: "redis://:hush@x",
    };
    await using far = await openTestWorkspace({}, { databases });
    for (const database of Object.keys(databases)) {
      const result = await far.call(query, { sql: "SELECT 1", database });
      expect(result.type).toBe("error");
      expect(result.content).toContain(`"${database}"`);
      expect(JSON.stringify(result)).not.toMatch(/hu%40sh|hu@sh|hush/);
    }
  });
});

test("the database of the server's own store is for admins", async () => {
  const before = process.env.DATABASE_URL;
  process.env.DATABASE_URL = "postgres://rack:secret@127.0.0.1:1/rack";
  try {
    const databases = {
      same: "postgresql://other@127.0.0.1:1/rack?x=1",
      other: "postgres://127.0.0.1:1/app",
    };
    await using space = await openTestWorkspace({}, { databases, isAdmin: false });
    const sql = "SELECT 1";
    expect(await space.failure(query, { database: "same", sql })).toContain("which is for admins");
    expect(await space.failure(query, { database: "other", sql })).toContain("ECONNREFUSED");
  } finally {
    if (before === undefined) delete process.env.DATABASE_URL;
    else process.env.DATABASE_URL = before;
  }
});

test("a row of many large values is stopped before it takes the machine's memory", async () => {
  const row = Array.from({ length: 24 }, () => "randomblob(60000000)").join(", ");
  expect(await refused(`SELECT ${row}`)).toMatch(/too much memory/);
});
