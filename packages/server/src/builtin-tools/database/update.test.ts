import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import update from "./update.ts";

let workspace: TestWorkspace;

beforeEach(async () => {
  workspace = await openTestWorkspace({}, { databases: { main: "sqlite:app.db" } });
  const database = new DatabaseSync(workspace.path("app.db"));
  database.exec(`
    CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
    CREATE TABLE books (id INTEGER PRIMARY KEY, author INTEGER REFERENCES authors(id), title TEXT);
    INSERT INTO authors (name) VALUES ('Ada'), ('Grace');
    INSERT INTO books (author, title) VALUES (1, 'Notes');
  `);
  database.close();
});
afterEach(() => workspace[Symbol.asyncDispose]());

const change = (sql: string, more: Record<string, unknown> = {}) =>
  workspace.structured(update, { sql, ...more });
const refused = (sql: string, more: Record<string, unknown> = {}) =>
  workspace.failure(update, { sql, ...more });

function stored(sql: string): unknown[] {
  const database = new DatabaseSync(workspace.path("app.db"), { readOnly: true });
  const rows = database.prepare(sql).all();
  database.close();
  return rows.map((row) => ({ ...row }));
}

describe("changing", () => {
  test("tells affected rows and the last inserted id", async () => {
    expect(
      await change("INSERT INTO authors (name) VALUES (?), (?)", { params: ["Edsger", "Barbara"] }),
    ).toMatchObject({
      affectedRows: 2,
      lastInsertId: 4,
    });
    expect(
      await change("UPDATE authors SET name = upper(name) WHERE id > :id", { params: { id: 2 } }),
    ).toMatchObject({
      affectedRows: 2,
      lastInsertId: null,
    });
    expect(stored("SELECT name FROM authors WHERE id > 2")).toEqual([
      { name: "EDSGER" },
      { name: "BARBARA" },
    ]);
    const text = await workspace.text(update, { sql: "DELETE FROM authors WHERE id = 3" });
    expect(text).toMatch(/^1 row affected on "main" in \d+ ms; committed\.$/);
  });

  test("gives back what RETURNING gives, and changes all rows even when few are shown", async () => {
    const sql = "UPDATE authors SET name = name || '!' RETURNING id, name";
    expect(await change(sql, { limit: 1 })).toMatchObject({
      affectedRows: 2,
      rows: [{ id: 1, name: "Ada!" }],
      truncated: true,
    });
    expect(stored("SELECT count(*) AS n FROM authors WHERE name LIKE '%!'")).toEqual([{ n: 2 }]);
  });

  test("changes the schema, and makes a file that is not there yet", async () => {
    expect(await change("CREATE TABLE places (name TEXT)")).toMatchObject({
      affectedRows: null,
      lastInsertId: null,
    });
    await using fresh = await openTestWorkspace({}, { databases: { main: "sqlite:new.db" } });
    await fresh.structured(update, { sql: "CREATE TABLE t (a)" });
    expect(await fresh.structured(update, { sql: "INSERT INTO t VALUES (1)" })).toMatchObject({
      affectedRows: 1,
    });
  });
});

describe("undoing", () => {
  test("a statement that fails half-way leaves nothing", async () => {
    expect(await refused("INSERT INTO authors (name) VALUES ('New'), ('Ada')")).toContain("UNIQUE");
    expect(stored("SELECT count(*) AS n FROM authors")).toEqual([{ n: 2 }]);
  });

  test("foreign keys are enforced, also those that are checked at the end", async () => {
    expect(await refused("DELETE FROM authors WHERE id = 1")).toContain("FOREIGN KEY");
    await change("CREATE TABLE late (author INTEGER REFERENCES authors(id) DEFERRABLE INITIALLY DEFERRED)");
    expect(await refused("INSERT INTO late VALUES (99)")).toContain("FOREIGN KEY");
    expect(stored("SELECT count(*) AS n FROM late")).toEqual([{ n: 0 }]);
  });

  test("a timeout stops the statement and undoes it", async () => {
    const sql = `INSERT INTO authors (name)
      WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT 'x' || n FROM c`;
    expect(await refused(sql, { timeout: 700 })).toContain("its changes undone");
    expect(await change("INSERT INTO authors (name) VALUES ('After')")).toMatchObject({ affectedRows: 1 });
    expect(stored("SELECT count(*) AS n FROM authors")).toEqual([{ n: 3 }]);
  });
});

describe("staying inside", () => {
  test.each(["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ATTACH '/tmp/x.db' AS x", "DETACH x"])(
    "%s is refused",
    async (sql) => expect(await refused(sql)).toContain("transaction of its own"),
  );

  test.each(["PRAGMA foreign_keys = OFF", "PRAGMA writable_schema = ON", "VACUUM INTO 'x.db'", "VACUUM"])(
    "%s is refused by the database",
    async (sql) => expect(await refused(sql)).toMatch(/^SQLite \("main"\)/),
  );

  test("a second statement undoes the first", async () => {
    expect(await refused("DELETE FROM books; DELETE FROM authors")).toContain("only one statement");
    expect(stored("SELECT count(*) AS n FROM books")).toEqual([{ n: 1 }]);
  });

  test("a busy database is waited for", async () => {
    const other = new DatabaseSync(workspace.path("app.db"));
    other.exec("BEGIN IMMEDIATE");
    const waiting = change("DELETE FROM books");
    setTimeout(() => other.exec("COMMIT"), 400);
    expect(await waiting).toMatchObject({ affectedRows: 1 });
    other.close();
  });
});
