import { chmodSync, copyFileSync, existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Logger, ToolCallRecord, ToolResult } from "@toolrack/core";
import { type Kysely, sql } from "kysely";
import { makeOwnFolder } from "../helpers/index.ts";
import { ApprovalRepository, type ApprovalStore } from "./approvals.ts";
import { BlobDirectory } from "./blobs.ts";
import { CallJournals } from "./calls/call-journal.ts";
import {
  type CallStatistics,
  collectBlobs,
  pruneCalls,
  type StatisticsQuery,
} from "./calls/call-statistics.ts";
import type { CallLine } from "./calls/call-writer.ts";
import { CallRepository } from "./calls/calls.ts";
import type { HeldRecords } from "./calls/held-calls.ts";
import { ChatRepository } from "./chat.ts";
import type { ChatStore } from "./chat-tables.ts";
import { type Engine, engineOf, type OpenedDatabase, openDatabase } from "./database.ts";
import { ExpertRepository, type ExpertStore } from "./experts.ts";
import { Follower } from "./follower.ts";
import { Instance, livingInstances, RegistryVersion } from "./instances.ts";
import { McpServerRepository, type McpServerStore } from "./mcp-servers.ts";
import { migrate } from "./migrations/migrate.ts";
import { problemsOf } from "./repair/repair-database.ts";
import { readWriteAheadLog } from "./repair/write-ahead-log.ts";
import { ScheduleRepository, type ScheduleStore } from "./schedules.ts";
import type { SkillStore } from "./skill-tables.ts";
import { SkillRepository } from "./skills.ts";
import { type Reachability, StoreUnavailable } from "./store-unavailable.ts";
import {
  SecretRepository,
  type SecretStore,
  TokenRepository,
  ToolSwitchRepository,
  type ToolSwitchStore,
} from "./tokens.ts";

/** A call as it is kept. */
export interface StoredCall extends Omit<ToolCallRecord, "status"> {
  /** `error` also for a call that was interrupted. */
  readonly status: "running" | "completed" | "error";
  /** The bounded one; a larger whole is a blob, read by page. Empty while the call runs. */
  readonly result: ToolResult;
  /** Characters of the whole result text. */
  readonly resultSize: number;
  /** The call that this one repeats. */
  readonly replayOf?: string;
  /** `interrupted`: the process died while it ran. */
  readonly outcome: "running" | "completed" | "error" | "interrupted";
  /** What the tool said while it ran, where it said something. Not in lists. */
  readonly log?: readonly CallLine[];
}

/** A call that has begun, noted so that a crash leaves a trace. */
export interface StartedCall {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly sessionID: string;
  readonly caller: string;
  readonly timestamp: number;
  /** How many calls it is away from the first one of its chain. Default 0. */
  readonly depth?: number;
  readonly parameters: Record<string, unknown>;
}

export interface CallQuery {
  /** Glob over the tool's name: `*` for any characters, `?` for one. */
  readonly tool?: string;
  readonly status?: "running" | "completed" | "error" | "interrupted";
  readonly session?: string;
  readonly minDuration?: number;
  readonly maxDuration?: number;
  /** Milliseconds since the epoch. */
  readonly since?: number;
  readonly until?: number;
  /** Anywhere in the arguments, the recorded result or the error, whatever the case of Latin letters. */
  readonly text?: string;
  /** The call that made them. */
  readonly parent?: string;
  /** A call, all that it made, and all that those made. */
  readonly root?: string;
  /** Glob over the caller. */
  readonly caller?: string;
  /** Only calls that no other call made. */
  readonly top?: boolean;
  /** Only calls that bear this flag. */
  readonly flag?: "loop";
  /** At most 500; default 50. Newest first. */
  readonly limit?: number;
  /** From the page before. */
  readonly cursor?: string;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next?: string;
}

/** Is told of a call by its id, and why the database refuses it. */
export type RefusalListener = (callId: string, reason: unknown) => void;

