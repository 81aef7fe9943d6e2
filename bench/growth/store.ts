import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "kysely";
import { blankRow } from "../../packages/server/src/store/calls/call-row.ts";
import { CallTable } from "../../packages/server/src/store/calls/call-table.ts";
import { engineOf, openDatabase } from "../../packages/server/src/store/database.ts";
import type { CallRow } from "../../packages/server/src/store/schema.ts";
import { openStore, type Store, type StoreOptions } from "../../packages/server/src/store/store.ts";
import { makeRecord, textResult } from "../../packages/server/src/store/testing/records.fixture.ts";
import { type Cost, costOf, type GrowthPart } from "./part.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** The calls are spread over so many days, to now. */
const DAYS = 30;
const TOOLS = 50;
const SESSION = 100;
const BATCH = 2_000;

/** The last call makes so many others. */
export const chainOf = (size: number): number => Math.min(100_000, Math.floor(size / 10));
/** A token that made few calls, long ago. */
export const RARE_OWNER = "rare_1";

/** Fills a store with calls as a busy server makes them. Returns when the last of them began. */
export async function fillStore(options: StoreOptions, size: number): Promise<number> {
  await (await openStore(options)).close();
  const { url, directory } = options;
  const engine = engineOf(url);
  const database = await openDatabase(engine, url ?? join(directory, "toolrack.db"));
  const table = new CallTable(database, "bench");
  const end = Date.now();
  const start = end - DAYS * DAY;
  for (let at = 0; at < size; at += BATCH) {
    const length = Math.min(BATCH, size - at);
    const rows = Array.from({ length }, (_, n) => makeRow(at + n, size, start, end));
    await table.write(rows, []);
  }
  if (engine === "postgres") await sql`analyze calls`.execute(database.db);
  await database.close();
  return end;
}

function makeRow(n: number, size: number, start: number, end: number): CallRow {
  const isError = n % 37 === 0;
  const isRare = n > size / 10 && n < size / 10 + 6;
  const chain = chainOf(size);
  const isMade = n >= size - chain;
  const error =
    '{"name":"ToolExecutionError","code":"execution_failed","message":"It failed.","recoverable":true}';
  // Spread over about a decade, the same for each run.
  const duration = (1 + (n % TOOLS)) * 2 ** (((n * 7919) % 1_000) / 300);
  return {
    ...blankRow,
    call_id: idOf(n),
    parent_call_id: isMade ? idOf(size - chain - 1) : null,
    tool_name: `tool_${(n * 31) % TOOLS}`,
    display_name: "A tool",
    session_id: `session_${Math.floor(n / SESSION)}`,
    message_id: "",
    caller: isRare ? RARE_OWNER : "http",
    owner: isRare ? RARE_OWNER : n % 10 === 0 ? "often_2" : "",
    depth: isMade ? 1 : 0,
    state: isError ? "error" : "completed",
    timestamp: Math.floor(start + ((end - start) * n) / size),
    duration,
    run_duration: duration,
    instance: "bench",
    size: 200,
    result_type: isError ? "error" : "text",
    parameters_hash: "0a1b2c",
    parameters: `{"query":"the weather in some city number ${n}","limit":10}`,
    error: isError ? error : null,
    result_text: `A result of a hundred characters or so, as most tools give, about the weather in city number ${n}.`,
    result_size: 100,
  };
}

/** In order, as ids of calls are. */
export function idOf(n: number): string {
  return `019a0000-0000-7000-8000-${String(n).padStart(12, "0")}`;
}

/** Does everything that a console, a client and the server's own housekeeping do with records. */
export async function measureStore(options: StoreOptions, size: number): Promise<Record<string, Cost>> {
  const end = await fillStore(options, size);
  const opening = await costOf(async () => (await openStore(options)).close(), 5);
  const store = await openStore(options);
  try {
    return {
      "open and close": opening,
      ...(await measureReading(store, size, end)),
      ...(await measureUpkeep(store)),
    };
  } finally {
    await store.close();
  }
}

async function measureReading(store: Store, size: number, end: number): Promise<Record<string, Cost>> {
  const { calls } = store;
  const session = `session_${Math.floor(size / SESSION / 2)}`;
  const root = idOf(size - chainOf(size) - 1);
  const list = async (query: Parameters<typeof calls.list>[0], least: number) => {
    const { items } = await calls.list(query);
    if (items.length < least) throw new Error(`${JSON.stringify(query)} gave ${items.length} calls`);
  };
  const statistics = (span: number) => async () => {
    const until = end + MINUTE;
    const { calls: counted, tools } = await calls.statistics({ since: until - span, until });
    const expected = (size * Math.min(span, DAYS * DAY)) / (DAYS * DAY);
    // The ends are taken to the day.
    if (counted < expected * 0.5 || (size > 50_000 && tools.length !== TOOLS))
      throw new Error(`${counted} calls of ${tools.length} tools were counted, not ${expected}`);
  };
  return {
    "newest 50": await costOf(() => list({}, 50)),
    "of a session": await costOf(() => list({ session }, 50)),
    "failed, of a session": await costOf(() => list({ session, status: "error" }, 2)),
    "failed, of a parent": await costOf(() => list({ parent: root, status: "error" }, 10)),
    "failed, newest": await costOf(() => list({ status: "error" }, 50)),
    "of a tool": await costOf(() => list({ tool: "tool_7" }, 50)),
    "of a token with six calls": await costOf(() => list({ owner: RARE_OWNER }, 5)),
    "made by a call with many": await costOf(() => list({ parent: root }, 50)),
    "chain by its root": await costOf(() => list({ root }, 50), 5),
    "text that is nowhere": await costOf(() => list({ text: "nowhere at all" }, 0), 3),
    "statistics, 2 hours": await costOf(statistics(2 * HOUR)),
    "statistics, a day": await costOf(statistics(DAY)),
    "statistics, a week": await costOf(statistics(7 * DAY)),
    "statistics, 30 days": await costOf(statistics(30 * DAY)),
  };
}

async function measureUpkeep(store: Store): Promise<Record<string, Cost>> {
  let at = Date.now();
  const write = async () => {
    const records = Array.from({ length: 500 }, () =>
      makeRecord({ callId: `written ${at++}`, timestamp: at }),
    );
    await Promise.all(records.map((record) => store.calls.finished(record, textResult("x"))));
  };
  return {
    "500 calls written": await costOf(write, 5),
    "hourly upkeep": await costOf(() => store.prune({ maxAge: 2 * DAYS * DAY, maxBytes: 2 ** 40 }), 5),
  };
}

const largest = Number(process.env.BENCH_GROWTH_CALLS ?? 1_000_000);

export const store: GrowthPart = {
  title: "recorded calls",
  sizes: [largest / 100, largest / 10, largest],
  linear: ["text that is nowhere", "chain by its root"],
  // They read a row for each tool, slice of time and kind of duration; small stores do not have all of these.
  bounded: {
    "statistics, 2 hours": 50,
    "statistics, a day": 50,
    "statistics, a week": 50,
    "statistics, 30 days": 50,
  },
  async measure(size) {
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    try {
      return await measureStore({ directory }, size);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
};
