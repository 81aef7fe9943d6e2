/**
 * Serves the workspace it is started in, has many conversations with it, and prints as JSON what is left in
 * memory. Runs as a process of its own, so that it can collect garbage on demand and count only what
 * conversations leave. Arguments: conversations at once, rounds to warm up, rounds to measure.
 */
import { setTimeout as wait } from "node:timers/promises";
import { queryObjects } from "node:v8";
import { StreamReader } from "../../http/server.fixture.ts";
import { serve } from "../../rack/serve.ts";
import { ActiveTurn } from "../active-turns.ts";
import { Compactor } from "../compactor.ts";
import { TurnClock } from "../engine.ts";

/** What is left in memory when no turn runs. */
export interface SoakReport {
  /** Bytes after the warm-up, and after each round. */
  readonly heap: readonly number[];
  /** Objects that live as long as a turn. */
  readonly live: Readonly<Record<"loops" | "clocks" | "turns", number>>;
  /** Timers that keep a process alive, before the first conversation and after the last. */
  readonly timers: readonly [before: number, after: number];
  /** Wrong answers. */
  readonly wrong: readonly string[];
}

const [conversations = 0, warmUp = 0, measured = 0] = process.argv.slice(2).map(Number);
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const serving = await serve(process.cwd(), { logger: silent, port: 0 });
const wrong: string[] = [];

const request = (path: string, body?: unknown, accept = "application/json") =>
  fetch(serving.url + path, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${serving.token}`, "content-type": "application/json", accept },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

/** Large, so that a leaked conversation shows in the heap. */
const ballast = "x".repeat(20_000);
const isRight = (text: string, number: number) => {
  if (!text.includes(`done ${number}.`)) wrong.push(`${number}: ${text.slice(0, 200)}`);
};

async function converse(number: number): Promise<void> {
  const content = `number ${number}. ${ballast}`;
  if (number % 5 === 4) {
    const body = { model: "model-a", messages: [{ role: "user", content }], stream: number % 2 === 0 };
    return isRight(await (await request("/v1/chat/completions", body)).text(), number);
  }
  // The server's API has this shape.
  const { id } = (await (await request("/api/chat/sessions", {})).json()) as { id: string };
  const path = `/api/chat/sessions/${id}`;
  if (number % 5 === 0) return isRight(await (await request(`${path}/messages`, { content })).text(), number);
  const reader = new StreamReader(await request(`${path}/messages`, { content }, "text/event-stream"));
  if (number % 5 === 3) {
    await reader.until("call");
    await request(`${path}/stop`, {});
  }
  if (number % 5 === 2) {
    await reader.until("call");
    return reader.cancel();
  }
  const events = await reader.all();
  if (events.at(-1)?.event !== "end") wrong.push(`${number}: the stream broke off`);
}

async function round(first: number): Promise<number> {
  await Promise.all(Array.from({ length: conversations }, (_, at) => converse(first + at)));
  // Some readers leave before the end, so turns may still run.
  while (await isBusy()) await wait(50);
  // The stack or a pending promise may still hold the latest objects.
  for (let pass = 0; pass < 3; pass++) {
    await wait(20);
    globalThis.gc?.();
  }
  return process.memoryUsage().heapUsed;
}

async function isBusy(): Promise<boolean> {
  // The server's API has this shape.
  const { items } = (await (await request("/api/chat/sessions?limit=500")).json()) as {
    items: readonly { running: boolean }[];
  };
  return items.some(({ running }) => running);
}

/** Counts the live objects of a class, after collecting garbage. Only on request is the result a list. */
// biome-ignore lint/complexity/noBannedTypes: any class will do.
const count = (kind: Function) => queryObjects(kind) as number;

const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;

const before = timers();
const heap: number[] = [];
for (let at = 0; at < warmUp + measured; at++) {
  const bytes = await round(at * conversations);
  if (at >= warmUp - 1) heap.push(bytes);
}
const live = {
  loops: count(Compactor),
  clocks: count(TurnClock),
  turns: count(ActiveTurn),
};
const report: SoakReport = { heap, live, timers: [before, timers()], wrong };
await serving.close();
process.stdout.write(`${JSON.stringify(report)}\n`);
