import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { sql } from "kysely";
import { blankRow } from "../../packages/server/src/store/calls/call-row.ts";
import { CallTable } from "../../packages/server/src/store/calls/call-table.ts";
import { engineOf, openDatabase } from "../../packages/server/src/store/database.ts";
import type { CallRow } from "../../packages/server/src/store/schema.ts";
import { openStore, type Store, type StoreOptions } from "../../packages/server/src/store/store.ts";
import { makeRecord, textResult } from "../../packages/server/src/store/testing/records.fixture.ts";
import { startRack, threadsCpuOf } from "../lib/served-process.ts";
import { costOf, type Figure, type GrowthPart } from "./part.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** The calls are spread over so many days, to now. */
const DAYS = 30;
const TOOLS = 50;
const SESSION = 100;
const BATCH = 2_000;

/** So many calls are in the last chain: the first makes one, and that one makes all others. */
const chainOf = (size: number): number => Math.min(100_000, Math.floor(size / 10));
/** The first call of that chain, and the one that makes the others. */
export const rootOf = (size: number): string => idOf(size - chainOf(size) - 1);
export const makerOf = (size: number): string => idOf(size - chainOf(size));
/** A token that made few calls, long ago. */
export const RARE_OWNER = "rare_1";

/** Fills a store with calls as a busy server makes them, of so many tools. Returns when the last of them began. */
export async function fillStore(options: StoreOptions, size: number, tools = TOOLS): Promise<number> {
  await (await openStore(options)).close();
  const { url, directory } = options;
  const engine = engineOf(url);
  const database = await openDatabase(engine, url ?? join(directory, "toolrack.db"));
  const table = new CallTable(database, "bench");
  const end = Date.now();
  const start = end - DAYS * DAY;
  for (let at = 0; at < size; at += BATCH) {
    const length = Math.min(BATCH, size - at);
    const rows = Array.from({ length }, (_, n) => makeRow(at + n, size, tools, start, end));
    await table.write(rows, {});
  }
  if (engine === "postgres") await sql`analyze calls`.execute(database.db);
  await database.close();
  return end;
}

