import { setTimeout as wait } from "node:timers/promises";
import type { DatabaseConnection, Dialect, Driver } from "kysely";

/**
 * Why the store cannot be used. `away`: the database server does not answer. `busy`: another process holds the file
 * locked. `full`: the disk is full. `failing`: the disk cannot be read or written. `damaged`: the file is not a whole
 * database any more.
 */
export type UnavailableReason = "away" | "busy" | "full" | "failing" | "damaged";

/** Seconds after which a client may ask again. */
const RETRY_AFTER = 5;

/**
 * Thrown by every repository while the database cannot be used. The message is for the caller and says what to do;
 * `cause` is the database's own error, for the log.
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

  /** Returns undefined for an error that does not come from an unusable store. */
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

/** Reads the error codes of the three databases and of the operating system. */
function reasonOf(thrown: unknown): UnavailableReason | undefined {
  const { code, errcode, fatal, message } = fieldsOf(thrown);
  // SQLite's code is in the lower eight bits; the upper bits only refine it.
  if (typeof errcode === "number") return sqliteReasons[errcode & 0xff];
  const known = codes.find(([, pattern]) => typeof code === "string" && pattern.test(code));
  if (known !== undefined) return known[0];
  // MySQL's driver sets `fatal` on errors that end a connection; PostgreSQL's gives such errors no code.
  const isAway = fatal === true || (thrown instanceof Error && awayMessages.test(String(message)));
  return isAway ? "away" : undefined;
}

/**
 * The codes are SQLITE_BUSY, _LOCKED, _READONLY, _IOERR, _CANTOPEN, _CORRUPT, _NOTADB and _FULL, in this
 * order.
 */
const sqliteReasons: Readonly<Record<number, UnavailableReason>> = {
  5: "busy",
  6: "busy",
  8: "failing",
  10: "failing",
  14: "failing",
  11: "damaged",
  26: "damaged",
  13: "full",
};

const codes: readonly (readonly [UnavailableReason, RegExp])[] = [
  ["full", /^(?:ENOSPC|EDQUOT|53100|ER_DISK_FULL|ER_RECORD_FILE_FULL)$/],
  ["failing", /^(?:EIO|EROFS)$/],
  [
    "away",
    /^(08...|53[023]..|57014|57P0[1-5]|E(CONN.*|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|AI_AGAIN|NOTFOUND)|PROTOCOL_.*|ER_CON_COUNT_ERROR|ER_SERVER_SHUTDOWN)$/,
  ],
];
const awayMessages =
  /connection (terminated|timeout|ended)|timeout exceeded when trying to connect|query read timeout|client has encountered a connection error/i;

/** Whether the disk, or the user's share of it, is full. */
export function isFullDisk(error: unknown): boolean {
  return StoreUnavailable.from(error)?.reason === "full";
}

/** True for lock conflicts and for connections that were refused or lost: the same statement may succeed later. */
export function isTransientError(error: unknown): boolean {
  const reason = StoreUnavailable.from(error)?.reason;
  return (
    reason === "away" || reason === "busy" || /^(40...|55P03|ER_LOCK_.*)$/.test(String(fieldsOf(error).code))
  );
}

/** Whether the error means that a row with the same key exists already. */
export function isDuplicateKey(error: unknown): boolean {
  const { code, errcode } = fieldsOf(error);
  // The numbers are SQLite's: a primary key, and a unique index.
  return errcode === 1555 || errcode === 2067 || code === "23505" || code === "ER_DUP_ENTRY";
}

/** Runs `otherwise` when `insert` fails because another process has inserted the same row in between. */
export async function unlessTaken<Result>(
  insert: () => Promise<Result>,
  otherwise: () => Promise<Result>,
): Promise<Result> {
  try {
    return await insert();
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
    return otherwise();
  }
}

/** SQLite only: the row breaks a constraint of the table, or its key is taken. */
export function isConstraintError(error: unknown): boolean {
  return (Number(fieldsOf(error).errcode) & 0xff) === 19;
}

function fieldsOf(thrown: unknown): Record<string, unknown> {
  return (thrown ?? {}) as Record<string, unknown>; // Anything thrown may have any property.
}

/** `lost` is called once when the database stops answering, `found` once when it answers again. */
export interface Reachability {
  lost(error: StoreUnavailable): void;
  found(): void;
}

/** Milliseconds for which a lock of another process is waited for. */
const LONGEST_WAIT = 5_000;

/** Tells `reachability` when the database is lost and found, by the outcomes of the queries that are passed to it. */
export class Availability {
  readonly #reachability: Reachability;
  #isLost = false;

  constructor(reachability: Reachability) {
    this.#reachability = reachability;
  }

  /** Returns the answer of a query. */
  readonly answered = <Answer>(answer: Answer): Answer => {
    if (this.#isLost) this.#reachability.found();
    this.#isLost = false;
    return answer;
  };

  /** Throws `StoreUnavailable` when the error means that, or else the error. */
  readonly failed = (error: unknown): never => {
    const unavailable = StoreUnavailable.from(error);
    if (unavailable?.reason === "away" && !this.#isLost) {
      this.#isLost = true;
      this.#reachability.lost(unavailable);
    }
    throw unavailable ?? error;
  };
}

/**
 * Wraps the dialect so that it waits for another process's lock without blocking the thread, throws `StoreUnavailable`
 * when the database cannot be used, and reports to `availability`.
 */
export function reportAvailability(dialect: Dialect, availability: Availability): Dialect {
  return {
    createDriver: () => patchDriver(dialect.createDriver(), availability),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (db) => dialect.createIntrospector(db),
  };
}

function patchDriver(driver: Driver, { answered, failed }: Availability): Driver {
  const patched = new WeakSet<DatabaseConnection>();
  const acquire = driver.acquireConnection.bind(driver);
  // Drivers compare connections by identity, so a connection is patched here and not wrapped.
  driver.acquireConnection = async (options) => {
    // Any failure to connect, a wrong password too, means the same to the caller.
    const connection = await acquire(options).catch((error) =>
      failed(StoreUnavailable.from(error) ?? new StoreUnavailable("away", error)),
    );
    if (patched.has(connection)) return connection;
    patched.add(connection);
    const execute = connection.executeQuery.bind(connection);
    connection.executeQuery = <Row>(query: Parameters<typeof execute>[0]) =>
      retryWhileLocked(() => execute<Row>(query)).then(answered, failed);
    return connection;
  };
  const rollback = driver.rollbackTransaction.bind(driver);
  // SQLite itself ends the transaction when the disk is full, and a lost connection ends it too. Then the rollback
  // fails, and only the first error matters.
  driver.rollbackTransaction = (connection) => rollback(connection).catch(() => {});
  return driver;
}

/**
 * Repeats a query while another process holds the SQLite file locked. The other engines never report `busy`.
 */
async function retryWhileLocked<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  const end = performance.now() + LONGEST_WAIT;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (reasonOf(error) !== "busy" || performance.now() > end) throw error;
      await wait(10 + Math.random() * 40);
    }
  }
}
