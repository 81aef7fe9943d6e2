import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Tool, ToolRegistry } from "@toolrack/core";
import { type CaseStep, type LoopCase, loopCases } from "./loop-cases.ts";

/**
 * `npm run eval:loops [-- PATH] [--set design|held] [--details]` replays runs through a registry and measures what loop
 * detection does: at 1, 4 and 11 seconds a step, with the hints of the tools and without them. A held call is not run, and
 * the run goes on with its next call as if the model did not listen; a stop ends it.
 *
 * PATH is a folder of `.jsonl` files with a run per line: `id`, `kind` ("stuck", "legitimate", or absent: then a run is
 * stuck if five calls in a row gave answers that their tools had given before) and `steps`, each with `tool`, `args`,
 * `result`, and where known `isError`, `readOnly`, `poll`, `took` (milliseconds inside the tool) and `round`. Without
 * PATH the runs of `loop-cases.ts` are taken.
 */
async function main(args: readonly string[]): Promise<void> {
  const details = args.includes("--details");
  const set = args[args.indexOf("--set") + 1];
  const path = args.find((arg, index) => !arg.startsWith("--") && args[index - 1] !== "--set");
  const all = path === undefined ? loopCases() : readCases(path);
  const cases = args.includes("--set") ? all.filter((run) => run.set === set) : all;
  const stuck = cases.filter(({ kind }) => kind === "stuck");
  console.log(
    `${cases.length} runs, ${stuck.length} of them stuck, ${sum(cases.map(({ steps }) => steps.length))} calls.\n`,
  );

  const rows: string[][] = [];
  const troubles = new Map<string, string[]>();
  const verdicts = new Map<string, Set<string>>();
  for (const hints of [true, false]) {
    for (const seconds of [1, 4, 11]) {
      const outcomes: Outcome[] = [];
      for (const run of cases) {
        const outcome = await replay(run, { hints, seconds });
        outcomes.push(outcome);
        const key = `${run.id}${hints ? "" : " without hints"}`;
        verdicts.set(key, (verdicts.get(key) ?? new Set()).add(outcome.verdicts.join(" ")));
        const trouble = troubleOf(outcome);
        if (seconds === 1 && trouble !== "") troubles.set(key, [trouble, outcome.verdicts.join(" ")]);
      }
      rows.push(rowOf(hints, seconds, outcomes));
    }
  }
  printTable(
    [
      "hints",
      "s/step",
      "stuck",
      "nudged",
      "blocked",
      "stopped",
      "held",
      "held new",
      "% new",
      "legitimate",
      "nudged",
      "blocked",
    ],
    rows,
  );
  const uneven = [...verdicts].filter(([, seen]) => seen.size > 1);
  console.log(`\n${uneven.length} of ${verdicts.size} runs have other verdicts at another speed.`);
  if (!details) return;
  for (const [name] of uneven) console.log(`speed matters: ${name}`);
  for (const [name, [trouble, seen]] of troubles) console.log(`${name}: ${trouble}\n    ${seen}`);
}

interface Outcome {
  readonly run: LoopCase;
  /** Of every call: `run`, `nudge`, `block` or `stop`, with the signal. */
  readonly verdicts: readonly string[];
  readonly held: number;
  /** Held calls whose tool had not given this answer before. */
  readonly heldNew: number;
}

/** The clock of the replay, which only `replay` moves. */
let now = Date.UTC(2026, 4, 1, 10);
const RealDate = Date;
globalThis.Date = class extends RealDate {
  // Without arguments, the time of the replay.
  constructor(...args: readonly unknown[]) {
    super(...((args.length === 0 ? [now] : args) as [number])); // TypeScript knows only one of the constructors of `Date` here.
  }
  static override now(): number {
    return now;
  }
} as DateConstructor; // A class cannot be called without `new`, which nothing here does.
Object.defineProperty(globalThis, "performance", { value: { now: () => now, timeOrigin: 0 } });

