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

/** How many connections are kept for statements: one for records, one for calls that claim their ids or go to workers. */
const KEPT = 2;

/**
 * Runs what every call needs over connections that it keeps, which prepare each statement once. Through the pool, and with
 * a description of the rows that nobody reads, the way there and back takes a process 97 µs; this way it takes 44.
 */
export class PreparedStatements {
  readonly #pool: Pool;
  /** Kept connections that have nothing to do. */
  #idle: PoolClient[] = [];
  #isClosed = false;

  constructor(pool: Pool) {
    this.#pool = pool;
    pool.on("connect", (client) => client.once("end", () => this.#forget(client)));
  }

  /** Resolves with the first column of each row that the statement returns. */
  async run(statement: PreparedStatement): Promise<string[]> {
    const client = this.#idle.pop() ?? (await this.#pool.connect());
    let isBroken = false;
    try {
      const { promise, resolve, reject } = Promise.withResolvers<string[]>();
      client.query(new Execution(statement, resolve, reject));
      return await promise;
    } catch (error) {
      isBroken = StoreUnavailable.from(error) !== undefined;
      throw error;
    } finally {
      if (isBroken || this.#isClosed || this.#idle.length === KEPT) client.release(isBroken);
      else this.#idle.push(client);
    }
  }

  /** To be called before the pool is closed, which waits for these connections. */
  close(): void {
    this.#isClosed = true;
    for (const client of this.#idle.splice(0)) client.release(true);
  }

  #forget(ended: PoolClient): void {
    if (!this.#idle.includes(ended)) return;
    this.#idle = this.#idle.filter((client) => client !== ended);
    ended.release(true);
  }
}

/** One run of a statement, as the driver wants it. Of each row that it returns, the first column is read. */
class Execution implements Submittable {
  /** By this name the driver notes that the connection has prepared the statement. */
  readonly name: string;
  readonly text: string;
  readonly #values: string[];
  readonly #found: string[] = [];
  /** The driver replaces it by one that also ends the time limit. */
  callback: (error?: Error | null) => void;

  constructor(
    { name, text, values }: PreparedStatement,
    resolve: (found: string[]) => void,
    reject: (error: Error) => void,
  ) {
    this.name = name;
    this.text = text;
    this.#values = values;
    this.callback = (error) => (error ? reject(error) : resolve(this.#found));
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

  handleDataRow({ fields: [first] }: { readonly fields: readonly string[] }): void {
    if (first !== undefined) this.#found.push(first);
  }
  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.callback();
  }

  handleError(error: Error): void {
    this.callback(error);
  }
}
