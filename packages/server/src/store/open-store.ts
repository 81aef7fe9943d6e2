import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Logger } from "@toolrack/core";
import { type Kysely, sql } from "kysely";
import { makeOwnFolder } from "../host/make-own-folder.ts";
import { ApprovalRepository } from "./approvals/approval-repository.ts";
import { BlobDirectory } from "./blobs/blob-directory.ts";
import { CallJournals } from "./calls/call-journals.ts";
import { CallRepository } from "./calls/call-repository.ts";
import { collectBlobs, pruneCalls } from "./calls/prune-calls.ts";
import { ChatRepository } from "./chat/chat-repository.ts";
import { type Engine, engineOf } from "./database/engine.ts";
import { type OpenedDatabase, openDatabase } from "./database/open-database.ts";
import { ExpertRepository } from "./experts/expert-repository.ts";
import { Instance } from "./instances/instance.ts";
import { McpServerRepository } from "./mcp-servers/mcp-server-repository.ts";
import { migrate } from "./migrations/migrate.ts";
import { RegistryVersion } from "./registry-version/registry-version.ts";
import { ScheduleRepository } from "./schedules/schedule-repository.ts";
import { SecretRepository } from "./secrets/secret-repository.ts";
import { SkillRepository } from "./skills/skill-repository.ts";
import type { Store } from "./store.ts";
import { TokenRepository } from "./tokens/token-repository.ts";
import { ToolSwitchRepository } from "./tool-switches/tool-switch-repository.ts";

export interface StoreOptions {
  /** For the SQLite file, blobs and locks, which are for this user only. Made when it is not there. */
  readonly directory: string;
  /** `postgres://…`, `mysql://…` or `mariadb://…`; SQLite without it. */
  readonly url?: string;
  /** Is told what could not be brought in of what a process left behind. Default: the console. */
  readonly logger?: Pick<Logger, "warn" | "error">;
}

/** Opens the store and brings its tables up to date. */
export async function openStore({ directory, url = "", logger = console }: StoreOptions): Promise<Store> {
  const engine = engineOf(url);
  makeOwnFolder(directory);
  const place = engine === "sqlite" ? join(directory, "toolrack.db") : url;
  const locks = join(directory, "instances");
  const { database, instance } = await open(engine, place, locks).catch((error) => {
    throw new Error(`Cannot open ${describePlace(engine, place)}: ${reasonOf(error)}`, { cause: error });
  });
  const { db, scan, pending } = database;
  const blobs = new BlobDirectory(join(directory, "blobs"));
  const journals = new CallJournals({ db, directory: locks, instance, logger });
  const calls = new CallRepository({
    db,
    scan,
    pending,
    engine,
    blobs,
    instance,
    // A server of its own may be shared by nodes that do not see each other's files.
    ...(engine === "sqlite" ? { journals } : {}),
  });
  await calls.settle();
  const approvals = new ApprovalRepository(db, instance);
  const schedules = new ScheduleRepository(db);
  const chat = new ChatRepository(db, instance);
  const registryVersion = new RegistryVersion(db);
  let closing: Promise<void> | undefined;
  return {
    engine,
    calls,
    tokens: new TokenRepository(db),
    approvals,
    secrets: new SecretRepository(db),
    schedules,
    skills: new SkillRepository(db, registryVersion),
    mcpServers: new McpServerRepository(db, registryVersion),
    experts: new ExpertRepository(db, registryVersion),
    toolSwitches: new ToolSwitchRepository(db, registryVersion),
    chat,
    registryVersion,
    async prune(retention) {
      await calls.settle();
      await pruneCalls(db, retention);
      if (retention.maxAge !== undefined) {
        const oldest = Date.now() - retention.maxAge;
        await approvals.prune(oldest);
        await schedules.prune(oldest);
        await chat.prune(oldest);
      }
      await collectBlobs(db, blobs);
      if (engine === "sqlite") await shrink(db);
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
  await calls.close();
  try {
    await instance.stop();
  } finally {
    await database.close();
  }
}

/** Gives pages that are free back to the disk, some at a time so that calls can be written in between. */
async function shrink(db: OpenedDatabase["db"]): Promise<void> {
  for (;;) {
    const { rows } = await sql<{ freelist_count: number }>`pragma freelist_count`.execute(db);
    const free = rows[0]?.freelist_count ?? 0;
    if (free === 0) return;
    await sql`pragma incremental_vacuum(500)`.execute(db);
    const after = await sql<{ freelist_count: number }>`pragma freelist_count`.execute(db);
    // A file from before this was possible gives nothing back.
    if ((after.rows[0]?.freelist_count ?? 0) >= free) return;
    await nextTurn();
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
