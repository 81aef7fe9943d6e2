import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Tool, type ToolInfo, ToolRegistry } from "@toolrack/core";
import { toOpenAITools } from "@toolrack/core/format";
import { estimateTokens } from "@toolrack/core/internal";
import { metaTools, metaToolsFor } from "../../packages/server/src/calls/index.ts";
import { CodeRuns, runTool, withCatalogue } from "../../packages/server/src/code/index.ts";
import { upstreamOrigin } from "../../packages/server/src/config/index.ts";
import { openSandbox } from "../../packages/server/src/sandbox/sandbox.ts";
import { contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import { median } from "../lib/statistics.ts";
import type { Measured, Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio } from "../lib/table.ts";
import { type Task, type TaskCall, tasks, taskTools } from "./code-tasks.ts";
import { type FirstLine, measureFirstLines } from "./first-line.ts";

interface CodeSample {
  /** Estimated tokens that the model reads, over all rounds of all tasks. */
  readonly tokensIn: number;
  readonly tokensOut: number;
  /** How often the model is asked. */
  readonly rounds: number;
  /** Bytes of answers of tools that come into the conversation. */
  readonly bytes: number;
  /** Tasks with the right answer. */
  readonly right: number;
  readonly wrong: readonly string[];
  /** Tokens in and out of each task. */
  readonly perTask: readonly number[];
  /** Only of the way by code. */
  readonly firstLines?: Awaited<ReturnType<typeof measureFirstLines>>;
}

const ways = { "ours-direct": "direct", "ours-search": "search", "ours-code": "code" } as const;
type Way = (typeof ways)[keyof typeof ways];

/** The same 12 tasks by direct calls, by search and call, and by code, with a scripted model that makes no mistakes. */
export const code: Suite<CodeSample> = {
  title: "Code mode",
  floor: "ours-direct",
  contestants: ["ours-direct", "ours-search", "ours-code"],
  variants: ["30 tools", "150 tools", "500 tools"],

  sample({ contestant, variant }) {
    // Only these three take part.
    return sample(ways[contestant as keyof typeof ways], Number.parseInt(variant, 10));
  },

  report(measured) {
    const tables = code.variants.map((variant) => {
      const entries = measured.filter((entry) => entry.variant === variant);
      const floor = entries.find(({ contestant }) => contestant === code.floor);
      const rows = entries.map((entry) => [
        contestants[entry.contestant].title,
        formatNumber(medianOf(entry, "tokensIn")),
        formatRatio(medianOf(entry, "tokensIn") / medianOf(floor, "tokensIn")),
        formatNumber(medianOf(entry, "tokensOut")),
        formatNumber(medianOf(entry, "rounds")),
        formatNumber(medianOf(entry, "bytes")),
        `${entry.samples[0]?.right} of ${tasks.length}${entry.samples[0]?.wrong.map((title) => `, not: ${title}`) ?? ""}`,
      ]);
      const columns = ["way", "tokens in", "to direct", "tokens out", "rounds", "bytes of results", "right"];
      return { title: variant, columns, rows };
    });
    const [variant] = code.variants.slice(1);
    const perTask = tasks.map(({ title }, at) => [
      title,
      ...code.contestants.map((name) => {
        const entry = measured.find((one) => one.contestant === name && one.variant === variant);
        return formatNumber(entry?.samples[0]?.perTask[at] ?? Number.NaN);
      }),
    ]);
    const columns = ["task", ...code.contestants.map((name) => contestants[name].title)];
    const first = firstLineReport(measured);
    return {
      tables: [...tables, { title: `tokens of each task, ${variant}`, columns, rows: perTask }, first.table],
      goals: first.goals,
    };
  },
};

/** Milliseconds that the first line of code may take, with a blank worker at hand. */
const FIRST_LINE_LIMIT = 10;

/** From a call to the first line of code, beside a sandboxed tool whose worker is warm. */
function firstLineReport(measured: readonly Measured<CodeSample>[]) {
  const goals: GoalOutcome[] = [];
  const rows = measured.flatMap(({ variant, samples }) => {
    const taken = samples.flatMap(({ firstLines }) => firstLines ?? []);
    if (taken.length === 0) return [];
    const of = (what: "warm" | "code", key: keyof FirstLine) => median(taken.map((one) => one[what][key]));
    const goal = judgeGoal(
      `first line of code, ${variant}, of ${FIRST_LINE_LIMIT} ms`,
      1,
      of("code", "time") / FIRST_LINE_LIMIT,
    );
    goals.push(goal);
    return (["warm", "code"] as const).map((what) => [
      `${what === "warm" ? "warm sandboxed tool" : "code, blank worker"}, ${variant}`,
      formatNumber(of(what, "time")),
      formatRatio(of(what, "time") / of("warm", "time")),
      formatNumber(of(what, "hostCpu")),
      formatNumber(of(what, "workerCpu")),
      what === "warm" ? "" : describeGoal(goal),
    ]);
  });
  const columns = ["what", "time, ms", "to floor", "CPU of the host, ms", "CPU of the workers, ms", "goal"];
  return { table: { title: "from a call to the first line", columns, rows }, goals };
}

async function sample(way: Way, count: number): Promise<CodeSample> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
  const ignore = () => {};
  const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
  const sandbox = await openSandbox({ directory, logger, blankWorkers: 2 });
  try {
    const registry = new ToolRegistry();
    for (const tool of rackTools(count)) registry.register(tool);
    const seen = registry.list();
    const runs = new CodeRuns(registry);
    registry.apply({
      put: [...metaTools(), runTool({ registry, sandbox: async () => sandbox, runs }, "many")],
    });
    const meta = registry.list().filter(({ name }) => name.startsWith("toolrack_"));
    const offered: Record<Way, readonly ToolInfo[]> = {
      direct: seen,
      search: metaToolsFor(
        meta.filter(({ name }) => name !== "toolrack_run"),
        seen,
      ),
      code: withCatalogue(metaToolsFor(meta, seen), seen, registry),
    };
    const model = new ScriptedModel(registry, offered[way]);
    const solve = { direct: solveDirectly, search: solveBySearch, code: solveByCode }[way];
    const wrong: string[] = [];
    const perTask: number[] = [];
    for (const task of tasks) {
      const before = model.tokensIn + model.tokensOut;
      model.begin(task.wish);
      if ((await solve(model, task)) !== task.expected) wrong.push(task.title);
      model.answer(task.expected);
      perTask.push(model.tokensIn + model.tokensOut - before);
    }
    const firstLines = way === "code" ? await measureFirstLines(registry, sandbox) : undefined;
    const { tokensIn, tokensOut, rounds, bytes } = model;
    const right = tasks.length - wrong.length;
    return { tokensIn, tokensOut, rounds, bytes, right, wrong, perTask, ...(firstLines && { firstLines }) };
  } finally {
    await sandbox.close();
    await rm(directory, { recursive: true, force: true });
  }
}

