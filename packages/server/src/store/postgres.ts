import type { Connection, Pool, PoolClient, PoolConfig, Submittable } from "pg";
import { StoreUnavailable } from "./database-errors.ts";

const INT8 = 20;
/** Milliseconds. No query of ours takes this long, so the server must be hanging. */
export const QUERY_LIMIT = 30_000;

export async function createPostgresPool(url: string): Promise<Pool> {
  // Loaded only where it is used: most workspaces keep their records in SQLite.
  const { default: pg } = await import("pg");
  const getTypeParser = (oid: number, format?: "text" | "binary") =>
    // All bigint columns are times or sizes, far below the limit of exact numbers.
    oid === INT8 && format !== "binary" ? Number : pg.types.getTypeParser(oid, format as "text");
  const pool = new pg.Pool({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    query_timeout: QUERY_LIMIT,
    statement_timeout: QUERY_LIMIT,
    keepAlive: true,
    application_name: "toolrack",
    max: 10,
    // Longer than the longest pause of a node that has nothing to do, which would otherwise connect anew each time.
    idleTimeoutMillis: 90_000,
    // The declared type is a family of overloads for each format; this one function answers all of them.
    types: { getTypeParser } as unknown as NonNullable<PoolConfig["types"]>,
    onConnect: async (client) => {
      // A broken connection fails its query. Without a listener this event would end the process.
      client.on("error", () => {});
      // Compiling a query takes seconds where PostgreSQL takes a chain of calls for an endless one, and gains nothing here.
      // By its default a page that an index finds costs four times as much as the next one, as on a turning disk: then it
      // reads all counts of calls to add up a few of them.
      await client.query("set jit = off; set random_page_cost = 1.1");
    },
  });
  // The same event of a connection that the pool keeps for later. The pool replaces the connection.
  pool.on("error", () => {});
  return pool;
}

/** `values` are texts as PostgreSQL writes them. */
export interface PreparedStatement {
  readonly name: string;
  readonly text: string;
  readonly values: string[];
}

/**
 * Runs what every call needs over a connection that it keeps, which prepares each statement once. Through the pool, and with
 * a description of the rows that nobody reads, the way there and back takes a process 97 µs; this way it takes 44.
 */
export class PreparedStatements {
  readonly #pool: Pool;
  #client: PoolClient | undefined;
  #isBusy = false;
  #isClosed = false;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async run(statement: PreparedStatement): Promise<void> {
    // Another statement has the connection: calls that claim their ids do not wait for a batch of records.
    if (this.#isBusy) return void (await this.#pool.query(statement));
    this.#isBusy = true;
    try {
      const client = this.#client ?? (await this.#connect());
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      client.query(new Execution(statement, (error) => (error ? reject(error) : resolve())));
      await promise;
    } catch (error) {
      if (StoreUnavailable.from(error) !== undefined) this.#drop();
      throw error;
    } finally {
      this.#isBusy = false;
      if (this.#isClosed) this.#drop();
    }
  }

  /** To be called before the pool is closed, which waits for this connection. */
  close(): void {
    this.#isClosed = true;
    if (!this.#isBusy) this.#drop();
  }

  async #connect(): Promise<PoolClient> {
    const client = await this.#pool.connect();
    this.#client = client;
    client.once("end", () => {
      if (this.#client === client) this.#drop();
    });
    return client;
  }

  #drop(): void {
    this.#client?.release(true);
    this.#client = undefined;
  }
}

/** One run of a statement, as the driver wants it. Whatever rows it returns are not read. */
class Execution implements Submittable {
  /** By this name the driver notes that the connection has prepared the statement. */
  readonly name: string;
  readonly text: string;
  readonly #values: string[];
  /** The driver replaces it by one that also ends the time limit. */
  callback: (error?: Error | null) => void;

  constructor({ name, text, values }: PreparedStatement, callback: Execution["callback"]) {
    this.name = name;
    this.text = text;
    this.#values = values;
    this.callback = callback;
  }

  submit(connection: Connection): void {
    const { name, text } = this;
    // What the driver has noted; its types leave it out.
    const { parsedStatements } = connection as Connection & { parsedStatements: Record<string, string> };
    // One write for all messages.
    connection.stream.cork();
    if (parsedStatements[name] === undefined) connection.parse({ name, text, types: [] }, true);
    connection.bind({ statement: name, values: this.#values }, true);
    connection.execute({}, true);
    connection.sync();
    connection.stream.uncork();
  }

  handleDataRow(): void {}
  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.callback();
  }

  handleError(error: Error): void {
    this.callback(error);
  }
}
