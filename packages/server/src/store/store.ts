import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "@toolrack/core";
import { makeOwnFolder, reasonOf } from "../helpers/index.ts";
import { ApprovalRepository, type ApprovalStore } from "./approvals.ts";
import { BlobFolder, Blobs } from "./blobs.ts";
import { CallJournals } from "./calls/call-journal.ts";
import { collectBlobs, fillCounts, pruneCalls, pruneCounts, shrinkFile } from "./calls/call-retention.ts";
import { CallRepository, type CallStore } from "./calls/calls.ts";
import { ChatRepository, type ChatStore } from "./chat.ts";
import { engineOf, type OpenedDatabase, openDatabase } from "./database.ts";
import { type Reachability, StoreUnavailable } from "./database-errors.ts";
import { ExpertRepository, type ExpertStore } from "./experts.ts";
import { Follower } from "./follower.ts";
import { Instance, livingInstances } from "./instances.ts";
import { LoopReleaseRepository, type LoopReleaseStore } from "./loop-releases.ts";
import { McpServerRepository, type McpServerStore } from "./mcp-servers.ts";
import { migrate } from "./migrations.ts";
import { problemsOf } from "./repair.ts";
import { ScheduleRepository } from "./schedules.ts";
import type { Engine } from "./schema.ts";
import { SearchRepository, type SearchStore } from "./searches.ts";
import { SkillRepository, type SkillStore } from "./skills.ts";
import {
  IdentityRepository,
  TokenRepository,
  type TokenStore,
  ToolSwitchRepository,
  type ToolSwitchStore,
  ValueRepository,
} from "./tokens.ts";
import { UsageRepository, type UsageStore } from "./usage.ts";
import { RegistryVersion } from "./versions.ts";
import { warnOfDamagedLog } from "./write-ahead-log.ts";

/** All data that outlives the process, on SQLite, PostgreSQL or MySQL/MariaDB. */
export interface Store {
  readonly engine: Engine;
  readonly calls: CallStore;
  readonly tokens: TokenStore;
  readonly approvals: ApprovalStore;
  readonly secrets: ValueRepository;
  readonly settings: ValueRepository;
  readonly schedules: ScheduleRepository;
  readonly skills: SkillStore;
  readonly mcpServers: McpServerStore;
  readonly experts: ExpertStore;
  readonly toolSwitches: ToolSwitchStore;
  readonly loopReleases: LoopReleaseStore;
  readonly chat: ChatStore;
  readonly usage: UsageStore;
  readonly searches: SearchStore;
  readonly registryVersion: RegistryVersion;
  /** Values that all nodes on a database agree on. */
  readonly identity: IdentityRepository;
  /** Follows what other processes change in the same database. */
  readonly follower: Follower;
  /** This process among those that have the database open. */
  readonly instance: Instance;
  /** Long texts, which all nodes can read. Those to which no call refers are deleted after an hour. */
  readonly blobs: Blobs;
  /**
   * Deletes records older than `maxAge` (milliseconds), then the oldest calls until all take less than `maxBytes`, and
   * blobs that nothing refers to. Running calls, open questions and active schedules stay. Before that, counts the calls
   * that an older version recorded. Works in small steps and stops between two of them when `signal` is aborted.
   */
  prune(options: {
    readonly maxAge?: number;
    readonly maxBytes?: number;
    readonly signal?: AbortSignal;
  }): Promise<void>;
  /** Deletes the oldest calls when all take more than `maxBytes`. */
  trim(maxBytes: number, signal?: AbortSignal): Promise<void>;
  /** Free bytes on the disk of the store's files; undefined when the system does not say. */
  room(): Promise<number | undefined>;
  /** Writes the records that still wait, then closes the database. */
  close(): Promise<void>;
}

export interface StoreOptions {
  /**
   * The folder of the SQLite file, blobs and locks, whose files only this user can read. Made when it does
   * not exist.
   */
  readonly directory: string;
  /**
   * The URL of a database server: `postgres://…`, `mysql://…` or `mariadb://…`. Without it, SQLite is used.
   */
  readonly url?: string;
  /**
   * Where long results are kept when the database is a server: `s3://…` or `file://…`. Default: the variable `BLOBS_URL`,
   * or else the database. With SQLite they are files of `directory`.
   */
  readonly blobs?: string;
  /** Gets warnings and errors, such as that the database does not answer. Default: the console. */
  readonly logger?: Pick<Logger, "warn" | "error">;
}