/** A conversation with a model that does as the script says, and what it costs. */
class ScriptedModel {
  tokensIn = 0;
  tokensOut = 0;
  rounds = 0;
  bytes = 0;
  readonly #registry: ToolRegistry;
  readonly #offered: string;
  readonly #definitions: number;
  #conversation = 0;

  constructor(registry: ToolRegistry, offered: readonly ToolInfo[]) {
    this.#registry = registry;
    this.#offered = JSON.stringify(toOpenAITools(offered).tools);
    this.#definitions = estimateTokens(this.#offered);
  }

  /** Whether the definitions of the tools say what this tool of the catalogue takes. */
  isTold(name: string): boolean {
    return this.#offered.includes(`\\n${name}(`);
  }

  begin(wish: string): void {
    this.#conversation = estimateTokens(wish);
  }

  /** The model asks for calls, all at once, and is given their answers. */
  async call(calls: readonly TaskCall[]): Promise<string[]> {
    this.#round(calls.map((one) => JSON.stringify({ name: one.tool, arguments: one.args })).join(""));
    const results = await Promise.all(calls.map(({ tool, args }) => this.#registry.execute(tool, args)));
    const contents = results.map(({ content }) => content);
    for (const content of contents) {
      this.bytes += Buffer.byteLength(content);
      this.#conversation += estimateTokens(content);
    }
    return contents;
  }

  /** The model answers the person. */
  answer(text: string): void {
    this.#round(text);
  }

  #round(said: string): void {
    this.rounds++;
    this.tokensIn += this.#definitions + this.#conversation;
    this.tokensOut += estimateTokens(said);
    this.#conversation += estimateTokens(said);
  }
}

const rackName = (name: string) => {
  const { namespace } = taskTools.find((tool) => tool.name === name)!;
  return `mcp_${namespace}_${name}`;
};

async function solveDirectly(model: ScriptedModel, { steps }: Task): Promise<string> {
  const work = steps();
  let next = work.next();
  while (!next.done)
    next = work.next(await model.call(next.value.map(({ tool, args }) => ({ tool: rackName(tool), args }))));
  return next.value;
}

/** The model searches for each tool before it first uses it, then calls it. */
async function solveBySearch(model: ScriptedModel, { steps }: Task): Promise<string> {
  const work = steps();
  const known = new Set<string>();
  let next = work.next();
  while (!next.done) {
    const calls = next.value;
    const unknown = [...new Set(calls.map(({ tool }) => tool))].filter((tool) => !known.has(tool));
    if (unknown.length > 0) await findTools(model, unknown);
    for (const tool of unknown) known.add(tool);
    const through = calls.map(({ tool, args }) => ({
      tool: "toolrack_call",
      args: { name: rackName(tool), arguments: args },
    }));
    next = work.next(await model.call(through));
  }
  return next.value;
}

/** The model writes code; where the catalogue does not say what a tool takes, it searches first. */
async function solveByCode(model: ScriptedModel, task: Task): Promise<string> {
  let value = "";
  const known = new Set<string>();
  for (const write of task.code) {
    const code = write(value);
    const used = new Set([...code.matchAll(/tools\.\w+\.(\w+)/g)].map(([, name = ""]) => name));
    const unknown = [...used].filter((name) => !known.has(name) && !model.isTold(name));
    for (const name of used) known.add(name);
    if (unknown.length > 0) await findTools(model, unknown);
    const [answer = ""] = await model.call([{ tool: "toolrack_run", args: { code } }]);
    value = answer;
  }
  return value;
}

async function findTools(model: ScriptedModel, names: readonly string[]): Promise<void> {
  const wanted = names.map((name) => taskTools.find((tool) => tool.name === name)!.description);
  const found = await model.call(
    wanted.map((query) => ({ tool: "toolrack_search", args: { query, limit: 5 } })),
  );
  names.forEach((name, at) => {
    if (!found[at]?.includes(rackName(name))) throw new Error(`The search does not find ${name}.`);
  });
}

const topics = "invoices calendars files issues pages recordings contracts sensors parcels courses".split(
  " ",
);
const verbs = "list get create update delete archive export import share rename".split(" ");

/** The tools of the tasks, and others around them, of servers with ten tools each. */
function rackTools(count: number): ToolInfo[] {
  const own = taskTools.map(({ namespace, name, description, properties, answer }) =>
    toolOf(namespace, name, description, properties, async (args) => answer(args)),
  );
  const others = Array.from({ length: count - own.length }, (_, at) => {
    const server = `${topics[Math.floor(at / 10) % 10]}${Math.floor(at / 100) || ""}`;
    const verb = verbs[at % 10]!;
    const properties = {
      id: { type: "string", description: `The id of what to ${verb}, as list tells it.` },
      fields: { type: "array", items: { type: "string" }, description: "Which fields to answer with." },
      filter: {
        type: "object",
        properties: { since: { type: "string", format: "date-time" }, owner: { type: "string" } },
      },
      limit: { type: "integer", minimum: 1, maximum: 500, description: "How many at most." },
    };
    const description = `Makes it possible to ${verb} ${server}. Answers with the ${server} that were changed or found, newest first.`;
    return toolOf(server, `${verb}_${server}`, description, properties, async () => "nothing");
  });
  return [...own, ...others];
}

function toolOf(
  server: string,
  name: string,
  description: string,
  properties: object,
  answer: (args: Record<string, unknown>) => Promise<unknown>,
): ToolInfo {
  return Tool.define({
    name: `mcp_${server}_${name}`,
    description,
    parameters: { type: "object", properties },
    metadata: { mcp: upstreamOrigin({ server, tool: name }) },
    execute: ({ input }) => answer(Object(input)),
  });
}
