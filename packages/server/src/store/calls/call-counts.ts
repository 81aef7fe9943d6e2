import { createHash } from "node:crypto";
import { CompiledQuery } from "kysely";
import { fromJson } from "../row-mapping.ts";
import type { CallRow, Engine, Tables } from "../schema.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * The slices of time in which calls are counted, in milliseconds. All are counted by tool, but the quarters of an hour
 * only in all: a chart of a day needs nothing else, and every slice costs a row. Days are also counted in all.
 */
export const spans = { minute: MINUTE, quarter: 15 * MINUTE, hour: HOUR, day: DAY } as const;
export type Span = keyof typeof spans;

export const spanLengths = Object.entries(spans) as [Span, number][]; // The keys of `spans`.

/** Stands for the tool in the counts of all tools together. */
export const ALL_TOOLS = "";

/** How long the counts of a span are kept, in milliseconds. Those of days are kept as long as calls. */
export const keptFor: Readonly<Record<Span, number>> = {
  minute: 3 * DAY,
  quarter: 9 * DAY,
  hour: 9 * DAY,
  day: Number.POSITIVE_INFINITY,
};

type CountRow = Tables["call_counts"];
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

/** Adds up what calls change in the table `call_counts`. */
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

  /** Statements that bring the changes into the table. They must run in the transaction that changes the calls. */
  statements(engine: Engine): CompiledQuery[] {
    const rows = this.#rows();
    const statements: CompiledQuery[] = [];
    for (let at = 0; at < rows.length; ) {
      const size = sizes.find((one) => one <= rows.length - at)!;
      const values = rows.slice(at, at + size).flatMap((row) => countColumns.map((column) => row[column]));
      statements.push(CompiledQuery.raw(upsertText(engine, size), values));
      at += size;
    }
    return statements;
  }

  /** In one order everywhere, so that two writers of one part cannot wait for each other. */
  #rows(): CountRow[] {
    const rows = new Map<string, CountRow>();
    const change = (
      span: CountRow["span"],
      starts_at: number,
      tool_name: string,
      bucket: number,
      sums: Sums,
    ) => {
      const key = `${span} ${starts_at} ${bucket} ${tool_name}`;
      const row = rows.get(key);
      if (row !== undefined) addTo(row, sums);
      else {
        const { calls, errors, cancelled, total } = sums;
        const place = { span, starts_at, tool_name, bucket, part: this.#part };
        rows.set(key, { ...place, calls, errors, cancelled, total });
      }
    };
    const now = Date.now();
    for (const counted of this.#counted.values()) {
      const { minute, tool, bucket } = counted;
      for (const [span, length] of spanLengths) {
        if (now - minute > keptFor[span] + MINUTE) continue;
        const start = minute - (minute % length);
        if (span === "quarter" || span === "day") change(span, start, ALL_TOOLS, bucket, counted);
        // A call without a name of a tool is only counted in all.
        if (span !== "quarter" && tool !== ALL_TOOLS) change(span, start, tool, bucket, counted);
      }
    }
    if (this.#kept.calls !== 0) change("kept", 0, ALL_TOOLS, 0, this.#kept);
    if (this.#withBlob.calls !== 0) change("kept", 0, ALL_TOOLS, WITH_BLOB, this.#withBlob);
    return [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
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

function waitOf({ flags }: CountedCall): number {
  return fromJson<{ waited?: number }>(flags)?.waited ?? 0;
}

const PARTS = 8;

/** The part of a process. SQLite has one writer at a time, so that one part is enough. */
export function partOf(engine: Engine, instance: string): number {
  if (engine === "sqlite") return 0;
  return createHash("sha256").update(instance).digest().readUInt8(0) % PARTS;
}

const counters = ["calls", "errors", "cancelled", "total"] as const;
const countColumns = ["span", "starts_at", "tool_name", "bucket", "part", ...counters] as const;
/** How many rows a statement has: few different texts, because each is compiled once and kept. */
const sizes = [64, 16, 4, 1];
const texts = new Map<string, string>();

function upsertText(engine: Engine, size: number): string {
  const known = texts.get(`${engine} ${size}`);
  if (known !== undefined) return known;
  let parameter = 0;
  const place = () => (engine === "postgres" ? `$${++parameter}` : "?");
  const row = () => `(${countColumns.map(place).join(", ")})`;
  const isMysql = engine === "mysql";
  const sums = counters.map((name) =>
    isMysql ? `${name} = ${name} + values(${name})` : `${name} = call_counts.${name} + excluded.${name}`,
  );
  const text = [
    `insert into call_counts (${countColumns.join(", ")})`,
    `values ${Array.from({ length: size }, row).join(", ")}`,
    isMysql
      ? "on duplicate key update"
      : `on conflict (${countColumns.slice(0, 5).join(", ")}) do update set`,
    sums.join(", "),
  ].join(" ");
  texts.set(`${engine} ${size}`, text);
  return text;
}