async function replay(
  run: LoopCase,
  { hints, seconds }: { readonly hints: boolean; readonly seconds: number },
): Promise<Outcome> {
  now = RealDate.UTC(2026, 4, 1, 10);
  const registry = new ToolRegistry();
  let step: CaseStep | undefined;
  for (const [name, steps] of Map.groupBy(run.steps, ({ tool }) => nameOf(tool))) {
    const readOnly = hints && steps.every((call) => call.readOnly === true);
    const poll = steps.some((call) => call.poll === true);
    registry.register(
      Tool.define({
        name,
        parameters: { type: "object" },
        metadata: { ...(readOnly && { readOnly }), ...(poll && { loop: { repeatable: "poll" } }) },
        execute: () => {
          now += step?.took ?? 0;
          const content = step?.result ?? "";
          return { content, type: hints && step?.isError ? ("error" as const) : ("text" as const) };
        },
      }),
    );
  }
  const seen = new Set<string>();
  const verdicts: string[] = [];
  let [held, heldNew] = [0, 0];
  for (step of run.steps) {
    now += seconds * 1_000;
    const { tool, args = {}, round } = step;
    const options = { sessionID: run.id, ...(round && { messageID: round }) };
    const { metadata, error } = await registry.execute(nameOf(tool), args, options);
    const { action, signal } = (error?.details?.verdict ?? metadata?.loop ?? { action: "run" }) as Verdict; // The registry writes verdicts in this form.
    const isHeld = error?.code === "loop_blocked";
    verdicts.push(signal === undefined ? action : `${action}:${signal}`);
    const answer = answerOf(step);
    if (isHeld) held++;
    if (isHeld && !seen.has(answer)) heldNew++;
    seen.add(answer);
    if (action === "stop") break;
  }
  return { run, verdicts, held, heldNew };
}

interface Verdict {
  readonly action: string;
  readonly signal?: string;
}

function rowOf(hints: boolean, seconds: number, outcomes: readonly Outcome[]): string[] {
  const share = (some: readonly Outcome[], actions: RegExp) =>
    some.filter(({ verdicts }) => verdicts.some((verdict) => actions.test(verdict))).length;
  const stuck = outcomes.filter(({ run }) => run.kind === "stuck");
  const others = outcomes.filter(({ run }) => run.kind === "legitimate");
  const percent = (count: number, of: number) => (of === 0 ? "–" : `${((100 * count) / of).toFixed(1)} %`);
  const held = sum(outcomes.map((outcome) => outcome.held));
  const heldNew = sum(outcomes.map((outcome) => outcome.heldNew));
  return [
    hints ? "yes" : "no",
    String(seconds),
    String(stuck.length),
    percent(share(stuck, /nudge|block|stop/), stuck.length),
    percent(share(stuck, /block|stop/), stuck.length),
    percent(share(stuck, /stop/), stuck.length),
    String(held),
    String(heldNew),
    percent(heldNew, held),
    String(others.length),
    String(share(others, /nudge|block|stop/)),
    String(share(others, /block|stop/)),
  ];
}

function troubleOf({ run, verdicts, heldNew }: Outcome): string {
  const has = (action: RegExp) => verdicts.some((verdict) => action.test(verdict));
  if (run.kind === "legitimate") return has(/block|stop/) ? "legitimate, but held" : "";
  if (!has(/nudge|block|stop/)) return "stuck, but not nudged";
  if (!has(/block|stop/)) return "stuck, but not blocked";
  return heldNew > 0 ? `${heldNew} held calls would have said something new` : "";
}

function nameOf(tool: string): string {
  return tool.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) || "tool";
}

/** What a call said, without times, durations, counters and ids, in a simpler way than the registry leaves them out. */
function answerOf({ tool, result }: CaseStep): string {
  return `${tool}\n${result
    .replace(/\b\d{4}-\d\d-\d\d[T ][\d:.,]+Z?/g, "")
    .replace(/\b(?:line \d+:|In ?\[\d+\]|[\d.]+ ?m?s\b|req_\w+|0x[0-9a-f]+)/g, "")}`;
}

function readCases(path: string): LoopCase[] {
  return readdirSync(path)
    .filter((file) => file.endsWith(".jsonl"))
    .flatMap((file) => readFileSync(join(path, file), "utf8").split("\n"))
    .filter((line) => line.trim() !== "")
    .map((line, index) => {
      const run = JSON.parse(line) as Partial<LoopCase>; // The format that the head of this file describes.
      const steps = run.steps ?? [];
      return { id: run.id ?? String(index), kind: run.kind ?? kindOf(steps), set: "held", steps };
    });
}

function kindOf(steps: readonly CaseStep[]): LoopCase["kind"] {
  const seen = new Set<string>();
  let row = 0;
  for (const step of steps) {
    const answer = answerOf(step);
    row = seen.has(answer) ? row + 1 : 0;
    seen.add(answer);
    if (row >= 5) return "stuck";
  }
  return "legitimate";
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function printTable(header: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  for (const row of [header, ...rows])
    console.log(row.map((cell, column) => cell.padStart(widths[column]!)).join("  "));
}

await main(process.argv.slice(2));
