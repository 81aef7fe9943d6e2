/** What begins a statement that only reads. */
const reading = new Set([
  "SELECT",
  "WITH",
  "VALUES",
  "TABLE",
  "SHOW",
  "EXPLAIN",
  "DESCRIBE",
  "DESC",
  "PRAGMA",
]);

/** What would step out of the transaction that the tool itself keeps, or out of the database. */
const refused = new Set([
  "ABORT",
  "ATTACH",
  "BEGIN",
  "COMMIT",
  "COPY",
  "DETACH",
  "END",
  "HANDLER",
  "LOAD",
  "LOCK",
  "PREPARE",
  "RELEASE",
  "ROLLBACK",
  "SAVEPOINT",
  "SET",
  "START",
  "UNLOCK",
  "USE",
  "XA",
]);

/** Refuses a statement that the tool is not for, before any database sees it. The databases refuse them as well. */
export function checkStatement(sql: string, isWrite: boolean): void {
  const word = leadingWord(sql);
  if (word === "") throw new Error("The sql holds no statement. Give exactly one SQL statement.");
  if (!isWrite && !reading.has(word)) {
    throw new Error(
      `${word} is not a reading statement, and internal_database_query only reads. Use internal_database_update to change data.`,
    );
  }
  if (isWrite && refused.has(word)) {
    throw new Error(
      `${word} cannot be used here: the statement already runs in a transaction of its own, which is committed when it succeeds and rolled back when it fails.`,
    );
  }
}

/** The first word of a statement in upper case, past comments and opening brackets. */
export function leadingWord(sql: string): string {
  // MySQL runs what stands in comments that begin with "/*!", so those are not skipped.
  const start = /^(?:[\s(;]|(?:--|#)[^\n]*(?:\n|$)|\/\*(?!!)[\s\S]*?\*\/)*/.exec(sql)?.[0].length ?? 0;
  return /^[A-Za-z]+|^\S/.exec(sql.slice(start))?.[0].toUpperCase() ?? "";
}

/** Whether what follows a statement is comments and semicolons only. */
export function isBlank(sql: string): boolean {
  return /^[\s;]*$/.test(sql.replace(/--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g, ""));
}
