/** A value as JSON can carry it. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

export type StatementParameters = readonly JsonValue[] | Readonly<Record<string, JsonValue>>;

/** One statement for one database. */
export interface Statement {
  readonly sql: string;
  readonly params: StatementParameters;
  /** Most rows to give back. */
  readonly limit: number;
  /** Milliseconds. */
  readonly timeout: number;
  /** `false`: the database itself must refuse every change. */
  readonly isWrite: boolean;
}

/** What a statement gave. Every value is safe for JSON. */
export interface StatementResult {
  /** In the order of the statement, made unique. */
  readonly columns: readonly string[];
  /** Values in the order of the columns. */
  readonly rows: readonly (readonly JsonValue[])[];
  /** There were more rows than were given back. */
  readonly isTruncated: boolean;
  /** Null for a statement that only reads. */
  readonly affectedRows: number | null;
  readonly lastInsertId: number | string | null;
}

/**
 * Runs statements on one kind of database. `run` opens its own connection and closes it. It rejects with the
 * database's own complaint; when `signal` aborts, the database stops working on the statement, and what it had
 * changed is undone. A change that has come to its commit is no longer stopped, so that a rejection by `signal` always
 * means that nothing was changed.
 */
export interface DatabaseEngine {
  readonly name: string;
  run(statement: Statement, signal: AbortSignal): Promise<StatementResult>;
}
