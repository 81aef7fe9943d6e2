import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import { cpuOf, memoryOf, type ServedProcess, startProgram, startRack } from "../lib/served-process.ts";
import { median } from "../lib/statistics.ts";
import type { Measured, Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio } from "../lib/table.ts";

interface SubscribersSample {
  /** Seconds until all subscribers had their stream open. */
  readonly opening: number;
  /** Kilobytes of the server's resident memory for each subscriber. */
  readonly memoryEach: number;
  /** Milliseconds from the request for a call until half of the subscribers had been told that it ended. */
  readonly half: number;
  /** The same for the last subscriber. */
  readonly last: number;
  /** Microseconds of the server's CPU for each subscriber that is told of a call. */
  readonly cpuEach: number;
  /** Subscribers that missed an event, were told twice, or were cut off. */
  readonly errors: number;
}

/** What a process of subscribers is told, and answers. */
type Order = { readonly wait: string };
type Answer =
  | { readonly open: number }
  | { readonly told: string; readonly times: readonly number[]; readonly errors: number };

const amount = 10_000;
/** Each process may have as many files open as the server: they share the work, not to reach that limit. */
const processes = 4;
const calls = 7;
/** Milliseconds between two calls, in which the work that the first one left behind ends. */
const PAUSE = 300;
const memoryLimit = 15;
const self = fileURLToPath(import.meta.url);

/** Ten thousand readers of the event stream, in processes of their own, and calls that all of them are told of. */
export const subscribers: Suite<SubscribersSample> = {
  title: "Subscribers to events",
  floor: "node-http",
  contestants: ["node-http", "ours-http"],
  variants: [`${amount} subscribers`],

  async sample({ contestant }) {
    if (process.platform !== "linux")
      throw new Error("the figures of the server are read from /proc: Linux only");
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    const server =
      contestant === "ours-http" ? await startRack(directory) : await startProgram([self, "floor"]);
    const readers = Array.from({ length: processes }, () => startReaders(server));
    try {
      return await measure(server, readers);
    } finally {
      for (const reader of readers) reader.kill("SIGKILL");
      const ended = once(server.process, "close");
      server.process.kill("SIGKILL");
      await ended;
      await rm(directory, { recursive: true, force: true });
    }
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const floor = measured.find(({ contestant }) => contestant === subscribers.floor);
    const rows = measured.map((entry) => {
      const judged = judge(entry);
      goals.push(...judged);
      return [
        contestants[entry.contestant].title,
        formatNumber(medianOf(entry, "opening")),
        formatNumber(medianOf(entry, "memoryEach")),
        formatNumber(medianOf(entry, "half")),
        formatNumber(medianOf(entry, "last")),
        formatNumber(medianOf(entry, "cpuEach")),
        formatRatio(medianOf(entry, "cpuEach") / medianOf(floor, "cpuEach")),
        String(Math.max(...entry.samples.map(({ errors }) => errors))),
        judged.map((goal) => `${goal.what}: ${describeGoal(goal)}`).join("; "),
      ];
    });
    const columns = [
      "contestant",
      "all open, s",
      "RSS each, kB",
      "half told, ms",
      "all told, ms",
      "server CPU, µs/subscriber",
      "CPU to floor",
      "errors",
      "goal",
    ];
    return { tables: [{ title: `${amount} subscribers`, columns, rows }], goals };
  },
};

function judge(entry: Measured<SubscribersSample>): GoalOutcome[] {
  if (!entry.contestant.startsWith("ours")) return [];
  return [
    judgeGoal("errors", 0, Math.max(...entry.samples.map(({ errors }) => errors))),
    judgeGoal("kB for each", memoryLimit, medianOf(entry, "memoryEach")),
  ];
}

async function measure(server: ServedProcess, readers: readonly ChildProcess[]): Promise<SubscribersSample> {
  // The first calls compile what all later ones use.
  for (let n = 0; n < 50; n++) await callTool(server, `warm-${n}`);
  const memoryBefore = memoryOf(server.process.pid!);
  const begin = performance.now();
  const opened = readers.map((reader) => answerOf(reader, (answer) => "open" in answer));
  for (const reader of readers) reader.send({ wait: "" } satisfies Order);
  await Promise.all(opened);
  const opening = (performance.now() - begin) / 1_000;
  await sleep(PAUSE);
  const memoryEach = ((memoryOf(server.process.pid!) - memoryBefore) * 1_024) / amount;

  const halves: number[] = [];
  const lasts: number[] = [];
  let errors = 0;
  const cpuBefore = cpuOf(server.process.pid!);
  for (let n = 0; n < calls; n++) {
    const callId = `told-${n}`;
    const told = readers.map((reader) =>
      answerOf(reader, (answer) => "told" in answer && answer.told === callId),
    );
    for (const reader of readers) reader.send({ wait: callId } satisfies Order);
    await sleep(PAUSE);
    const asked = clock();
    await callTool(server, callId);
    const answers = await Promise.all(told);
    const times = answers.flatMap((answer) => ("told" in answer ? answer.times : [])).sort((a, b) => a - b);
    errors += answers.reduce((sum, answer) => sum + ("told" in answer ? answer.errors : 0), 0);
    halves.push(times[Math.floor(times.length / 2)]! - asked);
    lasts.push(times.at(-1)! - asked);
  }
  const cpu = cpuOf(server.process.pid!) - cpuBefore;
  return {
    opening,
    memoryEach,
    half: median(halves),
    last: median(lasts),
    cpuEach: (cpu * 1e6) / (calls * amount),
    errors,
  };
}

