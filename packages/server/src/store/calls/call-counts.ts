import { createHash } from "node:crypto";
import { CompiledQuery } from "kysely";
import { fromJson } from "../row-mapping.ts";
import type { CallRow, Engine, Tables } from "../schema.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The slices of time in which calls are counted, in milliseconds. Every slice costs a row. */
export const spans = { minute: MINUTE, quarter: 15 * MINUTE, hour: HOUR, day: DAY } as const;
export type Span = keyof typeof spans;

export const spanLengths = Object.entries(spans) as [Span, number][]; // The keys of `spans`.

/** The spans that are counted by tool, and those that are counted for all tools together, the longest first. */
export const toolSpans: readonly Span[] = ["day", "hour", "minute"];
export const allSpans: readonly Span[] = ["day", "quarter", "minute"];

/** Stands for the tool in the counts of all tools together. */
export const ALL_TOOLS = "";

/** How long the counts of a span are kept, in milliseconds. Those of days are kept as long as calls. */
export const keptFor: Readonly<Record<Span, number>> = {
  minute: 3 * DAY,
  quarter: 9 * DAY,
  hour: 9 * DAY,
  day: Number.POSITIVE_INFINITY,
};

/** The columns by which a call is counted. */
export const countedColumns = [
  "tool_name",
  "timestamp",
  "state",
  "duration",
  "flags",
  "error",
  "size",
  "result_blob",
  "more_blob",
] as const satisfies (keyof CallRow)[];
type CountedCall = Pick<CallRow, (typeof countedColumns)[number]>;

/** Calls of unknown duration. */
export const UNKNOWN = -1;
/**
 * Two durations of one bucket differ by less than a fifth. A row also has their sum, so that a bucket stands for the mean
 * of its durations.
 */
const BUCKETS_PER_DOUBLING = 4;
/** Milliseconds. All shorter durations are in bucket 0. */
const SHORTEST = 0.25;

export function bucketOf(duration: number): number {
  if (!(duration > SHORTEST)) return 0;
  return 1 + Math.floor(BUCKETS_PER_DOUBLING * Math.log2(duration / SHORTEST));
}

/** The bucket of `kept` with the calls that have a blob; 0 has all. */
export const WITH_BLOB = 1;

/** Sums over calls, as the columns of a row. */
interface Sums {
  calls: number;
  errors: number;
  cancelled: number;
  total: number;
}

interface Counted extends Sums {
  readonly minute: number;
  readonly tool: string;
  readonly bucket: number;
}

/** Adds up what calls change in the tables `call_counts` and `tool_days`. */
export class CallCounts {
  readonly #part: number;
  /** By minute, tool and bucket; longer spans are added up when the statements are made. */
  readonly #counted = new Map<string, Counted>();
  readonly #kept: Sums = { calls: 0, errors: 0, cancelled: 0, total: 0 };
  readonly #withBlob: Sums = { calls: 0, errors: 0, cancelled: 0, total: 0 };

  /** `part`: writers of different parts change different rows, so that they never wait for each other. */
  constructor(part: number) {
    this.#part = part;
  }

  get isEmpty(): boolean {
    return this.#counted.size === 0 && this.#kept.calls === 0;
  }

  /** Counts those of the calls that have ended. */
  add(calls: readonly CountedCall[]): this {
    return this.#addAll(calls, 1);
  }

  /** Takes back what was counted for calls whose rows are replaced. */
  takeBack(calls: readonly CountedCall[]): this {
    return this.#addAll(calls, -1);
  }

  /** Calls that are being deleted are kept no more, but happened all the same. */
  forget(calls: readonly CountedCall[]): this {
    for (const call of calls) this.#keep(call, -1);
    return this;
  }

  /** Statements that bring the changes into the tables. They must run in the transaction that changes the calls. */
  statements(engine: Engine): CompiledQuery[] {
    return this.#changes().flatMap((changes) => changes.statements(engine));
  }

  /** The same as JSON: the parameters of `countingText`. */
  toJson(): string[] {
    return this.#changes().map((changes) => JSON.stringify(changes.rows()));
  }

