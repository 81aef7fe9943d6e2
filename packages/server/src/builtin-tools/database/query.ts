import type { InternalTool, InternalToolContext } from "../../calls/index.ts";
import { asObjects, textTable } from "./support/rows.ts";
import {
  LONGEST_TIMEOUT,
  runStatement,
  type StatementArguments,
  statementSchema,
} from "./support/run-statement.ts";

export default {
  name: "query",
  description:
    "Runs one reading SQL statement (SELECT, WITH, SHOW, EXPLAIN, PRAGMA table_info …) on a database that the workspace declares, and gives the rows as a table. The database itself refuses every change: SQLite is opened read-only, PostgreSQL and MySQL run it in a read-only transaction. Gives at most `limit` rows and says when there are more. Long values are clipped in the text; the structured rows keep up to 64 K characters of each. Integers too large for JSON are strings, binary values are {bytes, base64}.",
  inputSchema: statementSchema,
  outputSchema: {
    type: "object",
    properties: {
      database: { type: "string" },
      columns: { type: "array", items: { type: "string" } },
      rows: { type: "array", items: { type: "object" } },
      rowCount: { type: "integer" },
      truncated: { type: "boolean", description: "There are more rows than were given back." },
      elapsed: { type: "number", description: "Milliseconds." },
    },
    required: ["database", "columns", "rows", "rowCount", "truncated", "elapsed"],
  },
  async handler(args: StatementArguments, ctx: InternalToolContext) {
    const { database, columns, rows, isTruncated, elapsed } = await runStatement(args, ctx, false);
    const count = `${rows.length} row${rows.length === 1 ? "" : "s"}`;
    const more = isTruncated
      ? " There are more: raise limit, or narrow the statement with WHERE or LIMIT … OFFSET."
      : "";
    const table = columns.length === 0 ? "" : `${textTable(columns, rows)}\n\n`;
    return {
      content: [{ type: "text", text: `${table}${count} from "${database}" in ${elapsed} ms.${more}` }],
      structuredContent: {
        database,
        columns,
        rows: asObjects(columns, rows),
        rowCount: rows.length,
        truncated: isTruncated,
        elapsed,
      },
    };
  },
  metadata: {
    category: "database",
    readOnly: true,
    idempotent: true,
    timeout: LONGEST_TIMEOUT + 15_000,
    tags: ["sql", "sqlite", "postgresql", "mysql"],
  },
} satisfies InternalTool;
