/** Lock conflicts, and connections that were refused or lost. Data and statements that are wrong are not. */
export function isTransientError(error: unknown): boolean {
  const { code, errcode, fatal, message } = error as Record<string, unknown>;
  // SQLite: busy and locked, with the finer distinctions in the upper bits.
  if (typeof errcode === "number") return (errcode & 0xff) === 5 || (errcode & 0xff) === 6;
  // MySQL's driver marks so what ends a connection.
  if (fatal === true) return true;
  if (typeof code === "string") return transientCodes.test(code);
  // The PostgreSQL driver gives these no code.
  return /connection (terminated|timeout|ended)|timeout exceeded when trying to connect/i.test(
    String(message),
  );
}

const transientCodes =
  /^(08...|40...|53...|55P03|57P0[1-3]|E(CONN|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|AI_AGAIN).*|PROTOCOL_.*|ER_LOCK_.*|ER_CON_COUNT_ERROR|ER_SERVER_SHUTDOWN)$/;

/** Whether a row with the same key is there already. */
export function isDuplicateKey(error: unknown): boolean {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  // SQLite: constraint of a primary key, and of a unique index.
  return errcode === 1555 || errcode === 2067 || code === "23505" || code === "ER_DUP_ENTRY";
}

/** SQLite: the row is one that the table never takes, or has already. */
export function isConstraintError(error: unknown): boolean {
  const { errcode } = error as { errcode?: unknown };
  return typeof errcode === "number" && (errcode & 0xff) === 19;
}

/** There is no room left where the data is kept, or the user may have no more of it. */
export function isFullDisk(error: unknown): boolean {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  if (typeof errcode === "number") return (errcode & 0xff) === 13;
  return typeof code === "string" && /^(?:ENOSPC|EDQUOT|53100|ER_DISK_FULL|ER_RECORD_FILE_FULL)$/.test(code);
}
