import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CallCounts } from "../../packages/server/src/store/calls/call-counts.ts";
import { blankRow } from "../../packages/server/src/store/calls/call-row.ts";
import { openDatabase } from "../../packages/server/src/store/database.ts";
import { openStore, type StoreOptions } from "../../packages/server/src/store/store.ts";
import { costOf, type Figure, type GrowthPart } from "./part.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const DAYS = 30;
const CALLS_A_DAY = 3;
const BATCH = 5_000;

const largest = Number(process.env.BENCH_GROWTH_TOOLS ?? 50_000);

export const crowd: GrowthPart = {
  title: "different tools that are called three times a day",
  sizes: [largest / 50, largest / 5, largest].map(String),
  async measure(size) {
    const directory = await mkdtemp(join(tmpdir(), "toolrack-growth-"));
    try {
      return await measureCrowd({ directory }, Number(size));
    } finally {
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    }
  },
};

/** Statistics read nothing but counts, so that only these are made: as if calls of all tools had ended on each of 30 days. */
export async function fillCounts({ directory }: StoreOptions, tools: number): Promise<void> {
  await (await openStore({ directory })).close();
  const { db, engine, close } = await openDatabase("sqlite", join(directory, "toolrack.db"));
  const calls = tools * CALLS_A_DAY * DAYS;
  const end = Date.now();
  const start = end - DAYS * DAY;
  for (let at = 0; at < calls; at += BATCH) {
    const rows = Array.from({ length: Math.min(BATCH, calls - at) }, (_, n) => ({
      ...blankRow,
      // A thousandth of the tools has a tenth of the calls.
      tool_name: `tool_${(at + n) % 10 === 0 ? (at + n) % Math.max(1, tools / 1_000) : ((at + n) * 31) % tools}`,
      timestamp: Math.floor(start + ((end - start) * (at + n)) / calls),
      state: "completed" as const,
      duration: 2 ** (((at + n) * 7919) % 12),
    }));
    const statements = new CallCounts(0).add(rows).statements(engine);
    await db.transaction().execute(async (transaction) => {
      for (const statement of statements) await transaction.executeQuery(statement);
    });
  }
  await close();
}

/** Reads the statistics of all windows, as a whole and as the console asks for them. */
export async function measureCrowd(options: StoreOptions, tools: number): Promise<Figure[]> {
  await fillCounts(options, tools);
  return measureStatistics(options);
}

export async function measureStatistics(options: StoreOptions): Promise<Figure[]> {
  const store = await openStore(options);
  const read =
    (span: number, wanted: { readonly tools?: number; readonly tool?: string } = {}) =>
    async () => {
      const until = Date.now();
      const { calls, tools: listed } = await store.calls.statistics({
        since: until - span,
        until,
        ...wanted,
      });
      const least = wanted.tools ?? (wanted.tool === undefined ? 100 : 1);
      // A pattern may mean few tools, which are called some times a day.
      if ((wanted.tool === undefined || span > DAY) && (calls === 0 || listed.length < least))
        throw new Error(`${calls} calls, ${listed.length} tools`);
    };
  const bounded = { goal: 50, grows: true } as const;
  try {
    const figures: Figure[] = [];
    for (const [name, span] of windows) {
      figures.push(...(await costOf(`statistics, ${name}`, read(span), bounded)));
      figures.push(...(await costOf(`statistics without tools, ${name}`, read(span, { tools: 0 }))));
      figures.push(
        ...(await costOf(
          `of a pattern by its beginning, ${name}`,
          read(span, { tool: "tool_123*" }),
          bounded,
        )),
      );
      figures.push(
        ...(await costOf(`of a pattern by its end, ${name}`, read(span, { tool: "*999" }), bounded)),
      );
    }
    return figures;
  } finally {
    await store.close();
  }
}

const windows: readonly (readonly [string, number])[] = [
  ["2 hours", 2 * HOUR],
  ["12 hours", 12 * HOUR],
  ["a day", DAY],
  ["a week", 7 * DAY],
  ["30 days", 30 * DAY],
];
