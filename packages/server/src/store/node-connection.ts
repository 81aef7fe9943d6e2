import type { Client } from "pg";
import { StoreUnavailable } from "./database-errors.ts";

/** What a node tells of itself and of its fleet with every beat of its heart, and what it learns in return. */
export interface Pulse {
  /** How often each kind of data was changed, by topic: see `announcements` in `migrations.ts`. */
  readonly versions: Readonly<Record<string, number>>;
  /** Whether messages wait for this node. */
  readonly hasMail: boolean;
  readonly nodes: readonly NodeRow[];
}

/** A process that has the database open, as the database knows it. */
export interface NodeRow {
  readonly id: string;
  /** What the node tells of itself, as JSON; null for a process that serves nobody, such as a command. */
  readonly info: string | null;
  /** Milliseconds since its last heartbeat, on the database's clock. */
  readonly silence: number;
  readonly isAlive: boolean;
}

interface Listeners {
  /** Called with each notification: its channel and its text. Must not throw. */
  notified(channel: string, text: string): void;
  /** Called when the connection is there again after it was lost: notifications may have been missed. Must not throw. */
  restored(): void;
}

/** Milliseconds between two heartbeats. */
const PULSE = 3_000;
/**
 * Milliseconds of silence after which a node counts as dead: when its connection is gone, and when it still seems to be
 * there, as that of a frozen machine does. The former is longer than a restart of the database takes a node to notice.
 */
const DEAD_WITHOUT_LOCK = 4_500;
const DEAD_WITH_LOCK = 8_500;
/** The first number of the advisory locks, so that they do not meet those of other programs. */
const LOCK_CLASS = 7300;
/** Milliseconds for which nobody counts as dead, after the database was away: by then the living have told that they are. */
const GRACE = 3 * PULSE;
const QUERY_LIMIT = 10_000;
const RECONNECT_DELAYS = [50, 200, 500, 1_000, 2_000];

const now = "cast(extract(epoch from clock_timestamp()) * 1000 as bigint)";
/** Whether the process of a row of `instances`, here called `i`, lives. */
const isAlive = `(${now} - i.heartbeat_at < case when exists (select 1 from pg_locks l
  where l.locktype = 'advisory' and l.classid = ${LOCK_CLASS} and l.objid = hashtext(i.id)::oid and l.objsubid = 2
  and l.database = (select oid from pg_database where datname = current_database()))
  then ${DEAD_WITH_LOCK} else ${DEAD_WITHOUT_LOCK} end
  or clock_timestamp() - pg_postmaster_start_time() < interval '${GRACE} milliseconds')`;

/** One query for the heartbeat and for all that a node must look after. */
const pulse = `with beat as (insert into instances (id, heartbeat_at, info) values ($1, ${now}, $2)
    on conflict (id) do update set heartbeat_at = excluded.heartbeat_at, info = excluded.info)
  select (select coalesce(json_object_agg(substr(sequencename, 18), coalesce(last_value, 0)), '{}')
      from pg_sequences where schemaname = current_schema() and sequencename like 'toolrack\\_changed\\_%') versions,
    exists (select 1 from messages where node = $1) has_mail,
    (select coalesce(json_agg(json_build_object('id', i.id, 'info', i.info,
      'silence', greatest(0, ${now} - i.heartbeat_at), 'isAlive', ${isAlive})), '[]')
      from instances i where i.id <> $1) nodes`;

/**
 * The connection to PostgreSQL that a process keeps for itself. Other processes know by a lock of this connection that the
 * process lives, and it hears what they announce. Connects again by itself.
 */
export class NodeConnection {
  readonly id: string;
  readonly interval = PULSE;
  readonly #url: string;
  readonly #listeners = new Set<Listeners>();
  #client: Client | undefined;
  #connecting: Promise<Client> | undefined;
  #isClosed = false;
  /** Until then, on the `performance` clock, other nodes count as living. */
  #judgesFrom = 0;
  /** The channel on which all nodes of this database and schema are told. Set by the first connection. */
  #channel = "";

  private constructor(url: string, id: string) {
    this.#url = url;
    this.id = id;
  }

  static async open(url: string, id: string): Promise<NodeConnection> {
    const connection = new NodeConnection(url, id);
    await connection.#connected();
    return connection;
  }

