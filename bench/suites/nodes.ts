import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  findPostgres,
  startPostgres,
} from "../../packages/server/src/builtin-tools/testing/database-servers.ts";
import { contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { type ServedProcess, startRack, threadsCpuOf } from "../lib/served-process.ts";
import { median } from "../lib/statistics.ts";
import type { Measured, Suite } from "../lib/suite.ts";
import { formatNumber } from "../lib/table.ts";

interface NodeSample {
  /** Microseconds of the server's process for each call. */
  readonly cpu: number;
}

/** How many calls are under way at one time. */
const variants: Readonly<Record<string, number>> = { "1 connection": 1, "16 connections": 16 };
const limit = 1.2;
const warmUp = 2_000;
const calls = 4_000;

/** What a direct call costs a server that shares PostgreSQL with others, beside one that keeps its records in SQLite. */
export const nodes: Suite<NodeSample> = {
  title: "A server on PostgreSQL",
  floor: "ours-http",
  contestants: ["ours-http", "ours-postgres"],
  variants: Object.keys(variants),
  takesPart: ({ contestant }) => contestant === "ours-http" || findPostgres() !== undefined,

  async sample({ contestant, variant }) {
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    const database = contestant === "ours-postgres" ? await startPostgres(findPostgres()!) : undefined;
    process.env.DATABASE_URL = database?.url ?? "";
    const rack = await startRack(directory);
    try {
      const together = variants[variant]!;
      await run(rack, warmUp, together);
      const before = threadsCpuOf(rack.process.pid!);
      await run(rack, calls, together);
      return { cpu: ((threadsCpuOf(rack.process.pid!) - before) * 1e6) / calls };
    } finally {
      rack.process.kill("SIGKILL");
      await database?.[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    }
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const rows = measured.map((entry) => {
      const { contestant, variant } = entry;
      const floor = measured.find((one) => one.contestant === nodes.floor && one.variant === variant);
      const ratio = cpuOf(entry) / cpuOf(floor);
      const goal = judgeGoal(`× of SQLite, ${variant}`, limit, ratio);
      const isOurs = contestant !== nodes.floor;
      if (isOurs) goals.push(goal);
      return [
        `${contestants[contestant].title}, ${variant}`,
        formatNumber(cpuOf(entry)),
        formatNumber(ratio),
        isOurs ? describeGoal(goal, (most) => `${most}×`) : "",
      ];
    });
    return {
      tables: [
        {
          title: "CPU of the server per call",
          columns: ["contestant", "µs/call", "× of SQLite", "goal"],
          rows,
        },
      ],
      goals,
    };
  },
};

function cpuOf(entry: Measured<NodeSample> | undefined): number {
  const values = (entry?.samples ?? []).map(({ cpu }) => cpu);
  return values.length === 0 ? Number.NaN : median(values);
}

async function run({ url, token }: ServedProcess, amount: number, together: number): Promise<void> {
  let left = amount;
  const client = async () => {
    while (left-- > 0) {
      const answer = await fetch(`${url}/api/tools/add/calls`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ arguments: { n: 1 } }),
      });
      if (!answer.ok) throw new Error(`the call was answered with ${answer.status}`);
      await answer.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: together }, client));
}
