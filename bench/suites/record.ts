import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Tool, ToolRegistry } from "@toolrack/core";
import { contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { median } from "../lib/statistics.ts";
import type { Measured, Suite } from "../lib/suite.ts";
import { formatNumber } from "../lib/table.ts";

interface RecordSample {
  /** Microseconds of the whole process for each call. */
  readonly cpu: number;
}

/** How many calls are under way at one time. */
const variants: Readonly<Record<string, number>> = { "one at a time": 1, "64 at once": 64 };
const limit = 30;
const warmUp = 20_000;
const calls = 40_000;

/** What it costs to keep the record of a call, and to know that it is safe before the call is answered. */
export const record: Suite<RecordSample> = {
  title: "Records",
  floor: "ours-json-schema",
  contestants: ["ours-json-schema", "ours-record"],
  variants: Object.keys(variants),

  async sample({ contestant, variant }) {
    const together = variants[variant]!;
    if (contestant !== "ours-record") return measure(makeCaller(makeRegistry()), together);
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    const { openStore } = await import("../../packages/server/src/store/store.ts");
    const { CallRecorder } = await import("../../packages/server/src/calls/recorder.ts");
    const { CallBook } = await import("../../packages/server/src/calls/call-book.ts");
    const { masterGrant } = await import("../../packages/server/src/access/grants.ts");
    const store = await openStore({ directory });
    const registry = makeRegistry();
    const book = new CallBook(registry);
    const recorder = new CallRecorder(book, store.calls, console);
    const common = { toolName: "add", displayName: "add", sessionID: "", caller: "bench" };
    try {
      const call = makeCaller(registry);
      const sample = await measure(async (n, callId) => {
        const live = book.enter({ ...common, callId, timestamp: Date.now() }, { grant: masterGrant });
        const { promise: recording, resolve } = Promise.withResolvers<{ recorded: boolean }>();
        live.settle = resolve;
        await call(n, callId);
        const { recorded } = await recording;
        book.leave(live);
        if (!recorded) throw new Error("a call was not recorded");
      }, together);
      const { items } = await store.calls.list({ limit: 1 });
      if (items[0]?.callId !== idOf(warmUp + calls - 1)) throw new Error("the last call has no record");
      return sample;
    } finally {
      await recorder.close();
      await store.close();
      await rm(directory, { recursive: true, force: true });
    }
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const rows = measured.map((entry) => {
      const floor = measured.find(
        ({ contestant, variant }) => contestant === record.floor && variant === entry.variant,
      );
      const added = cpuOf(entry) - cpuOf(floor);
      const isOurs = entry.contestant === "ours-record";
      const goal = judgeGoal(`µs added, ${entry.variant}`, limit, added);
      if (isOurs) goals.push(goal);
      return [
        `${contestants[entry.contestant].title}, ${entry.variant}`,
        formatNumber(cpuOf(entry)),
        isOurs ? formatNumber(added) : "",
        isOurs ? describeGoal(goal, (limit) => `${limit} µs`) : "",
      ];
    });
    return {
      tables: [{ title: "CPU per call", columns: ["contestant", "µs/call", "added, µs", "goal"], rows }],
      goals,
    };
  },
};

function cpuOf(entry: Measured<RecordSample> | undefined): number {
  const values = (entry?.samples ?? []).map(({ cpu }) => cpu);
  return values.length === 0 ? Number.NaN : median(values);
}

function makeRegistry(): ToolRegistry {
  const registry = new ToolRegistry();
  registry.register(
    Tool.define({
      name: "add",
      description: "Adds one to a number.",
      parameters: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
      execute: async ({ input }) => String(Number(input.n) + 1),
    }),
  );
  return registry;
}

type Caller = (n: number, callId: string) => Promise<void>;

function makeCaller(registry: ToolRegistry): Caller {
  return async (n, callId) => {
    const { content } = await registry.execute("add", { n }, { callId, caller: "bench" });
    if (content !== String(n + 1)) throw new Error(`a wrong answer: ${content}`);
  };
}

async function measure(call: Caller, together: number): Promise<RecordSample> {
  let next = 0;
  const run = async (amount: number) => {
    for (const end = next + amount; next < end; ) {
      const group: Promise<void>[] = [];
      for (; next < end && group.length < together; next++) group.push(call(next, idOf(next)));
      await Promise.all(group);
      // As between two requests.
      await nextTurn();
    }
  };
  await run(warmUp);
  const before = process.cpuUsage();
  await run(calls);
  const { user, system } = process.cpuUsage(before);
  return { cpu: (user + system) / calls };
}

/** In order, as ids of calls are. */
function idOf(n: number): string {
  return `019a0000-0000-7000-8000-${String(n).padStart(12, "0")}`;
}
