import * as s from "../../helpers/schema.ts";
import { amount, answer, defineTool } from "../tool-definition.ts";
import { CALL_TIMEOUT, runStatement, statementInput } from "./support/databases.ts";
import { asObjects, textTable } from "./support/rows.ts";

export default defineTool({
  name: "query",
  description:
    "Runs one reading SQL statement (SELECT, WITH, SHOW, EXPLAIN, PRAGMA table_info …) on a database that the workspace declares, and gives the rows as a table. The database itself refuses every change: SQLite is opened read-only, PostgreSQL and MySQL run it in a read-only transaction. Gives at most `limit` rows and says when there are more. Long values are clipped in the text; the structured rows keep up to 64 K characters of each. Integers too large for JSON are strings, binary values are {bytes, base64}.",
  input: statementInput,
  isClosed: true,
  output: {
    database: s.text(),
    columns: s.list(s.text()),
    rows: s.list(s.anyObject()),
    rowCount: s.integer(),
    truncated: s.boolean("There are more rows than were given back."),
    elapsed: s.number("Milliseconds."),
  },
  async handler(args, ctx) {
    const { database, columns, rows, isTruncated, elapsed } = await runStatement(args, ctx, false);
    const more = isTruncated
      ? " There are more: raise limit, or narrow the statement with WHERE or LIMIT … OFFSET."
      : "";
    const table = columns.length === 0 ? "" : `${textTable(columns, rows)}\n\n`;
    return answer(`${table}${amount(rows.length, "row")} from "${database}" in ${elapsed} ms.${more}`, {
      database,
      columns,
      rows: asObjects(columns, rows),
      rowCount: rows.length,
      truncated: isTruncated,
      elapsed,
    });
  },
  metadata: {
    category: "database",
    readOnly: true,
    idempotent: true,
    timeout: CALL_TIMEOUT,
    tags: ["sql", "sqlite", "postgresql", "mysql"],
  },
});