  /** Returns a function that ends it. */
  listen(listeners: Listeners): () => void {
    this.#listeners.add(listeners);
    return () => this.#listeners.delete(listeners);
  }

  get channel(): string {
    return this.#channel;
  }

  get isConnected(): boolean {
    return this.#client !== undefined;
  }

  /** Writes the heartbeat with what the node tells of itself, and reads the state of the fleet. */
  async pulse(info: string | null): Promise<Pulse> {
    type Row = Pick<Pulse, "versions" | "nodes"> & { has_mail: boolean };
    const [row] = await this.query<Row>(pulse, [this.id, info]);
    const { versions = {}, has_mail: hasMail = false, nodes = [] } = row ?? {};
    if (!this.#isPatient) return { versions, hasMail, nodes };
    return { versions, hasMail, nodes: nodes.map((node) => ({ ...node, isAlive: true })) };
  }

  /** The ids of the living nodes, this one not included. */
  async findLiving(): Promise<string[]> {
    const condition = this.#isPatient ? "true" : isAlive;
    const rows = await this.query<{ id: string }>(`select i.id from instances i where ${condition}`, []);
    return rows.map(({ id }) => id);
  }

  get #isPatient(): boolean {
    return performance.now() < this.#judgesFrom;
  }

  /** Throws `StoreUnavailable` while the database does not answer. */
  async query<Row>(text: string, values: readonly unknown[]): Promise<Row[]> {
    try {
      const client = await this.#connected();
      return (await client.query(text, [...values])).rows as Row[]; // The caller knows the columns of its query.
    } catch (error) {
      const unavailable = StoreUnavailable.from(error);
      // A connection that does not answer may be half-open: the next query makes a new one.
      if (unavailable !== undefined) this.#drop();
      throw unavailable ?? error;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => {});
  }

  #connected(): Promise<Client> | Client {
    if (this.#client !== undefined) return this.#client;
    if (this.#isClosed) throw new StoreUnavailable("away", new Error("The store is closed."));
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #connect(): Promise<Client> {
    const { default: pg } = await import("pg");
    const client = new pg.Client({
      connectionString: this.#url,
      connectionTimeoutMillis: 5_000,
      query_timeout: QUERY_LIMIT,
      statement_timeout: QUERY_LIMIT,
      keepAlive: true,
      application_name: "toolrack node",
    });
    client.on("error", () => {});
    client.on("end", () => {
      if (this.#client === client) this.#drop();
    });
    client.on("notification", ({ channel, payload = "" }) => {
      for (const { notified } of this.#listeners) notified(channel, payload);
    });
    try {
      await client.connect();
      const isFirst = this.#channel === "";
      const found = await client.query<{ schema: string }>("select current_schema() as schema");
      this.#channel = `toolrack.${found.rows[0]?.schema}`;
      // Shared, so that two ids with one hash do not lock each other out.
      await client.query("select pg_advisory_lock_shared($1, hashtext($2))", [LOCK_CLASS, this.id]);
      for (const channel of [this.#channel, `${this.#channel}.${this.id}`]) {
        await client.query(`listen ${client.escapeIdentifier(channel)}`);
      }
      if (this.#isClosed) throw new Error("The connection was closed while it was being made.");
      this.#client = client;
      if (!isFirst) this.#judgesFrom = performance.now() + GRACE;
      if (!isFirst) for (const { restored } of this.#listeners) restored();
      return client;
    } catch (error) {
      await client.end().catch(() => {});
      throw StoreUnavailable.from(error) ?? new StoreUnavailable("away", error);
    }
  }

  #drop(): void {
    const client = this.#client;
    this.#client = undefined;
    void client?.end().catch(() => {});
    if (!this.#isClosed && client !== undefined) this.#reconnect(0);
  }

  #reconnect(attempt: number): void {
    const delay = RECONNECT_DELAYS[Math.min(attempt, RECONNECT_DELAYS.length - 1)];
    setTimeout(() => {
      if (this.#isClosed || this.#client !== undefined) return;
      Promise.resolve(this.#connected()).catch(() => this.#reconnect(attempt + 1));
    }, delay).unref();
  }
}