/** Opens the store and brings its tables up to date. */
export async function openStore({
  directory,
  url = "",
  blobs: address = process.env.BLOBS_URL,
  logger = console,
}: StoreOptions): Promise<Store> {
  const engine = engineOf(url);
  makeOwnFolder(directory);
  const place = engine === "sqlite" ? join(directory, "toolrack.db") : url;
  const locks = join(directory, "instances");
  const shown = describePlace(engine, place);
  const reachability: Reachability = {
    lost: ({ cause }) =>
      logger.error(
        `${shown} does not answer: ${reasonInside(cause)}. What needs it is answered with 503 store_unavailable until it is back; the server connects again by itself.`,
      ),
    found: () => logger.warn(`${shown} answers again.`),
  };
  const { database, instance } = await open(engine, place, locks, reachability, logger).catch((error) => {
    throw new Error(`Cannot open ${shown}: ${reasonInside(error)}${adviceFor(error)}`, { cause: error });
  });
  const { db } = database;
  const blobs = await openBlobs(database, join(directory, "blobs"), address).catch(async (error) => {
    await instance.stop();
    await database.close();
    throw error;
  });
  const journals = new CallJournals(database, locks, instance, logger);
  const calls = new CallRepository(database, { blobs, instance, journals, logger });
  await calls.settle();
  const approvals = new ApprovalRepository(db, instance);
  const schedules = new ScheduleRepository(db, instance);
  const chat = new ChatRepository(db, instance);
  const usage = new UsageRepository(database);
  const searches = new SearchRepository(db);
  const registryVersion = new RegistryVersion(db);
  const follower = new Follower();
  hearAnnouncements(instance, follower);
  let closing: Promise<void> | undefined;
  return {
    engine,
    calls,
    tokens: new TokenRepository(db),
    approvals,
    secrets: new ValueRepository(db, "secrets"),
    settings: new ValueRepository(db, "settings"),
    schedules,
    skills: new SkillRepository(db, registryVersion),
    mcpServers: new McpServerRepository(db, registryVersion),
    experts: new ExpertRepository(db, registryVersion),
    toolSwitches: new ToolSwitchRepository(db, registryVersion),
    loopReleases: new LoopReleaseRepository(db, registryVersion),
    chat,
    usage,
    searches,
    registryVersion,
    follower,
    identity: new IdentityRepository(db, engine),
    instance,
    blobs,
    async prune(retention) {
      const { maxAge, signal } = retention;
      const oldest = maxAge === undefined ? Number.NEGATIVE_INFINITY : Date.now() - maxAge;
      await calls.settle();
      await fillCounts(database, signal);
      await pruneCalls(database, blobs, retention);
      await pruneCounts(database, oldest, signal);
      if (maxAge !== undefined) {
        for (const records of [approvals, schedules, chat, usage]) await records.prune(oldest);
        await searches.trim(oldest);
      }
      if (signal?.aborted === true) return;
      await collectBlobs(database, blobs);
      if (engine === "sqlite") await shrinkFile(database, signal);
    },
    async trim(maxBytes, signal) {
      await pruneCalls(database, blobs, { maxBytes, ...(signal && { signal }) });
      if (engine === "sqlite") await shrinkFile(database, signal);
    },
    async room() {
      const disk = await statfs(directory).catch(() => undefined);
      return disk && disk.bavail * disk.bsize;
    },
    close() {
      closing ??= follower
        .close()
        .then(() => usage.close())
        .then(() => close(calls, instance, database));
      return closing;
    },
  };
}

async function open(
  engine: Engine,
  place: string,
  locks: string,
  reachability: Reachability,
  logger: Pick<Logger, "warn">,
) {
  const log = `${place}-wal`;
  // While another process has the database open, the log is in use and not damaged.
  const isLeftOver = engine === "sqlite" && existsSync(log) && livingInstances(locks).length === 0;
  const database = await openDatabase(engine, place, reachability);
  try {
    const isCut = isLeftOver && (await warnOfDamagedLog(database.db, log, logger));
    // Some pages of the lost changes may be in the file already, beside older pages that do not fit them.
    const [problem] = isCut ? problemsOf(place, true) : [];
    if (problem !== undefined) throw new StoreUnavailable("damaged", new Error(problem));
    await migrate(database.db, engine);
    return { database, instance: await Instance.start(database.db, engine, locks, place) };
  } catch (error) {
    await database.close().catch(() => {});
    throw error;
  }
}

async function openBlobs({ engine, db }: OpenedDatabase, folder: string, address?: string): Promise<Blobs> {
  if (engine === "sqlite") return new Blobs(new BlobFolder(folder));
  // Loaded only where it is used: most workspaces keep their records in SQLite.
  const { openSharedBlobs } = await import("./shared-blobs.ts");
  return openSharedBlobs(db, engine, folder, address);
}

/** Passes on to the follower what PostgreSQL announces, and with each heartbeat what was missed. */
function hearAnnouncements(instance: Instance, follower: Follower): void {
  const { connection } = instance;
  if (connection === undefined) return;
  connection.listen({
    notified: (_, text) => {
      if (text.startsWith(ANNOUNCEMENT)) follower.announce(text.slice(ANNOUNCEMENT.length));
    },
    restored: () => follower.catchUp(),
  });
  instance.addPulseListener(({ versions, nodes }) => {
    follower.compare({ ...versions, nodes: 0 });
    // A node that has died leaves work behind. Whoever has taken it up deletes the node's row.
    if (nodes.some(({ isAlive }) => !isAlive)) follower.announce("nodes");
  });
}

const ANNOUNCEMENT = "changed ";

async function close(calls: CallRepository, instance: Instance, database: OpenedDatabase): Promise<void> {
  await calls.close();
  try {
    await instance.stop();
  } finally {
    await database.close();
  }
}

/** Where the database is, for messages: without user and password. */
function describePlace(engine: Engine, place: string): string {
  if (engine === "sqlite") return place;
  const { protocol, host, pathname } = new URL(place);
  return `the database at ${protocol}//${host}${pathname}`;
}

/** Advice for a damaged file; empty for other failures. */
function adviceFor(error: unknown): string {
  if (StoreUnavailable.from(error)?.reason !== "damaged") return "";
  return ". The file is damaged. Run `toolrack doctor --repair` in the workspace: it keeps a copy of the file and saves what can be read into a new one. Or put a backup in its place.";
}

function reasonInside(thrown: unknown): string {
  const error = thrown instanceof StoreUnavailable ? thrown.cause : thrown;
  // When all addresses of a host fail, the common error has no message.
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return reasonOf(first);
}
