import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import { median } from "../lib/statistics.ts";
import type { Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio } from "../lib/table.ts";

/** Wall milliseconds. The floor can neither reload nor use a cache, so it has `start` only. */
interface FilesSample {
  readonly start: number;
  readonly cachedStart?: number;
  /** From the end of writing a changed file to the first answer of its new version, noticed by watching. */
  readonly changeToServed?: number;
}

const limits = { start: 3_000, changeToServed: 300 } as const;
const changes = 10;

/** Folders of tool files: how long until they serve, and until a change of one serves. */
export const files: Suite<FilesSample> = {
  title: "Tool files",
  floor: "node-import",
  contestants: ["node-import", "ours-files"],
  variants: ["500", "2000"],

  async sample({ contestant, variant }) {
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    try {
      await writeTools(directory, Number(variant));
      return contestant === "node-import"
        ? await importAll(directory, Number(variant))
        : await openAll(directory);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const rows = measured.map((entry) => {
      const start = medianOf(entry, "start");
      const served = medianOf(entry, "changeToServed");
      const floor = medianOf(
        measured.find(({ contestant, variant }) => contestant === files.floor && variant === entry.variant),
        "start",
      );
      const judged = judge(entry.variant, entry.contestant, start, served);
      goals.push(...judged);
      return [
        `${contestants[entry.contestant].title}, ${entry.variant} files`,
        formatNumber(start),
        formatNumber(medianOf(entry, "cachedStart")),
        formatNumber(served),
        formatRatio(start / floor),
        judged.map((goal) => describeGoal(goal)).join("; "),
      ];
    });
    const columns = [
      "contestant",
      "start, ms",
      "cached start, ms",
      "change to served, ms",
      "start to floor",
      "goal",
    ];
    return { tables: [{ title: "tool files", columns, rows }], goals };
  },
};

function judge(variant: string, contestant: string, start: number, served: number): GoalOutcome[] {
  if (!contestant.startsWith("ours")) return [];
  if (variant === "2000") return [judgeGoal("start with 2,000 files, of 3 s", 1, start / limits.start)];
  return [judgeGoal("change to served at 500 files, of 300 ms", 1, served / limits.changeToServed)];
}

async function writeTools(directory: string, count: number): Promise<void> {
  await writeFile(join(directory, "package.json"), '{ "type": "module" }');
  for (let group = 0; group < 20; group++)
    await mkdir(join(directory, `tools/g${group}`), { recursive: true });
  for (let index = 0; index < count; index++) await writeFile(pathOf(directory, index), source(index, 0));
}

function pathOf(directory: string, index: number): string {
  return join(directory, `tools/g${index % 20}/t${index}.ts`);
}

function source(index: number, version: number): string {
  return `export default {
  name: "t${index}",
  description: "Adds ${index} to a number.",
  inputSchema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
  handler: async ({ n }: { n: number }) => String(n + ${index}) + ".${version}",
};\n`;
}

async function importAll(directory: string, count: number): Promise<FilesSample> {
  const start = performance.now();
  const loaded = await Promise.all(
    Array.from({ length: count }, (_, index) => import(pathToFileURL(pathOf(directory, index)).href)),
  );
  const time = performance.now() - start;
  if ((await loaded[3].default.handler({ n: 1 })) !== "4.0") throw new Error("a file answered wrongly");
  return { start: time };
}

async function openAll(directory: string): Promise<FilesSample> {
  const { openWorkspace } = await import("toolrack");
  const quiet = { debug() {}, info() {}, warn() {}, error() {} };
  const open = async () => {
    const begin = performance.now();
    const app = await openWorkspace(directory, { logger: quiet });
    const time = performance.now() - begin;
    const { content } = await app.registry.execute("internal_g3_t3", { n: 1 });
    if (content !== "4.0") throw new Error(`a file answered ${content}`);
    return { app, time };
  };
  const first = await open();
  await first.app.close();
  const { app, time: cachedStart } = await open();
  app.watch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 1_000)); // The watcher says nothing when it has begun to look.
  const times: number[] = [];
  for (let version = 1; version <= changes; version++) {
    await writeFile(pathOf(directory, 3), source(3, version));
    const written = performance.now();
    while ((await app.registry.execute("internal_g3_t3", { n: 1 })).content !== `4.${version}`) {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    times.push(performance.now() - written);
  }
  await app.close();
  return { start: first.time, cachedStart, changeToServed: median(times) };
}
