import { isDeepStrictEqual } from "node:util";
import { compileSchema, type ToolRegistry } from "@toolrack/core";
import { addUsage, noUsage, type TrialOutcome } from "../chat/index.ts";
import { toolMatcher } from "../config/index.ts";
import { isRecord } from "../helpers/index.ts";
import type { EvalCase, EvalFile } from "./eval-file.ts";

/** Asks a model once. The registry has the tools of the version that is tried. */
export type AskModel = (registry: ToolRegistry, asked: EvalCase, file: EvalFile) => Promise<TrialOutcome>;

/** How often a model was right. */
export interface HitRate {
  readonly hits: number;
  /** Runs in which the model answered. */
  readonly runs: number;
  /** Of the true share, with 95 % confidence. */
  readonly interval: Interval;
}

/** The runs of one case. */
export interface CaseRuns extends HitRate {
  /** Runs in which the provider failed. */
  readonly errors: number;
  /** How often each tool was called. */
  readonly calls: Readonly<Record<string, number>>;
  /** Why runs missed, each reason with how often. */
  readonly misses: Readonly<Record<string, number>>;
}

/** One tool was wanted, and another came: search puts it first, or a model called it. */
export interface Confusion {
  readonly expected: string;
  readonly instead: string;
  readonly by: "search" | "model";
  /** In how many cases, or runs. */
  readonly count: number;
}

/** Requests to a model at once. */
const AT_ONCE = 4;
/** When the provider fails so often in a row, it is not asked any more. */
const MOST_FAILURES = 3;

