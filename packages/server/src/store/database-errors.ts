import type { DatabaseConnection, Dialect, Driver } from "kysely";

/**
 * Why the store cannot do what it was asked for. `away`: the database server does not answer. `busy`: another process
 * holds the file locked. `full`: there is no room left. `failing`: the disk cannot be read or written. `damaged`: the
 * file is no whole database any more.
 */
export type UnavailableReason = "away" | "busy" | "full" | "failing" | "damaged";

/** Seconds after which asking again makes sense. */
const RETRY_AFTER = 5;

/**
 * Thrown by every repository of the store when it cannot be used now, whatever was asked of it. The message is for
 * whoever asked, and says what to do; `cause` has what the database said, which is for the log.
 */
export class StoreUnavailable extends Error {
  readonly code = "store_unavailable";
  readonly reason: UnavailableReason;
  readonly retryAfter = RETRY_AFTER;

  constructor(reason: UnavailableReason, cause: unknown) {
    super(messages[reason], { cause });
    this.name = "StoreUnavailable";
    this.reason = reason;
  }

  /** What was thrown, if it says that the store cannot be used; undefined when it is about something else. */
  static from(thrown: unknown): StoreUnavailable | undefined {
    if (thrown instanceof StoreUnavailable) return thrown;
    const reason = reasonOf(thrown);
    return reason === undefined ? undefined : new StoreUnavailable(reason, thrown);
  }
}

const messages: Readonly<Record<UnavailableReason, string>> = {
  away: "The database in which the rack keeps its data does not answer, so this could not be done. Ask again in a moment: the server connects to it again by itself as soon as it is back.",
  busy: "Another process keeps the rack's database locked, so this could not be done. Ask again in a moment, or end that process.",
  full: "The disk on which the rack keeps its data is full, so this was not done, or not all of it. Make room there, look what there is now, and do the rest.",
  failing:
    "The disk on which the rack keeps its data cannot be read or written, so this was not done, or not all of it. Check that disk and its mount; the server's log has what it said.",
  damaged:
    "The file in which the rack keeps its data is damaged, so this could not be done. Stop the server and run `toolrack doctor --repair`: it keeps a copy and saves what can be read.",
};

/** By the codes of the three databases and of the operating system. */
function reasonOf(thrown: unknown): UnavailableReason | undefined {
  if (isFullDisk(thrown)) return "full";
  const { code, errcode, fatal, message } = fieldsOf(thrown);
  // SQLite, with the finer distinctions in the upper bits.
  if (typeof errcode === "number") return sqliteReasons[errcode & 0xff];
  if (code === "EIO" || code === "EROFS") return "failing";
  if (typeof code === "string" && awayCodes.test(code)) return "away";
  // MySQL's driver marks so what ends a connection; PostgreSQL's gives the others no code.
  const isAway = fatal === true || (thrown instanceof Error && awayMessages.test(String(message)));
  return isAway ? "away" : undefined;
}

/** `SQLITE_BUSY` and `_LOCKED`; `_READONLY`, `_IOERR` and `_CANTOPEN`; `_CORRUPT` and `_NOTADB`. */
const sqliteReasons: Readonly<Record<number, UnavailableReason>> = {
  5: "busy",
  6: "busy",
  8: "failing",
  10: "failing",
  14: "failing",
  11: "damaged",
  26: "damaged",
};

const awayCodes =
  /^(08...|53[023]..|57014|57P0[1-5]|E(CONN.*|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|AI_AGAIN|NOTFOUND)|PROTOCOL_.*|ER_CON_COUNT_ERROR|ER_SERVER_SHUTDOWN)$/;
const awayMessages =
  /connection (terminated|timeout|ended)|timeout exceeded when trying to connect|query read timeout|client has encountered a connection error/i;

