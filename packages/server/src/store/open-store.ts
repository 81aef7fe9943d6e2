import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Kysely } from "kysely";
import { ApprovalRepository } from "./approvals/approval-repository.ts";
import { BlobDirectory } from "./blobs/blob-directory.ts";
import { CallRepository } from "./calls/call-repository.ts";
import { collectBlobs, pruneCalls } from "./calls/prune-calls.ts";
import { type Engine, engineOf } from "./database/engine.ts";
import { type OpenedDatabase, openDatabase } from "./database/open-database.ts";
import { Instance } from "./instances/instance.ts";
import { migrate } from "./migrations/migrate.ts";
import { RegistryVersion } from "./registry-version/registry-version.ts";
import { ScheduleRepository } from "./schedules/schedule-repository.ts";
import { SecretRepository } from "./secrets/secret-repository.ts";
import type { Store } from "./store.ts";
import { TokenRepository } from "./tokens/token-repository.ts";

export interface StoreOptions {
  /** For the SQLite file, blobs and locks. Made, for this user only, when it is not there. */
  readonly directory: string;
  /** `postgres://…`, `mysql://…` or `mariadb://…`; SQLite without it. */
  readonly url?: string;
}

/** Opens the store and brings its tables up to date. */
export async function openStore({ directory, url = "" }: StoreOptions): Promise<Store> {
  const engine = engineOf(url);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const place = engine === "sqlite" ? join(directory, "toolrack.db") : url;
  const { database, instance } = await open(engine, place, join(directory, "instances")).catch((error) => {
    throw new Error(`Cannot open ${describePlace(engine, place)}: ${reasonOf(error)}`, { cause: error });
  });
  const { db } = database;
  const blobs = new BlobDirectory(join(directory, "blobs"));
  const calls = new CallRepository({ db, engine, blobs, instance });
  const approvals = new ApprovalRepository(db);
  let closing: Promise<void> | undefined;
  return {
    engine,
    calls,
    tokens: new TokenRepository(db),
    approvals,
    secrets: new SecretRepository(db),
    schedules: new ScheduleRepository(db),
    registryVersion: new RegistryVersion(db),
    async prune(retention) {
      await pruneCalls(db, retention);
      if (retention.maxAge !== undefined) await approvals.prune(Date.now() - retention.maxAge);
      await collectBlobs(db, blobs);
    },
    close() {
      closing ??= close(calls, instance, database);
      return closing;
    },
  };
}

async function open(engine: Engine, place: string, locks: string) {
  const database = await openDatabase(engine, place);
  try {
    // The tables that the type speaks of are only made by the migrations.
    await migrate(database.db as unknown as Kysely<unknown>, engine);
    return { database, instance: await Instance.start(database.db, engine, locks) };
  } catch (error) {
    await database.close().catch(() => {});
    throw error;
  }
}

async function close(calls: CallRepository, instance: Instance, database: OpenedDatabase): Promise<void> {
  await calls.flush();
  try {
    await instance.stop();
  } finally {
    await database.close();
  }
}

/** Without user and password. */
function describePlace(engine: Engine, place: string): string {
  if (engine === "sqlite") return place;
  const { protocol, host, pathname } = new URL(place);
  return `the database at ${protocol}//${host}${pathname}`;
}

function reasonOf(error: unknown): string {
  // Several addresses of one host fail together, and their common error has no message of its own.
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return first instanceof Error ? first.message : String(first);
}
