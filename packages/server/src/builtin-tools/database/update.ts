import * as s from "../../helpers/schema.ts";
import { amount, answer, defineTool } from "../tool-definition.ts";
import { CALL_TIMEOUT, runStatement, statementInput } from "./support/databases.ts";
import { asObjects, textTable } from "./support/rows.ts";

export default defineTool({
  name: "update",
  description:
    "Runs one SQL statement that changes a database which the workspace declares: INSERT, UPDATE, DELETE, CREATE TABLE and the like. Gives the number of affected rows, the id of the last inserted row where the database has one (PostgreSQL: use RETURNING), and the rows of RETURNING. Runs in a transaction that is committed when the statement succeeds and rolled back when it fails, times out or is cancelled; MySQL commits changes of the schema at once, whatever follows. Foreign keys are enforced.",
  input: statementInput,
  isClosed: true,
  output: {
    database: s.text(),
    affectedRows: s.anything({
      type: ["integer", "null"],
      description: "Null for statements that change no rows.",
    }),
    lastInsertId: s.anything({ type: ["integer", "string", "null"] }),
    columns: s.list(s.text()),
    rows: s.list(s.anyObject(), "What RETURNING gave."),
    truncated: s.boolean("RETURNING gave more rows than were given back."),
    elapsed: s.number("Milliseconds."),
  },
  async handler(args, ctx) {
    const ran = await runStatement(args, ctx, true);
    const { database, columns, rows, isTruncated, affectedRows, lastInsertId, elapsed } = ran;
    const changed = affectedRows === null ? "Done" : `${amount(affectedRows, "row")} affected`;
    const id = lastInsertId === null ? "" : ` Last inserted id: ${lastInsertId}.`;
    const table = columns.length === 0 ? "" : `\n\n${textTable(columns, rows)}`;
    const more = isTruncated ? "\n(More rows were returned than limit allows to show.)" : "";
    return answer(`${changed} on "${database}" in ${elapsed} ms; committed.${id}${table}${more}`, {
      database,
      affectedRows,
      lastInsertId,
      columns,
      rows: asObjects(columns, rows),
      truncated: isTruncated,
      elapsed,
    });
  },
  metadata: {
    category: "database",
    dangerous: true,
    confirm: "Run the SQL statement below, which changes the database?",
    timeout: CALL_TIMEOUT,
    tags: ["sql", "sqlite", "postgresql", "mysql", "write"],
  },
});
