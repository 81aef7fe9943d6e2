import { sql } from "kysely";
import { tidySum } from "../helpers/index.ts";
import type { OpenedDatabase } from "./database.ts";
import { unlessTaken } from "./database-errors.ts";
import { toKey } from "./keys.ts";
import { changesRows } from "./row-mapping.ts";
import type { Tables } from "./schema.ts";

/** What one request to a model took. */
export interface NewUsage extends Omit<UsageTotals, "requests" | "estimated"> {
  /** Who asked, as the records of calls name the caller. */
  readonly caller: string;
  /** `PROVIDER/NAME`. */
  readonly model: string;
  /** Empty for a client that keeps its conversation itself. */
  readonly session: string;
  /** Whether the tokens were estimated, because the provider did not count them in a way that can be used. */
  readonly estimated: boolean;
}

export interface UsageTotals {
  readonly requests: number;
  /** How many of the requests have estimated tokens. */
  readonly estimated: number;
  readonly promptTokens: number;
  /** The part of `promptTokens` that the provider read from its cache. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** By the prices of the config when the requests were made, or else as the provider tells; 0 without either. */
  readonly cost: number;
}

export interface UsageStatistics extends UsageTotals {
  /** The oldest first. A day is one of UTC, such as `2026-11-16`. */
  readonly days: readonly (UsageTotals & { readonly day: string })[];
  /** These three have those with the most tokens first, at most `MOST_GROUPS`. */
  readonly callers: readonly (UsageTotals & { readonly caller: string })[];
  readonly models: readonly (UsageTotals & { readonly model: string })[];
  /** The stored sessions. */
  readonly sessions: readonly (UsageTotals & { readonly session: string })[];
}

type UsageRow = Tables["chat_usage"];
type Group = "day" | "caller" | "model" | "session_id";

const MOST_GROUPS = 500;
/** How long usage waits in memory, so that many requests are written as one, in milliseconds. */
const WRITE_DELAY = 1_000;
/** When more rows than this wait, because the database is away, usage is no longer kept by session. */
const MOST_WAITING = 10_000;

