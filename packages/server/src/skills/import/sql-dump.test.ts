import { describe, expect, it } from "vitest";
import { fromTables } from "./imported-tables.ts";
import { parseSqlDump } from "./sql-dump.ts";

const rowsOf = (text: string) => parseSqlDump(text, ["skills"]).get("skills");
const create = "CREATE TABLE skills(id text, name text, skill_md text, enabled);";

describe("a dump", () => {
  it("of SQLite keeps texts of several lines, however it writes them", () => {
    const text = `PRAGMA foreign_keys=OFF;
${create}
INSERT INTO skills VALUES('a','b',replace(replace('l1\\012it''s\\r\\012x\\ny','\\r',char(13)),'\\012',char(10)),1);
INSERT INTO skills VALUES('c',unistr('tab\\u0009\\\\ 中'),replace('$& a\\nb','\\n',char(10)),X'41');
`;
    expect(rowsOf(text)).toEqual([
      { id: "a", name: "b", skill_md: "l1\nit's\r\nx\\ny", enabled: 1 },
      { id: "c", name: "tab\t\\ 中", skill_md: "$& a\nb", enabled: "A" },
    ]);
  });

  it("is not taken for MySQL's because a text has a backtick", () => {
    const json = '{"pattern":"\\\\d `q`"}';
    const text = `${create} INSERT INTO skills VALUES('a','\`q\` ENGINE=x','${json}',1);`;
    expect(rowsOf(text)).toEqual([{ id: "a", name: "`q` ENGINE=x", skill_md: json, enabled: 1 }]);
  });

  it.each([
    ["its head", "-- MySQL dump 10.13\nINSERT INTO skills (id,name) VALUES ('a','it\\'s');"],
    [
      "the engine of a table",
      "CREATE TABLE t (id int) ENGINE=InnoDB; INSERT INTO skills (id,name) VALUES ('a','it\\'s');",
    ],
    ["a name in backticks", "INSERT INTO `skills` (id,name) VALUES ('a','it\\'s');"],
  ])("is known for MySQL's by %s", (_sign, text) => {
    expect(rowsOf(text)).toEqual([{ id: "a", name: "it's" }]);
  });

  it("has bits, bytes and texts with a character set", () => {
    const text =
      "INSERT INTO `skills` VALUES ('a',_binary 'b\\'s',0xE4B8AD,b'0'),('b',_utf8mb4 'x',N'y',b'1'),('c','',0x00,'\\0');";
    expect(
      rowsOf(`CREATE TABLE \`skills\` (\`id\` text, name text, skill_md text, enabled bit(1));${text}`),
    ).toEqual([
      { id: "a", name: "b's", skill_md: "中", enabled: 0 },
      { id: "b", name: "x", skill_md: "y", enabled: 1 },
      { id: "c", name: "", skill_md: "\0", enabled: "\0" },
    ]);
  });

  it("of PostgreSQL has texts between dollars, escapes and types", () => {
    const text = `CREATE FUNCTION f() RETURNS text AS $body$ select 'it''s; isn't $body$ LANGUAGE sql;
INSERT INTO public.skills (id, name, skill_md) VALUES ('a'::character varying(64), $$it's$$, E'x\\n\\u4e2d\\'');`;
    expect(rowsOf(text)).toEqual([{ id: "a", name: "it's", skill_md: "x\n中'" }]);
  });

  it("is refused where a column that matters is left to the database, and only there", () => {
    const insert = (name: string, when: string) =>
      fromTables(
        parseSqlDump(`INSERT INTO skills (id,name,created_at) VALUES ('a',${name},${when});`, ["skills"]),
        true,
      ).bundles.map(({ skill }) => skill);
    expect(insert("'b'", "NOW()")).toMatchObject([{ id: "a", name: "b" }]);
    expect(insert("'b'", "date('now', ')')")).toMatchObject([{ id: "a", name: "b" }]);
    expect(() => insert("concat('a','b')", "1")).toThrow(
      "line 1: skills.name is concat('a','b'), which only the database can compute",
    );
  });

  it("of many rows is read in a time that grows with their number", () => {
    const rows = (count: number) =>
      Array.from({ length: count }, (_, at) => `('id${at}','name',NULL,1)`).join(",");
    expect(rowsOf(`${create}INSERT INTO skills VALUES ${rows(50_000)};`)).toHaveLength(50_000);
  });
});
