import type { InternalTool, InternalToolContext } from "../../calls/index.ts";
import { asObjects, textTable } from "./support/rows.ts";
import {
  LONGEST_TIMEOUT,
  type RanStatement,
  runStatement,
  type StatementArguments,
  statementSchema,
} from "./support/run-statement.ts";

export default {
  name: "update",
  description:
    "Runs one SQL statement that changes a database which the workspace declares: INSERT, UPDATE, DELETE, CREATE TABLE and the like. Gives the number of affected rows, the id of the last inserted row where the database has one (PostgreSQL: use RETURNING), and the rows of RETURNING. Runs in a transaction that is committed when the statement succeeds and rolled back when it fails, times out or is cancelled; MySQL commits changes of the schema at once, whatever follows. Foreign keys are enforced.",
  inputSchema: statementSchema,
  outputSchema: {
    type: "object",
    properties: {
      database: { type: "string" },
      affectedRows: { type: ["integer", "null"], description: "Null for statements that change no rows." },
      lastInsertId: { type: ["integer", "string", "null"] },
      columns: { type: "array", items: { type: "string" } },
      rows: { type: "array", items: { type: "object" }, description: "What RETURNING gave." },
      truncated: { type: "boolean", description: "RETURNING gave more rows than were given back." },
      elapsed: { type: "number", description: "Milliseconds." },
    },
    required: ["database", "affectedRows", "lastInsertId", "columns", "rows", "truncated", "elapsed"],
  },
  async handler(args: StatementArguments, ctx: InternalToolContext) {
    const ran = await runStatement(args, ctx, true);
    const { database, columns, rows, isTruncated, affectedRows, lastInsertId, elapsed } = ran;
    return {
      content: [{ type: "text", text: describe(ran) }],
      structuredContent: {
        database,
        affectedRows,
        lastInsertId,
        columns,
        rows: asObjects(columns, rows),
        truncated: isTruncated,
        elapsed,
      },
    };
  },
  metadata: {
    category: "database",
    dangerous: true,
    confirm: "Run the SQL statement below, which changes the database?",
    timeout: LONGEST_TIMEOUT + 15_000,
    tags: ["sql", "sqlite", "postgresql", "mysql", "write"],
  },
} satisfies InternalTool;

function describe({
  database,
  columns,
  rows,
  isTruncated,
  affectedRows,
  lastInsertId,
  elapsed,
}: RanStatement): string {
  const changed =
    affectedRows === null ? "Done" : `${affectedRows} row${affectedRows === 1 ? "" : "s"} affected`;
  const id = lastInsertId === null ? "" : ` Last inserted id: ${lastInsertId}.`;
  const table = columns.length === 0 ? "" : `\n\n${textTable(columns, rows)}`;
  const more = isTruncated ? "\n(More rows were returned than limit allows to show.)" : "";
  return `${changed} on "${database}" in ${elapsed} ms; committed.${id}${table}${more}`;
}