export interface CallStore {
  /**
   * Notes a call under an id that its caller chose, before it begins. False when there is a call with that id, here or at
   * another process: of all that ask for the same id, one is told true. So a caller whose connection broke can ask again
   * under the same id, also after the process was killed, and nothing is run twice. Rejects when the store cannot be read.
   */
  claim(call: StartedCall): Promise<boolean>;
  /** Returns at once; written with the next batch. */
  started(call: StartedCall): void;
  /**
   * Resolves when it is safe, whatever happens to the process: in the database, or in a journal beside it from which the
   * database has it a moment later, and at the next start if the process ends before. Every method here knows of it from
   * then on. `whole` is the whole text, when `result` has only a part of it. A call with the id of an earlier one is kept
   * beside it, under that id with an ending of its own. Resolves with `held` when the store cannot take it now: it is kept
   * in memory and written when the store can. Rejects when the database never takes it.
   */
  finished(
    record: ToolCallRecord,
    result: ToolResult,
    replayOf?: string,
    whole?: string,
    log?: readonly CallLine[],
  ): Promise<"safe" | "held">;
  /** The records that wait in memory until the store can take them. */
  readonly held: HeldRecords;
  /**
   * Tells of calls that are safe in the journal and that the database refuses, once for each. They stay there and are
   * tried again, by the next process at the latest.
   */
  onRefused(listener: RefusalListener): void;
  get(callId: string): Promise<StoredCall | undefined>;
  /**
   * Running calls too. So that a page stays small, an item has the first 2,000 characters of the result's text and
   * nothing else of the result, and no arguments longer than 16,000: `get` has all. Throws `InvalidCursorError`.
   */
  list(query: CallQuery): Promise<Page<StoredCall>>;
  /** A page of the whole text of the result, in characters. Rejects when its blob is not on this node. */
  readResult(
    callId: string,
    offset: number,
    limit: number,
  ): Promise<{ text: string; total: number } | undefined>;
  /** Counts and times of calls that have ended. */
  statistics(query: StatisticsQuery): Promise<CallStatistics>;
  /**
   * Settles what a process that died left running; never a call of a process that lives, here or on another node.
   * Answers how many. To be called at the start, and on a shared database every minute or so.
   */
  settleInterrupted(): Promise<number>;
}

export interface StoredToken {
  readonly id: string;
  readonly name: string;
  readonly scopes: {
    readonly tools?: readonly string[];
    readonly experts?: readonly string[];
    readonly admin?: boolean;
    /** Patterns of the tools whose calls it may approve. Default: none. */
    readonly approve?: readonly string[];
    /** May talk to models. Default: when it may use tools or experts. */
    readonly chat?: boolean;
  };
  readonly createdAt: number;
  readonly lastUsedAt?: number;
  readonly expiresAt?: number;
}

export interface TokenStore {
  /** Only the hash is kept. */
  add(token: StoredToken, hash: string): Promise<void>;
  findByHash(hash: string): Promise<StoredToken | undefined>;
  list(): Promise<StoredToken[]>;
  remove(id: string): Promise<boolean>;
  touch(id: string, at: number): Promise<void>;
}