/** Asks the model for every case as often as wanted, several at once. */
export async function tryModel(
  registry: ToolRegistry,
  file: EvalFile,
  ask: AskModel,
  runs: number,
  confusions: Confusions,
) {
  const tallies = file.cases.map(() => new Tally());
  const jobs = file.cases.flatMap((one, at) =>
    Array.from({ length: runs }, () => ({ one, tally: tallies[at]! })),
  );
  let usage = noUsage;
  let failures = 0;
  const work = async () => {
    for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) {
      const { one, tally } = job;
      try {
        const outcome = await ask(registry, one, file);
        failures = 0;
        usage = addUsage(usage, outcome.usage);
        const verdict = await judge(one, outcome, registry);
        tally.add(verdict, outcome);
        const [wanted] = one.expect;
        if (wanted !== undefined && verdict !== undefined)
          for (const name of wrongTools(one, outcome, registry)) confusions.add(wanted.tool, name, "model");
      } catch (thrown) {
        tally.errors++;
        // Nothing more is asked of a provider that is down, and other workers find no jobs.
        if (++failures < MOST_FAILURES) continue;
        jobs.length = 0;
        throw thrown;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const total = rateOf(
    tallies.reduce((sum, { hits }) => sum + hits, 0),
    tallies.reduce((sum, tally) => sum + tally.runs, 0),
  );
  return { cases: tallies.map((tally) => tally.report()), total: { ...total, usage } };
}

/** What the runs of one case came to. */
class Tally {
  hits = 0;
  runs = 0;
  errors = 0;
  readonly #calls = new Map<string, number>();
  readonly #misses = new Map<string, number>();

  /** `why`: why it missed; undefined for a hit. */
  add(why: string | undefined, { calls }: TrialOutcome): void {
    this.runs++;
    if (why === undefined) this.hits++;
    else this.#misses.set(why, (this.#misses.get(why) ?? 0) + 1);
    for (const { name } of calls) this.#calls.set(name, (this.#calls.get(name) ?? 0) + 1);
  }

  report(): CaseRuns {
    const { hits, runs, errors } = this;
    const calls = Object.fromEntries(this.#calls);
    return { ...rateOf(hits, runs), errors, calls, misses: Object.fromEntries(this.#misses) };
  }
}

function rateOf(hits: number, runs: number): HitRate {
  return { hits, runs, interval: wilson(hits, runs) };
}

/** Why the calls of the model are not what the case expects; undefined when they are. */
async function judge(
  one: EvalCase,
  { calls, offered }: TrialOutcome,
  registry: ToolRegistry,
): Promise<string | undefined> {
  const isForbidden = toolMatcher(one.forbid);
  const forbidden = calls.find(({ name }) => isForbidden(registry.get(name) ?? { name }));
  if (forbidden !== undefined) return `called ${forbidden.name}, which is forbidden`;
  if (one.expect.length === 0) return calls[0] && `called ${calls[0].name}, where no tool was to be called`;
  for (const { tool, arguments: wanted = {} } of one.expect) {
    const info = registry.get(tool)!; // `searched` has looked.
    const made = calls.filter(({ name }) => registry.get(name)?.name === info.name);
    if (made.length === 0) {
      const instead =
        calls.length === 0
          ? "called no tool"
          : `called ${[...new Set(calls.map(({ name }) => name))].join(", ")}`;
      return offered.has(info.name)
        ? `${instead} instead of ${info.name}`
        : `${info.name} did not fit into the tool budget`;
    }
    const fitting = made.find((call) => includes(call.arguments, wanted));
    if (fitting === undefined)
      return `called ${info.name} with other arguments: ${short(made[0]!.arguments)}`;
    const outcome = await compileSchema(info.parameters).validate(fitting.arguments);
    if (!outcome.ok)
      return `called ${info.name} with arguments that do not fit: ${outcome.issues[0]?.message}`;
  }
  return undefined;
}

/** The tools that were called though the case expects others. */
function wrongTools({ expect }: EvalCase, { calls }: TrialOutcome, registry: ToolRegistry): Set<string> {
  const expected = new Set(expect.map(({ tool }) => registry.get(tool)?.name));
  const called = calls.map(({ name }) => registry.get(name)?.name ?? name);
  return new Set(called.filter((name) => !expected.has(name)));
}

/** Whether a value has all that is wanted: of objects the wanted members, of anything else all of it. */
function includes(value: unknown, wanted: unknown): boolean {
  if (!isRecord(wanted)) return isDeepStrictEqual(value, wanted);
  return isRecord(value) && Object.entries(wanted).every(([key, member]) => includes(value[key], member));
}

function short(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}

/** Counts which tool came in place of which. */
export class Confusions {
  readonly #known = new Map<string, Confusion>();

  add(expected: string, instead: string, by: Confusion["by"]): void {
    const key = JSON.stringify([expected, instead, by]);
    const count = (this.#known.get(key)?.count ?? 0) + 1;
    this.#known.set(key, { expected, instead, by, count });
  }

  /** The most frequent first. */
  list(): Confusion[] {
    return [...this.#known.values()].sort((one, other) => other.count - one.count);
  }
}

/** The lowest and the highest share, from 0 to 1. */
export type Interval = readonly [low: number, high: number];

/** For intervals that hold the truth in 95 of 100 cases. */
const Z = 1.959964;

/** Wilson's interval for the share that so many hits of so many runs show. It holds for few runs too, and for all or none. */
export function wilson(hits: number, runs: number): Interval {
  if (runs === 0) return [0, 1];
  const share = hits / runs;
  const square = Z ** 2;
  const middle = share + square / (2 * runs);
  const reach = Z * Math.sqrt((share * (1 - share)) / runs + square / (4 * runs ** 2));
  const whole = 1 + square / runs;
  return [Math.max(0, (middle - reach) / whole), Math.min(1, (middle + reach) / whole)];
}

/** Newcombe's interval for the difference of two shares, the other minus the one, from -1 to 1. */
export function difference(
  one: { readonly hits: number; readonly runs: number },
  other: { readonly hits: number; readonly runs: number },
): Interval {
  if (one.runs === 0 || other.runs === 0) return [-1, 1];
  const [low1, high1] = wilson(one.hits, one.runs);
  const [low2, high2] = wilson(other.hits, other.runs);
  const [share1, share2] = [one.hits / one.runs, other.hits / other.runs];
  const change = share2 - share1;
  return [
    change - Math.hypot(share2 - low2, high1 - share1),
    change + Math.hypot(high2 - share2, share1 - low1),
  ];
}
