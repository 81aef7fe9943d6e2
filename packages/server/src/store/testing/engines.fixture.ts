import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "kysely";
import { afterAll, beforeAll, describe } from "vitest";
import {
  findMariadb,
  findPostgres,
  startMariadb,
  startPostgres,
  type TestDatabaseServer,
} from "../../builtin-tools/testing/database-servers.ts";
import { engineOf, openDatabase } from "../database.ts";

import { openStore, type Store, type StoreOptions } from "../store.ts";

/** A place for one or more stores, gone after the tests. */
export interface TestPlace {
  /** An empty database and directory of their own. */
  make(): Promise<StoreOptions>;
  /** Opened on the given place, or on a new one; closed after the tests. */
  open(options?: StoreOptions): Promise<Store>;
  /** Runs a statement behind the store's back. */
  run(options: StoreOptions, statement: string): Promise<void>;
  /** Breaks every connection to the database, as a restart of the server would. SQLite has none. */
  cutConnections(options: StoreOptions): Promise<void>;
}

interface Server {
  readonly title: string;
  /** Why it is skipped, when it is. */
  readonly missing?: string;
  start?(): Promise<TestDatabaseServer>;
  /** Makes an empty database beside the one the URL names. */
  createDatabase?(url: string, name: string): Promise<void>;
  dropDatabase?(url: string, name: string): Promise<void>;
  cutConnections?(url: string): Promise<void>;
}

/** Runs the same tests on SQLite, PostgreSQL and MariaDB; a server that is not installed is skipped, and said so. */
export function describeOnEveryEngine(tests: (place: TestPlace) => void): void {
  for (const server of servers()) {
    if (server.missing !== undefined)
      console.warn(`SKIPPED: the store on ${server.title}. ${server.missing}`);
    describe.skipIf(server.missing !== undefined)(`the store on ${server.title}`, () => {
      const directories: string[] = [];
      const made: string[] = [];
      const stores: Store[] = [];
      let running: TestDatabaseServer | undefined;
      let databases = 0;

      beforeAll(async () => {
        running = await server.start?.();
      }, 90_000);
      afterAll(async () => {
        for (const store of stores) await store.close();
        for (const name of made) await server.dropDatabase?.(running!.url, name);
        await running?.[Symbol.asyncDispose]();
        for (const directory of directories) await rm(directory, { recursive: true, force: true });
      }, 30_000);

      const make = async (): Promise<StoreOptions> => {
        const directory = await mkdtemp(join(tmpdir(), "toolrack-store-"));
        directories.push(directory);
        if (running === undefined) return { directory };
        // The server may be somebody's own.
        const name = `toolrack_test_${process.pid}_${++databases}`;
        await server.createDatabase?.(running.url, name);
        made.push(name);
        const url = new URL(running.url);
        url.pathname = name;
        return { directory, url: url.href };
      };
      tests({
        make,
        async open(options) {
          const store = await openStore(options ?? (await make()));
          stores.push(store);
          return store;
        },
        async run({ directory, url }, statement) {
          const { db, close } = await openDatabase(engineOf(url), url ?? join(directory, "toolrack.db"));
          await sql.raw(statement).execute(db);
          await close();
        },
        async cutConnections({ url }) {
          if (url !== undefined) await server.cutConnections?.(url);
        },
      });
    });
  }
}

function servers(): Server[] {
  const { POSTGRES_URL, MYSQL_URL } = process.env;
  const postgres = findPostgres();
  const mariadb = findMariadb();
  return [
    { title: "SQLite" },
    {
      title: "PostgreSQL",
      ...(postgres === undefined && POSTGRES_URL === undefined
        ? { missing: "Install PostgreSQL, or name a server in POSTGRES_URL, to run it." }
        : {}),
      start: () => (POSTGRES_URL === undefined ? startPostgres(postgres!) : givenServer(POSTGRES_URL)),
      dropDatabase: (url, name) => runOnPostgres(url, `DROP DATABASE ${name} WITH (FORCE)`),
      createDatabase: (url, name) => runOnPostgres(url, `CREATE DATABASE ${name}`),
      cutConnections: (url) =>
        runOnPostgres(
          url,
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        ),
    },
    {
      title: "MariaDB",
      ...(mariadb === undefined && MYSQL_URL === undefined
        ? { missing: "Install MariaDB, or name a server in MYSQL_URL, to run it." }
        : {}),
      start: () => (MYSQL_URL === undefined ? startMariadb(mariadb!) : givenServer(MYSQL_URL)),
      dropDatabase: (url, name) => runOnMariadb(url, `DROP DATABASE ${name}`),
      // With a character set that cannot hold most of what the tests write, as an old server would have it.
      createDatabase: (url, name) => runOnMariadb(url, `CREATE DATABASE ${name} CHARACTER SET latin1`),
      cutConnections: cutMariadbConnections,
    },
  ];
}

/** A server that runs already, and goes on after the tests. */
async function givenServer(url: string): Promise<TestDatabaseServer> {
  const cannot = () => Promise.reject(new Error("The server belongs to somebody else and goes on."));
  return { url, goAway: cannot, comeBack: cannot, [Symbol.asyncDispose]: async () => {} };
}

async function runOnPostgres(url: string, statement: string): Promise<void> {
  const { default: pg } = await import("pg");
  const client = new pg.Client(url);
  await client.connect();
  await client.query(statement);
  await client.end();
}

async function runOnMariadb(url: string, statement: string): Promise<void> {
  const { createConnection } = await import("mysql2/promise");
  const connection = await createConnection(url);
  await connection.query(statement);
  await connection.end();
}

async function cutMariadbConnections(url: string): Promise<void> {
  const { createConnection } = await import("mysql2/promise");
  const connection = await createConnection(url);
  const [rows] = await connection.query(
    "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
  );
  // One that ended by itself in between cannot be ended again.
  for (const { id } of rows as { id: number }[]) await connection.query(`KILL ${id}`).catch(() => {});
  await connection.end();
}