/** There is no room left where the data is kept, or the user may have no more of it. */
export function isFullDisk(error: unknown): boolean {
  const { code, errcode } = saidBy(error);
  if (typeof errcode === "number") return (errcode & 0xff) === 13;
  return typeof code === "string" && /^(?:ENOSPC|EDQUOT|53100|ER_DISK_FULL|ER_RECORD_FILE_FULL)$/.test(code);
}

/** Lock conflicts, and connections that were refused or lost. Data and statements that are wrong are not. */
export function isTransientError(error: unknown): boolean {
  const { code, errcode, fatal, message } = saidBy(error);
  // SQLite: busy and locked, with the finer distinctions in the upper bits.
  if (typeof errcode === "number") return (errcode & 0xff) === 5 || (errcode & 0xff) === 6;
  // MySQL's driver marks so what ends a connection.
  if (fatal === true) return true;
  if (typeof code === "string") return transientCodes.test(code);
  // The PostgreSQL driver gives these no code.
  return /connection (terminated|timeout|ended)|timeout exceeded when trying to connect|query read timeout/i.test(
    String(message),
  );
}

const transientCodes =
  /^(08...|40...|53...|55P03|57P0[1-3]|E(CONN|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|AI_AGAIN).*|PROTOCOL_.*|ER_LOCK_.*|ER_CON_COUNT_ERROR|ER_SERVER_SHUTDOWN)$/;

/** Whether a row with the same key is there already. */
export function isDuplicateKey(error: unknown): boolean {
  const { code, errcode } = fieldsOf(error);
  // SQLite: constraint of a primary key, and of a unique index.
  return errcode === 1555 || errcode === 2067 || code === "23505" || code === "ER_DUP_ENTRY";
}

/** SQLite: the row is one that the table never takes, or has already. */
export function isConstraintError(error: unknown): boolean {
  const { errcode } = fieldsOf(error);
  return typeof errcode === "number" && (errcode & 0xff) === 19;
}

/** What the database itself said, where the store has put it in words of its own. */
function saidBy(error: unknown): Record<string, unknown> {
  const fields = fieldsOf(error);
  return fields.code === "store_unavailable" ? fieldsOf(fields.cause) : fields;
}

function fieldsOf(thrown: unknown): Record<string, unknown> {
  return (thrown ?? {}) as Record<string, unknown>; // Anything thrown may have any property.
}

/** Is told of every change between a database that answers and one that does not. */
export interface Reachability {
  lost(error: StoreUnavailable): void;
  found(): void;
}

/** The dialect, with every failure that means that the database cannot be used thrown as `StoreUnavailable`. */
export function reporting(dialect: Dialect, reachability: Reachability): Dialect {
  return {
    createDriver: () => reportingDriver(dialect.createDriver(), reachability),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (db) => dialect.createIntrospector(db),
  };
}

function reportingDriver(driver: Driver, reachability: Reachability): Driver {
  const seen = new WeakSet<DatabaseConnection>();
  let isLost = false;
  const fail = (error: unknown): never => {
    const unavailable = StoreUnavailable.from(error);
    if (unavailable?.reason === "away" && !isLost) {
      isLost = true;
      reachability.lost(unavailable);
    }
    throw unavailable ?? error;
  };
  const answered = <Answer>(answer: Answer): Answer => {
    if (isLost) reachability.found();
    isLost = false;
    return answer;
  };
  const acquire = driver.acquireConnection.bind(driver);
  // The drivers know connections by the very objects that they gave out, so these are changed and not wrapped.
  driver.acquireConnection = async (options) => {
    // Whatever keeps it from connecting, a wrong password too, is the same for who asks.
    const connection = await acquire(options).catch((error) =>
      fail(StoreUnavailable.from(error) ?? new StoreUnavailable("away", error)),
    );
    if (seen.has(connection)) return connection;
    seen.add(connection);
    const execute = connection.executeQuery.bind(connection);
    connection.executeQuery = <Row>(query: Parameters<typeof execute>[0]) =>
      execute<Row>(query).then(answered, fail);
    return connection;
  };
  return driver;
}
