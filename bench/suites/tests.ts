import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import type { Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio } from "../lib/table.ts";

interface TestsSample {
  /** Milliseconds of the whole process for all calls. */
  readonly cpu: number;
  /** Seconds from the start of the work to its end. */
  readonly seconds: number;
}

/** Seconds that 1,000 saved calls may take on two cores. */
const LIMIT = 20;
const CALLS = 1_000;
const FILES = 10;

/** 1,000 saved calls with an inner call each, read from YAML and run, beside the same calls made directly. */
export const tests: Suite<TestsSample> = {
  title: "saved calls as tests",
  floor: "ours-calls",
  contestants: ["ours-calls", "ours-tests"],
  variants: ["1,000 chains"],

  async sample({ contestant }) {
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    await using cleanUp = new AsyncDisposableStack();
    cleanUp.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
    await writeWorkspace(directory);
    const { openWorkspace } = await import("../../packages/server/src/rack/index.ts");
    const { readTestFiles, TestRunner } = await import("../../packages/server/src/tests/index.ts");
    const logger = { debug() {}, info() {}, warn() {}, error() {} };
    const app = await openWorkspace(directory, { logger, log: false });
    cleanUp.defer(() => app.close());
    const { registry } = app;
    // The compiler of schemas is loaded at the first call.
    await registry.execute("total", { prices: [1] });
    const before = process.cpuUsage();
    const startedAt = performance.now();
    if (contestant === "ours-calls") {
      for (let at = 0; at < CALLS; at++) {
        const { structured } = await registry.execute("total", { prices: [at, 1], note: note(at) });
        if (JSON.stringify(structured) !== JSON.stringify({ sum: at + 1, note: note(at) }))
          throw new Error("wrong");
      }
    } else {
      const runner = new TestRunner({
        registry,
        directory,
        expertAllows: () => undefined,
        secretOf: async () => undefined,
      });
      const report = await runner.run(await readTestFiles(directory), { mode: "strict" });
      if (report.passed !== CALLS) throw new Error(`${report.failed} of ${CALLS} tests failed`);
    }
    const { user, system } = process.cpuUsage(before);
    return { cpu: (user + system) / 1000, seconds: (performance.now() - startedAt) / 1000 };
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const floor = measured.find(({ contestant }) => contestant === tests.floor);
    const rows = measured.map((entry) => {
      const seconds = medianOf(entry, "seconds");
      const goal =
        entry.contestant === "ours-tests" ? judgeGoal("1,000 saved calls, s", LIMIT, seconds) : undefined;
      if (goal !== undefined) goals.push(goal);
      return [
        contestants[entry.contestant].title,
        formatNumber(medianOf(entry, "cpu")),
        formatRatio(medianOf(entry, "cpu") / medianOf(floor, "cpu")),
        formatNumber(seconds),
        goal === undefined ? "" : describeGoal(goal, (limit) => `${limit} s`),
      ];
    });
    const columns = ["contestant", "CPU, ms", "CPU to floor", "seconds", "goal"];
    return { tables: [{ title: "1,000 chains of two calls", columns, rows }], goals };
  },
};

function note(at: number): string {
  return `order ${at}: ${"words ".repeat(20)}`;
}

async function writeWorkspace(directory: string): Promise<void> {
  await mkdir(join(directory, "tools"), { recursive: true });
  await mkdir(join(directory, "tests"));
  await writeFile(join(directory, "toolrack.config.js"), "export default { builtins: false };");
  await writeFile(
    join(directory, "tools/total.ts"),
    `import { Tool } from "@toolrack/core";
const prices = { type: "array", items: { type: "number" } };
export const sum = Tool.define({
  name: "sum",
  parameters: { type: "object", properties: { prices }, required: ["prices"] },
  execute: ({ input }) => ({ sum: input.prices.reduce((all, one) => all + one, 0) }),
});
export const total = Tool.define({
  name: "total",
  parameters: { type: "object", properties: { prices, note: { type: "string" } }, required: ["prices"] },
  execute: async ({ input, call }) => ({ ...(await call("sum", { prices: input.prices })).structured, note: input.note }),
});`,
  );
  for (let file = 0; file < FILES; file++) {
    const tests = Array.from({ length: CALLS / FILES }, (_, index) => {
      const at = file * (CALLS / FILES) + index;
      const prices = [at, 1];
      return {
        name: `total ${at}`,
        tool: "total",
        arguments: { prices, note: note(at) },
        expect: { equals: { sum: at + 1, note: note(at) } },
        calls: [{ tool: "sum", arguments: { prices }, answer: { sum: at + 1 } }],
      };
    });
    const lines = tests.map((test) => `  - ${JSON.stringify(test)}`);
    await writeFile(join(directory, `tests/f${file}.calls.yaml`), `tests:\n${lines.join("\n")}\n`);
  }
}