function makeRow(n: number, size: number, tools: number, start: number, end: number): CallRow {
  const isError = n % 37 === 0;
  const isRare = n > size / 10 && n < size / 10 + 6;
  const isMade = n >= size - chainOf(size);
  const isMaker = idOf(n) === makerOf(size);
  const error =
    '{"name":"ToolExecutionError","code":"execution_failed","message":"It failed.","recoverable":true}';
  // Spread over about a decade, the same for each run.
  const duration = (1 + (n % TOOLS)) * 2 ** (((n * 7919) % 1_000) / 300);
  return {
    ...blankRow,
    call_id: idOf(n),
    parent_call_id: isMaker ? rootOf(size) : isMade ? makerOf(size) : null,
    root_call_id: isMade ? rootOf(size) : null,
    tool_name: `tool_${(n * 31) % tools}`,
    display_name: "A tool",
    session_id: `session_${Math.floor(n / SESSION)}`,
    message_id: "",
    caller: isRare ? RARE_OWNER : "http",
    owner: isRare ? RARE_OWNER : n % 10 === 0 ? "often_2" : "",
    depth: isMaker ? 1 : isMade ? 2 : 0,
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

/** Does everything that a console, a client and the server's own housekeeping do with records. `end`: of the last call. */
export async function measureStore(options: StoreOptions, size: number, end: number): Promise<Figure[]> {
  const openAndClose = async () => (await openStore(options)).close();
  const opening = await costOf("open and close", openAndClose, { times: 15 });
  const store = await openStore(options);
  try {
    return [...opening, ...(await measureReading(store, size, end)), ...(await measureUpkeep(store))];
  } finally {
    await store.close();
  }
}

async function measureReading(store: Store, size: number, end: number): Promise<Figure[]> {
  const { calls } = store;
  const session = `session_${Math.floor(size / SESSION / 2)}`;
  const root = rootOf(size);
  const maker = makerOf(size);
  const list = (query: Parameters<typeof calls.list>[0], least: number) => async () => {
    const { items } = await calls.list(query);
    if (items.length < least) throw new Error(`${JSON.stringify(query)} gave ${items.length} calls`);
  };
  /** A page behind the first half of a chain, or behind 5,000 calls. */
  const middle = async (query: Parameters<typeof calls.list>[0]) => {
    let cursor: string | undefined;
    for (let page = 0; page < Math.min(10, Math.floor(chainOf(size) / 1_000)); page++)
      cursor = (await calls.list({ ...query, limit: 500, ...(cursor && { cursor }) })).next ?? cursor;
    return list({ ...query, ...(cursor && { cursor }) }, 50);
  };
  const statistics = (span: number) => async () => {
    const until = end + MINUTE;
    const { calls: counted, tools } = await calls.statistics({ since: until - span, until });
    const expected = (size * Math.min(span, DAYS * DAY)) / (DAYS * DAY);
    // The ends are taken to the day.
    if (counted < expected * 0.5 || (size > 50_000 && tools.length !== TOOLS))
      throw new Error(`${counted} calls of ${tools.length} tools were counted, not ${expected}`);
  };
  const rare = { times: 3, grows: true } as const;
  // They read a row for each tool, slice of time and kind of duration; small stores do not have all of these.
  const bounded = { goal: 50, grows: true } as const;
  return [
    ...(await costOf("newest 50", list({}, 50))),
    ...(await costOf("of a session", list({ session }, 50))),
    ...(await costOf("failed, of a session", list({ session, status: "error" }, 2))),
    ...(await costOf("failed, of a parent", list({ parent: maker, status: "error" }, 5))),
    ...(await costOf("failed, newest", list({ status: "error" }, 50))),
    ...(await costOf("of a tool", list({ tool: "tool_7" }, 20))),
    ...(await costOf("of a token with six calls", list({ owner: RARE_OWNER }, 5))),
    ...(await costOf("of a caller with six calls", list({ caller: RARE_OWNER }, 5))),
    ...(await costOf("made by a call with many", list({ parent: maker }, 50))),
    ...(await costOf("made by a call with many, far behind", await middle({ parent: maker }))),
    ...(await costOf("chain by its root", list({ root }, 50))),
    ...(await costOf("chain by its root, far behind", await middle({ root }))),
    ...(await costOf("chain by a call within it", list({ root: maker }, 50))),
    ...(await costOf("chain by a call within it, far behind", await middle({ root: maker }))),
    // All calls of the chain are looked at, on the thread for searches.
    ...(await costOf("none of a chain, by a call within it", list({ root: maker, owner: RARE_OWNER }, 0), {
      goal: 100,
      grows: true,
    })),
    ...(await costOf("chain by its last call", list({ root: idOf(size - 1) }, 1))),
    ...(await costOf("failed, of a chain", list({ root, status: "error" }, 5))),
    ...(await costOf("text that is nowhere", list({ text: "nowhere at all" }, 0), rare)),
    ...(await costOf("statistics, 2 hours", statistics(2 * HOUR), bounded)),
    ...(await costOf("statistics, a day", statistics(DAY), bounded)),
    ...(await costOf("statistics, a week", statistics(7 * DAY), bounded)),
    ...(await costOf("statistics, 30 days", statistics(30 * DAY), bounded)),
  ];
}

async function measureUpkeep(store: Store): Promise<Figure[]> {
  let at = Date.now();
  const write = async () => {
    const records = Array.from({ length: 500 }, () =>
      makeRecord({ callId: `written ${at++}`, timestamp: at }),
    );
    await Promise.all(records.map((record) => store.calls.finished(record, textResult("x"))));
  };
  const prune = () => store.prune({ maxAge: 2 * DAYS * DAY, maxBytes: 2 ** 40 });
  return [
    ...(await costOf("500 calls written", write, { times: 5 })),
    ...(await costOf("hourly upkeep", prune, { times: 5 })),
  ];
}

/** What `serve` takes to be ready on a workspace with this store, compared with one without any. Linux only. */
export async function measureStart(directory: string): Promise<Figure[]> {
  const empty = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
  // Nothing is deleted while the start is measured.
  const config = { builtins: false, retention: { days: 2 * DAYS, maxBytes: 2 ** 40 } };
  try {
    const costs: { readonly cpu: number; readonly wall: number }[] = [];
    for (let round = 0; round < 7; round++)
      for (const place of [empty, directory]) {
        const begun = performance.now();
        const { process: server } = await startRack(place, config);
        const wall = performance.now() - begun;
        const cpu = 1_000 * threadsCpuOf(server.pid!);
        const ended = once(server, "exit");
        server.kill("SIGKILL");
        await ended;
        // The first start of a place makes its files.
        if (round > 0) costs.push({ cpu, wall });
      }
    const least = (isFull: boolean, of: "cpu" | "wall") =>
      Math.min(...costs.filter((_, at) => at % 2 === Number(isFull)).map((cost) => cost[of]));
    const ratio = (of: "cpu" | "wall") => least(true, of) / least(false, of);
    return [
      { what: "serve is ready, empty store", unit: "ms CPU", value: least(false, "cpu"), grows: true },
      { what: "serve is ready, this store / an empty one", unit: "× CPU", value: ratio("cpu"), goal: 1.1 },
      { what: "serve is ready, this store / an empty one", unit: "× time", value: ratio("wall"), goal: 1.2 },
    ];
  } finally {
    await rm(empty, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * A workspace with so many calls. It is made once and kept for a day, since 5,000,000 calls take minutes: it lies beside the
 * packages of the repo, and one of another schema is made anew.
 */
async function keptWorkspace(size: number): Promise<{ directory: string; end: number }> {
  const schema = await readFile(new URL("../../packages/server/src/store/schema.ts", import.meta.url));
  const name = `${size}-${createHash("sha256").update(schema).digest("hex").slice(0, 12)}`;
  const directory = join(cache, name);
  const begun = Date.now();
  const endOf = async () => (await stat(join(directory, "filled"))).mtimeMs;
  const known = await endOf().catch(() => 0);
  if (begun - known < DAY) return { directory, end: known };
  await rm(directory, { recursive: true, force: true });
  const end = await fillStore({ directory: join(directory, ".toolrack") }, size);
  await writeFile(join(directory, "filled"), "");
  await utimes(join(directory, "filled"), end / 1_000, end / 1_000);
  return { directory, end: await endOf() };
}

const cache = fileURLToPath(new URL("../../node_modules/.cache/toolrack-growth/", import.meta.url));
const largest = Number(process.env.BENCH_GROWTH_CALLS ?? 5_000_000);

export const store: GrowthPart = {
  title: "recorded calls",
  sizes: [largest / 500, largest / 5, largest].map(String),
  async measure(size) {
    const { directory, end } = await keptWorkspace(Number(size));
    const figures = await measureStore({ directory: join(directory, ".toolrack") }, Number(size), end);
    return [...figures, ...(process.platform === "linux" ? await measureStart(directory) : [])];
  },
};