/** Everything that outlives the process, on SQLite, PostgreSQL or MySQL/MariaDB. */
export interface Store {
  readonly engine: "sqlite" | "postgres" | "mysql";
  readonly calls: CallStore;
  readonly tokens: TokenStore;
  readonly approvals: ApprovalStore;
  readonly secrets: SecretStore;
  readonly schedules: ScheduleStore;
  readonly skills: SkillStore;
  readonly mcpServers: McpServerStore;
  readonly experts: ExpertStore;
  readonly toolSwitches: ToolSwitchStore;
  readonly chat: ChatStore;
  readonly registryVersion: RegistryVersion;
  /** Tells of what other processes on the same database change. */
  readonly follower: Follower;
  /**
   * Deletes what is older (milliseconds) or more (bytes of all calls) than the retention says, oldest first, and blobs
   * that nothing refers to. What is running, waiting for an answer or scheduled stays.
   */
  prune(options: { readonly maxAge?: number; readonly maxBytes?: number }): Promise<void>;
  /** Bytes that are free where the files of the store lie; undefined where the system does not say. */
  room(): Promise<number | undefined>;
  /** Writes what is waiting, then closes. */
  close(): Promise<void>;
}

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
  const shown = describePlace(engine, place);
  const reachability: Reachability = {
    lost: ({ cause }) =>
      logger.error(
        `${shown} does not answer: ${reasonOf(cause)}. What needs it is answered with 503 store_unavailable until it is back; the server connects again by itself.`,
      ),
    found: () => logger.warn(`${shown} answers again.`),
  };
  const isCut = engine === "sqlite" && tellOfDamagedLog(directory, logger);
  const { database, instance } = await open(engine, place, locks, reachability, isCut).catch((error) => {
    throw new Error(`Cannot open ${shown}: ${reasonOf(error)}${adviceFor(error)}`, { cause: error });
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
    journals,
    logger,
  });
  await calls.settle();
  const approvals = new ApprovalRepository(db, instance);
  const schedules = new ScheduleRepository(db);
  const chat = new ChatRepository(db, instance);
  const registryVersion = new RegistryVersion(db);
  const follower = new Follower();
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
    follower,
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
    async room() {
      const disk = await statfs(directory).catch(() => undefined);
      return disk && disk.bavail * disk.bsize;
    },
    close() {
      closing ??= follower.close().then(() => close(calls, instance, database));
      return closing;
    },
  };
}

async function open(
  engine: Engine,
  place: string,
  locks: string,
  reachability: Reachability,
  isCut: boolean,
) {
  const database = await openDatabase(engine, place, reachability);
  try {
    // Pages of the changes that were cut off may be in the file already, beside older ones that belong to them.
    const [problem] = isCut ? problemsOf(place, true) : [];
    if (problem !== undefined) throw new StoreUnavailable("damaged", new Error(problem));
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

/**
 * SQLite reads the log beside the database up to the first place that is damaged, and leaves the rest out without a word.
 * Says so, and keeps a copy. Answers whether something was left out.
 */
function tellOfDamagedLog(directory: string, logger: Pick<Logger, "warn">): boolean {
  const path = join(directory, "toolrack.db-wal");
  // Who has the database open keeps the log in order.
  if (!existsSync(path) || livingInstances(join(directory, "instances")).length > 0) return false;
  const { isDamaged, frames, dropped } = readWriteAheadLog(path);
  if (!isDamaged) return false;
  const copy = `${path}.damaged-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`;
  copyFileSync(path, copy);
  chmodSync(copy, 0o600);
  logger.warn(
    `${path} is damaged: ${frames} of its pages could be read, and ${dropped === 0 ? "what is behind them" : `at least ${dropped} behind them`} was left out. The last changes before the server ended may be missing. A copy is kept as ${copy}.`,
  );
  return true;
}

/** Without user and password. */
function describePlace(engine: Engine, place: string): string {
  if (engine === "sqlite") return place;
  const { protocol, host, pathname } = new URL(place);
  return `the database at ${protocol}//${host}${pathname}`;
}

/** What to do about a file that is damaged; nothing to add for other failures. */
function adviceFor(error: unknown): string {
  if (StoreUnavailable.from(error)?.reason !== "damaged") return "";
  return ". The file is damaged. Run `toolrack doctor --repair` in the workspace: it keeps a copy of the file and saves what can be read into a new one. Or put a backup in its place.";
}

function reasonOf(thrown: unknown): string {
  const error = thrown instanceof StoreUnavailable ? thrown.cause : thrown;
  // Several addresses of one host fail together, and their common error has no message of its own.
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return first instanceof Error ? first.message : String(first);
}