  #changes(): [counts: Changes, days: Changes] {
    const now = Date.now();
    const counts = new Changes("call_counts", this.#part);
    const days = new Changes("tool_days", this.#part);
    for (const counted of this.#counted.values()) {
      const { minute, tool, bucket } = counted;
      for (const [span, length] of spanLengths) {
        if (now - minute > keptFor[span] + MINUTE) continue;
        const starts_at = minute - (minute % length);
        if (allSpans.includes(span)) counts.add({ span, starts_at, tool_name: ALL_TOOLS, bucket }, counted);
        // A call without a name of a tool is only counted in all.
        if (tool === ALL_TOOLS) continue;
        if (toolSpans.includes(span)) counts.add({ span, starts_at, tool_name: tool, bucket }, counted);
        if (span === "day") days.add({ span, starts_at, tool_name: tool }, counted);
      }
    }
    const kept = { span: "kept", starts_at: 0, tool_name: ALL_TOOLS };
    if (this.#kept.calls !== 0) counts.add({ ...kept, bucket: 0 }, this.#kept);
    if (this.#withBlob.calls !== 0) counts.add({ ...kept, bucket: WITH_BLOB }, this.#withBlob);
    return [counts, days];
  }

  #addAll(calls: readonly CountedCall[], sign: 1 | -1): this {
    for (const call of calls) {
      if (call.state === "running") continue;
      this.#keep(call, sign);
      this.#count(call, sign);
    }
    return this;
  }

  #keep({ size, result_blob, more_blob }: CountedCall, sign: 1 | -1): void {
    const sums = { calls: sign, errors: 0, cancelled: 0, total: sign * size };
    addTo(this.#kept, sums);
    if (result_blob !== null || more_blob !== null) addTo(this.#withBlob, sums);
  }

  #count(call: CountedCall, sign: 1 | -1): void {
    const { tool_name: tool, timestamp, state } = call;
    const isCancelled =
      state === "error" && withdrawn.has(fromJson<{ code?: string }>(call.error)?.code ?? "");
    const errors = state === "completed" || isCancelled ? 0 : sign;
    // What a person or the caller took is not the tool's time.
    const time =
      isCancelled || call.duration === null ? undefined : Math.max(0, call.duration - waitOf(call));
    const bucket = time === undefined ? UNKNOWN : bucketOf(time);
    const minute = timestamp - (timestamp % MINUTE);
    const sums = { calls: sign, errors, cancelled: isCancelled ? sign : 0, total: sign * (time ?? 0) };
    const key = `${minute} ${bucket} ${tool}`;
    const counted = this.#counted.get(key);
    if (counted === undefined) this.#counted.set(key, { minute, tool, bucket, ...sums });
    else addTo(counted, sums);
  }
}

function addTo(sums: Sums, { calls, errors, cancelled, total }: Sums): void {
  sums.calls += calls;
  sums.errors += errors;
  sums.cancelled += cancelled;
  sums.total += total;
}

/** The errors of calls that nobody wanted any more. The tool did not fail. */
const withdrawn: ReadonlySet<string> = new Set(["cancelled", "approval_denied"]);

/** Most calls have flags, such as their client, and waited for nobody: looking for the word takes a tenth of reading the JSON. */
function waitOf({ flags }: CountedCall): number {
  if (flags?.includes('"waited"') !== true) return 0;
  return fromJson<{ waited?: number }>(flags)?.waited ?? 0;
}

const PARTS = 8;

/** The part of a process. SQLite has one writer at a time, so that one part is enough. */
export function partOf(engine: Engine, instance: string): number {
  if (engine === "sqlite") return 0;
  return createHash("sha256").update(instance).digest().readUInt8(0) % PARTS;
}

/** The columns by which a row is found, and those to which is added. */
const columnsOf = {
  call_counts: {
    key: ["span", "starts_at", "tool_name", "bucket", "part"],
    sums: ["calls", "errors", "cancelled", "total"],
  },
  tool_days: {
    key: ["starts_at", "tool_name", "part"],
    sums: ["calls", "errors", "cancelled"],
  },
} as const satisfies { [Name in keyof Tables]?: Record<"key" | "sums", (keyof Tables[Name])[]> };

interface Place {
  readonly span: string;
  readonly starts_at: number;
  readonly tool_name: string;
  readonly bucket?: number;
}

/** What is to be added to the rows of a table. */
class Changes {
  readonly #table: keyof typeof columnsOf;
  readonly #part: number;
  readonly #rows = new Map<string, Place & Sums & { readonly part: number }>();

  constructor(table: keyof typeof columnsOf, part: number) {
    this.#table = table;
    this.#part = part;
  }

  add(place: Place, sums: Sums): void {
    const key = `${place.span} ${place.starts_at} ${place.bucket ?? ""} ${place.tool_name}`;
    const row = this.#rows.get(key);
    const { calls, errors, cancelled, total } = sums;
    if (row !== undefined) addTo(row, sums);
    else this.#rows.set(key, { ...place, part: this.#part, calls, errors, cancelled, total });
  }

  /** In one order everywhere, so that two writers of one part cannot wait for each other. */
  rows() {
    return [...this.#rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  }

  statements(engine: Engine): CompiledQuery[] {
    const rows = this.rows();
    const { key, sums } = columnsOf[this.#table];
    const statements: CompiledQuery[] = [];
    for (let at = 0; at < rows.length; ) {
      const size = sizes.find((one) => one <= rows.length - at)!;
      const values = rows.slice(at, at + size).flatMap((row) => [...key, ...sums].map((name) => row[name]));
      statements.push(CompiledQuery.raw(upsertText(engine, this.#table, size), values));
      at += size;
    }
    return statements;
  }
}

/** How many rows a statement has: few different texts, because each is compiled once and kept. One call has seven rows. */
const sizes = [64, 16, 7, 4, 1];
const texts = new Map<string, string>();

function upsertText(engine: Engine, table: keyof typeof columnsOf, size: number): string {
  const known = texts.get(`${engine} ${table} ${size}`);
  if (known !== undefined) return known;
  const { key, sums } = columnsOf[table];
  let parameter = 0;
  const place = () => (engine === "postgres" ? `$${++parameter}` : "?");
  const row = () => `(${[...key, ...sums].map(place).join(", ")})`;
  const rows = `values ${Array.from({ length: size }, row).join(", ")}`;
  const text = addingText(engine, table, rows);
  texts.set(`${engine} ${table} ${size}`, text);
  return text;
}

function addingText(engine: Engine, table: keyof typeof columnsOf, rows: string): string {
  const { key, sums } = columnsOf[table];
  const isMysql = engine === "mysql";
  const added = sums.map((name) =>
    isMysql ? `${name} = ${name} + values(${name})` : `${name} = ${table}.${name} + excluded.${name}`,
  );
  return [
    `insert into ${table} (${[...key, ...sums].join(", ")})`,
    rows,
    isMysql ? "on duplicate key update" : `on conflict (${key.join(", ")}) do update set`,
    added.join(", "),
  ].join(" ");
}

/** For PostgreSQL: adds what `CallCounts.toJson` returns to one of the tables. */
export function countingText(table: keyof typeof columnsOf, parameter: string): string {
  const { key, sums } = columnsOf[table];
  const rows = `select ${[...key, ...sums].join(", ")} from json_populate_recordset(null::${table}, ${parameter})`;
  return addingText("postgres", table, rows);
}