function answerOf(reader: ChildProcess, isWanted: (answer: Answer) => boolean): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const listen = (answer: Answer) => {
      if (!isWanted(answer)) return;
      reader.off("message", listen);
      resolve(answer);
    };
    reader.on("message", listen);
    reader.once("exit", () => reject(new Error("a process of subscribers ended")));
  });
}

async function callTool({ url, token }: ServedProcess, callId: string): Promise<void> {
  const response = await fetch(`${url}/api/tools/add/calls`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ arguments: { n: 1 }, callId }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
}

function startReaders({ url, token }: ServedProcess): ChildProcess {
  const count = String(amount / processes);
  return fork(self, ["read", url, token, count], { execArgv: [] });
}

/** Milliseconds on the clock that all processes of the machine share. */
function clock(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The least possible: a list of responses, to which three events of each call are written. */
function serveFloor(): void {
  const readers = new Set<ServerResponse>();
  const server = createServer((incoming, response) => {
    if (incoming.method === "GET") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("event: ready\ndata: {}\n\n");
      readers.add(response);
      return;
    }
    let text = "";
    incoming.setEncoding("utf8");
    incoming.on("data", (chunk) => {
      text += chunk;
    });
    incoming.on("end", () => {
      const { callId } = JSON.parse(text);
      const data = JSON.stringify({ callId, toolName: "add", at: Date.now() });
      const names = ["call.queued", "call.started", "call.completed"];
      const bytes = Buffer.from(names.map((name) => `event: ${name}\ndata: ${data}\n\n`).join(""));
      for (const reader of readers) reader.write(bytes);
      response.end(JSON.stringify({ callId }));
    });
  });
  server.listen(0, "127.0.0.1", () => {
    // A server that listens on a port has such an address.
    console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
}

/** Opens its share of the streams when it is first told to wait, and then tells when each of them knew of a call. */
function read(url: string, token: string, count: number): void {
  const { hostname, port, host } = new URL(url);
  const request = `GET /api/events HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n\r\n`;
  let wanted = "";
  let open = 0;
  let errors = 0;
  let times: number[] = [];
  const openOne = () =>
    new Promise<void>((resolve) => {
      const socket = connect(Number(port), hostname, () => socket.write(request));
      let rest = "";
      let isOpen = false;
      socket.setEncoding("latin1");
      socket.on("data", (chunk) => {
        rest += chunk;
        if (!isOpen && rest.includes("event: ready")) {
          isOpen = true;
          open++;
          resolve();
        }
        for (let end = rest.indexOf("\n\n"); end !== -1; end = rest.indexOf("\n\n")) {
          const block = rest.slice(0, end);
          rest = rest.slice(end + 2);
          if (wanted !== "" && block.includes("event: call.completed")) note(block);
        }
      });
      socket.on("error", () => errors++);
      socket.on("close", () => errors++);
    });
  const note = (block: string) => {
    if (!block.includes(`"callId":"${wanted}"`)) errors++;
    times.push(clock());
    if (times.length === count) {
      process.send!({ told: wanted, times, errors } satisfies Answer);
      errors = 0;
    }
    if (times.length > count) errors++;
  };
  process.on("message", async (order: Order) => {
    wanted = order.wait;
    times = [];
    if (open > 0) return;
    // A backlog of connections is as long as the system lets it be.
    while (open < count) await Promise.all(Array.from({ length: Math.min(100, count - open) }, openOne));
    process.send!({ open } satisfies Answer);
  });
}

// This file is also the program of the floor and of the subscribers, which are processes of their own.
if (process.argv[1] === self) {
  const [role, url, token, count] = process.argv.slice(2);
  if (role === "floor") serveFloor();
  else read(url!, token!, Number(count));
}
