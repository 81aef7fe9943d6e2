import { createHash } from "node:crypto";
import { unlessTaken } from "./database-errors.ts";
import { toKey, toStorableText } from "./keys.ts";
import { changesRows, deleteRows, findRow, rowMap } from "./row-mapping.ts";
import type { StoreDatabase } from "./schema.ts";

/** A search that was followed by a call of a tool that it had found. Nothing is kept of the call's arguments. */
export interface LearnedSearch {
  /** The same for the same words, tool and owner. */
  readonly id: string;
  readonly query: string;
  readonly toolName: string;
  /** Who searched, as `owner` of the records of calls; empty for the operator. */
  readonly owner: string;
  /** How often the search was followed by a call of the tool. */
  readonly uses: number;
  /** Milliseconds since the epoch, like `usedAt`. */
  readonly createdAt: number;
  readonly usedAt: number;
}

export type NewSearch = Pick<LearnedSearch, "query" | "toolName" | "owner">;

interface SearchQuery {
  readonly owner?: string;
  readonly since?: number;
  readonly limit?: number;
}

/** Whether searches are learned. `version` differs after each change that is more than a new search. */
export interface LearningState {
  readonly isOn: boolean;
  readonly version: number;
}

const searches = rowMap<LearnedSearch>()("searches");

/** How many searches are kept; those that were not used for the longest time go first. */
const MOST_SEARCHES = 10_000;
/** Of one owner other than the operator: so no token's searches push out those of all others. */
const MOST_OF_OWNER = 2_000;
/** After so many new searches, one process deletes what is too much. */
const TRIM_AFTER = 200;
const LONGEST_QUERY = 300;
const STATE = 1;

/** What search has learned from use, for all servers of the workspace. */
export class SearchRepository {
  readonly #db: StoreDatabase;
  #added = 0;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  /** Remembers a search, or counts it again. */
  async add({ query, toolName, owner }: NewSearch): Promise<LearnedSearch> {
    const words = toStorableText(query.trim().slice(0, LONGEST_QUERY));
    const id = createHash("sha256")
      .update(JSON.stringify([words.toLowerCase(), toolName, owner]))
      .digest("hex");
    const now = Date.now();
    const fresh = { id, query: words, toolName, owner, uses: 1, createdAt: now, usedAt: now };
    if (!(await this.#count(id, now))) {
      const insert = this.#db.insertInto("searches").values(searches.toRow(fresh));
      await unlessTaken<unknown>(
        () => insert.execute(),
        () => this.#count(id, now),
      );
      if (++this.#added % TRIM_AFTER === 0) await this.trim();
    }
    const row = await findRow(this.#db, "searches", { id });
    return row === undefined ? fresh : searches.toRecord(row);
  }

  /** The last used first. `owner`: of this one only. `since`: those that were used then or later. */
  async list({ owner, since, limit = MOST_SEARCHES }: SearchQuery = {}): Promise<LearnedSearch[]> {
    let rows = this.#db.selectFrom("searches").selectAll();
    if (owner !== undefined) rows = rows.where("owner", "=", toKey(owner));
    if (since !== undefined) rows = rows.where("used_at", ">=", since);
    const found = await rows.orderBy("used_at", "desc").orderBy("id", "desc").limit(limit).execute();
    return found.map(searches.toRecord);
  }

  async count({ owner }: Pick<SearchQuery, "owner">): Promise<number> {
    let rows = this.#db.selectFrom("searches");
    if (owner !== undefined) rows = rows.where("owner", "=", toKey(owner));
    const { count } = await rows.select(({ fn }) => fn.countAll().as("count")).executeTakeFirstOrThrow();
    return Number(count);
  }

  /** Forgets the searches that meet all conditions. Returns how many there were. */
  async remove(only: { readonly owner?: string; readonly id?: string }): Promise<number> {
    const where = {
      ...(only.owner !== undefined && { owner: toKey(only.owner) }),
      ...(only.id !== undefined && { id: only.id }),
    };
    const removed = await deleteRows(this.#db, "searches", where);
    if (removed > 0) await this.#raise();
    return removed;
  }

  /** Deletes the searches that were last used before the given time, and those above the limits. */
  async trim(oldest = Number.NEGATIVE_INFINITY): Promise<void> {
    const crowding = await this.#db
      .selectFrom("searches")
      .select("owner")
      .where("owner", "!=", "")
      .groupBy("owner")
      .having(({ fn }) => fn.countAll(), ">", MOST_OF_OWNER)
      .execute();
    const removed = [await this.#trimTo(MOST_SEARCHES, oldest)];
    for (const { owner } of crowding) removed.push(await this.#trimTo(MOST_OF_OWNER, oldest, owner));
    if (removed.includes(true)) await this.#raise();
  }

  /** Returns whether it deleted something. */
  async #trimTo(most: number, oldest: number, owner?: string): Promise<boolean> {
    let rows = this.#db.selectFrom("searches").select("used_at");
    if (owner !== undefined) rows = rows.where("owner", "=", owner);
    const [first] = await rows.orderBy("used_at", "desc").offset(most).limit(1).execute();
    const before = Math.max(oldest, first === undefined ? oldest : Number(first.used_at) + 1);
    if (before === Number.NEGATIVE_INFINITY) return false;
    let gone = this.#db.deleteFrom("searches").where("used_at", "<", before);
    if (owner !== undefined) gone = gone.where("owner", "=", owner);
    return changesRows(gone);
  }

  async state(): Promise<LearningState> {
    const row = await findRow(this.#db, "search_learning", { id: STATE });
    return { isOn: row?.is_on !== 0, version: Number(row?.version ?? 0) };
  }

  async setOn(isOn: boolean): Promise<void> {
    await this.#raise({ is_on: isOn ? 1 : 0 });
  }

  async #count(id: string, now: number): Promise<boolean> {
    return changesRows(
      this.#db
        .updateTable("searches")
        .set(({ eb }) => ({ uses: eb("uses", "+", 1), used_at: now }))
        .where("id", "=", id),
    );
  }

  /** Lets other processes know that they have to read anew. */
  async #raise(changes: { readonly is_on?: number } = {}): Promise<void> {
    const raise = () =>
      changesRows(
        this.#db
          .updateTable("search_learning")
          .set(({ eb }) => ({ ...changes, version: eb("version", "+", 1) }))
          .where("id", "=", STATE),
      );
    if (await raise()) return;
    const first = { id: STATE, is_on: 1, version: 1, ...changes };
    await unlessTaken<unknown>(() => this.#db.insertInto("search_learning").values(first).execute(), raise);
  }
}

export type SearchStore = Pick<SearchRepository, keyof SearchRepository>;