/** Counts what models were asked, by day, caller, model and session. */
export class UsageRepository {
  readonly #db: OpenedDatabase["db"];
  readonly #scan: OpenedDatabase["scan"];
  /** What is not in the database yet, by the key of its row. */
  readonly #waiting = new Map<string, UsageRow>();
  /** What this process has counted, by caller and model. */
  readonly #counted = new Map<string, UsageRow>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor({ db, scan }: Pick<OpenedDatabase, "db" | "scan">) {
    this.#db = db;
    this.#scan = scan;
  }

  /** Never throws. The row is written within about a second, or when the database is back. */
  add(usage: NewUsage): void {
    const row = toRow(usage, new Date().toISOString().slice(0, 10));
    addTo(this.#counted, { ...row, day: "", session_id: "" });
    addTo(this.#waiting, this.#waiting.size < MOST_WAITING ? row : { ...row, session_id: "" });
    this.#timer ??= setTimeout(() => void this.settle(), WRITE_DELAY).unref();
  }

  /** What this process has counted since its start, by caller and model. */
  counted(): (UsageTotals & Pick<NewUsage, "caller" | "model">)[] {
    return [...this.#counted.values()].map((row) => ({
      caller: row.caller,
      model: row.model,
      ...toTotals(row),
    }));
  }

  /** Resolves when what was added is written, as far as the database takes it. Never rejects. */
  settle(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(async () => {
      const rows = [...this.#waiting.values()];
      this.#waiting.clear();
      for (const [at, row] of rows.entries()) {
        const isWritten = await this.#write(row).then(
          () => true,
          () => false,
        );
        if (isWritten) continue;
        for (const left of rows.slice(at)) addTo(this.#waiting, left);
        this.#timer ??= setTimeout(() => void this.settle(), WRITE_DELAY).unref();
        return;
      }
    });
    return this.#writing;
  }

  /** The usage of all days from that of `since` on, which is in milliseconds since the epoch. */
  async statistics({ since }: { readonly since: number }): Promise<UsageStatistics> {
    await this.settle();
    const day = new Date(since).toISOString().slice(0, 10);
    const most = async (group: Group) => {
      const found = this.#totals(day, group).orderBy(sql`sum(prompt_tokens + completion_tokens)`, "desc");
      const rows = await this.#scan(found.where(group, "<>", "").orderBy("key").limit(MOST_GROUPS));
      return rows.map((row) => ({ key: row.key, totals: toTotals(row) }));
    };
    const days = await this.#scan(this.#totals(day, "day").orderBy("key"));
    const sum = (name: keyof Counters) => days.reduce((all, row) => all + Number(row[name]), 0);
    return {
      ...toTotals(Object.fromEntries(counters.map((name) => [name, sum(name)]))),
      days: days.map((row) => ({ day: row.key, ...toTotals(row) })),
      callers: (await most("caller")).map(({ key, totals }) => ({ caller: key, ...totals })),
      models: (await most("model")).map(({ key, totals }) => ({ model: key, ...totals })),
      sessions: (await most("session_id")).map(({ key, totals }) => ({ session: key, ...totals })),
    };
  }

  /** Deletes the usage of days that ended before the given time. */
  async prune(oldest: number): Promise<void> {
    const day = new Date(Math.max(0, oldest)).toISOString().slice(0, 10);
    await this.#db.deleteFrom("chat_usage").where("day", "<", day).execute();
  }

  /** Writes what still waits. */
  async close(): Promise<void> {
    await this.settle();
    clearTimeout(this.#timer);
  }

  #totals(day: string, group: Group) {
    return this.#db
      .selectFrom("chat_usage")
      .select([`${group} as key`, ...counters.map((name) => sumOf(name))])
      .where("day", ">=", day)
      .groupBy(group);
  }

  async #write(row: UsageRow): Promise<void> {
    const increase = () => this.#increase(row);
    if (await increase()) return;
    await unlessTaken<unknown>(() => this.#db.insertInto("chat_usage").values(row).execute(), increase);
  }

  async #increase(row: UsageRow): Promise<boolean> {
    const { day, caller, model, session_id } = row;
    const sums = counters.map((name) => [name, sql`${sql.ref(name)} + ${row[name]}`]);
    const change = this.#db
      .updateTable("chat_usage")
      .set(Object.fromEntries(sums))
      .where((expression) => expression.and({ day, caller, model, session_id }));
    return changesRows(change);
  }
}

export type UsageStore = Pick<UsageRepository, keyof UsageRepository>;

const counters = [
  "requests",
  "estimated",
  "prompt_tokens",
  "cached_tokens",
  "completion_tokens",
  "cost",
] as const;

type Counters = Pick<UsageRow, (typeof counters)[number]>;

function sumOf(name: keyof Counters) {
  // PostgreSQL and MySQL return a sum of whole numbers as text.
  return sql<number | string | null>`sum(${sql.ref(name)})`.as(name);
}

function toRow(usage: NewUsage, day: string): UsageRow {
  return {
    day,
    caller: toKey(usage.caller),
    model: toKey(usage.model),
    session_id: usage.session,
    requests: 1,
    estimated: usage.estimated ? 1 : 0,
    prompt_tokens: usage.promptTokens,
    cached_tokens: usage.cachedTokens,
    completion_tokens: usage.completionTokens,
    cost: usage.cost,
  };
}

function addTo(rows: Map<string, UsageRow>, row: UsageRow): void {
  const key = JSON.stringify([row.day, row.caller, row.model, row.session_id]);
  const known = rows.get(key);
  if (known === undefined) rows.set(key, { ...row });
  else for (const name of counters) known[name] += row[name];
}

function toTotals(row: { readonly [Name in keyof Counters]?: number | string | null }): UsageTotals {
  return {
    requests: Number(row.requests ?? 0),
    estimated: Number(row.estimated ?? 0),
    promptTokens: Number(row.prompt_tokens ?? 0),
    cachedTokens: Number(row.cached_tokens ?? 0),
    completionTokens: Number(row.completion_tokens ?? 0),
    cost: tidySum(Number(row.cost ?? 0)),
  };
}
