import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import { cpuOf, type ServedProcess, startProgram, startRack } from "../lib/served-process.ts";
import { median } from "../lib/statistics.ts";
import type { Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio, type Table } from "../lib/table.ts";

/**
 * Figures of the provider asked directly, through the rack, and through a proxy that only copies bytes. In one variant, only
 * those that it is about.
 */
interface ChatSample {
  /** Milliseconds to the first token of one stream. */
  readonly direct?: number;
  readonly ours?: number;
  /** Microseconds of CPU for a token, and for the whole of a request with one token. */
  readonly token?: number;
  readonly tokenProxy?: number;
  readonly request?: number;
  readonly requestProxy?: number;
  /** Milliseconds to the first token of 95 of 100 streams that are opened at once. */
  readonly manyDirect?: number;
  readonly manyOurs?: number;
  readonly manyProxy?: number;
}

const MANY = 200;
/** How long a server is idle before so many streams are opened, in milliseconds. */
const IDLE = 500;
const limits = { added: 1.5, token: 10, many: 3 };
const provider = fileURLToPath(new URL("../chat/provider.ts", import.meta.url));
const proxyProgram = fileURLToPath(new URL("../chat/proxy.ts", import.meta.url));

/**
 * Answers of a model through the rack, beside the same provider asked directly and through a bare proxy, in turn. A busy
 * machine slows all three, so that the ratio to the proxy says more than the microseconds.
 */
export const chat: Suite<ChatSample> = {
  title: "Chat",
  floor: "ours-chat",
  contestants: ["ours-chat"],
  variants: ["first token", "tokens", "tokens one by one", `${MANY} at once`],

  async sample({ variant }) {
    if (process.platform !== "linux") throw new Error("CPU time of the rack is read from /proc: Linux only");
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    const upstream = await startProgram([provider]);
    const config = {
      builtins: false,
      server: { rateLimit: 0 },
      providers: {
        bench: { baseURL: `${upstream.url}/v1`, apiKey: "sk-of-the-bench", models: Object.values(models) },
      },
    };
    const rack = await startRack(directory, config);
    const proxy = await startProgram([proxyProgram, upstream.url]);
    try {
      if (variant === "first token") return await firstTokens(upstream, rack, proxy);
      if (variant === "tokens") return await tokenCosts(rack, proxy, models.fast, 16, 24);
      if (variant === "tokens one by one") return await tokenCosts(rack, proxy, models.paced, 50, 100);
      return await manyAtOnce(upstream, rack, proxy);
    } finally {
      for (const { process: server } of [rack, proxy, upstream]) {
        const ended = once(server, "close");
        server.kill("SIGKILL");
        await ended;
      }
      await rm(directory, { recursive: true, force: true });
    }
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const judge = (...given: Parameters<typeof judgeGoal>) => {
      const goal = judgeGoal(...given);
      goals.push(goal);
      return goal;
    };
    const rows = measured.flatMap((entry): string[][] => {
      const figure = (key: keyof ChatSample) => medianOf(entry, key);
      const toProxy = (ours: keyof ChatSample, proxy: keyof ChatSample) =>
        formatRatio(figure(ours) / figure(proxy));
      if (entry.variant === "first token") {
        const added = figure("ours") - figure("direct");
        const goal = describeGoal(judge("ms to the first token, added", limits.added, added), formatNumber);
        const what = `${formatNumber(figure("ours"))} ms, direct ${formatNumber(figure("direct"))} ms`;
        return [
          ["first token, added ms", formatNumber(added), "", what, goal],
          [
            "CPU of a request, µs",
            formatNumber(figure("request")),
            toProxy("request", "requestProxy"),
            "one token",
            "",
          ],
        ];
      }
      if (entry.variant === "tokens" || entry.variant === "tokens one by one") {
        const isFast = entry.variant === "tokens";
        const what = isFast
          ? "16 streams as fast as they come"
          : "50 streams, each token by itself after 10 ms";
        const goal = isFast
          ? describeGoal(judge("µs of CPU for a token", limits.token, figure("token")), formatNumber)
          : "";
        const row = ["CPU of a token, µs", formatNumber(figure("token")), toProxy("token", "tokenProxy")];
        return [[...row, what, goal]];
      }
      const ratio = figure("manyOurs") / figure("manyDirect");
      const goal = describeGoal(judge(`first token of ${MANY} streams`, limits.many, ratio));
      const [ours, direct, proxy] = (["manyOurs", "manyDirect", "manyProxy"] as const).map((key) =>
        formatNumber(figure(key)),
      );
      const what = `${ours} ms, direct ${direct} ms, proxy ${proxy} ms`;
      const name = `first token of ${MANY} at once, p95 to direct`;
      return [[name, formatRatio(ratio), toProxy("manyOurs", "manyProxy"), what, goal]];
    });
    const table: Table = {
      title: "A model's answer through the rack",
      columns: ["what", "ours", "to a bare proxy", "how", "goal"],
      rows,
    };
    return { tables: [table], goals };
  },
};

/** See `provider.ts` for what the names say. */
const models = { one: "1-0", fast: "1000-0", paced: "100-10", many: "20-20" };

type Place = Pick<ServedProcess, "url" | "token">;

async function firstTokens(
  upstream: ServedProcess,
  rack: ServedProcess,
  proxy: ServedProcess,
): Promise<ChatSample> {
  const agent = new Agent({ keepAlive: true });
  const times = { direct: [] as number[], ours: [] as number[], proxy: [] as number[] };
  const places = { direct: upstream, ours: rack, proxy };
  const ask = async () => {
    for (const name of ["direct", "ours", "proxy"] as const)
      times[name].push((await stream(places[name], models.one, agent, 1)).first);
  };
  for (let at = 0; at < 600; at++) await ask();
  for (const list of Object.values(times)) list.length = 0;
  const cpu = () => [cpuOf(rack.process.pid!), cpuOf(proxy.process.pid!)] as const;
  const before = cpu();
  for (let at = 0; at < 600; at++) await ask();
  const [request = 0, requestProxy = 0] = cpu().map((after, at) => ((after - before[at]!) * 1e6) / 600);
  agent.destroy();
  return { direct: median(times.direct), ours: median(times.ours), request, requestProxy };
}

async function tokenCosts(
  rack: ServedProcess,
  proxy: ServedProcess,
  ...how: [model: string, together: number, answers: number]
): Promise<ChatSample> {
  return { token: await tokenCost(rack, ...how), tokenProxy: await tokenCost(proxy, ...how) };
}

/** CPU of a process for each token of so many answers, so many of them at the same time. */
async function tokenCost(
  asked: ServedProcess,
  model: string,
  together: number,
  answers: number,
): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  const tokens = Number(model.split("-")[0]);
  const run = async (count: number) => {
    let left = count;
    const client = async () => {
      while (left-- > 0) await stream(asked, model, agent, tokens);
    };
    await Promise.all(Array.from({ length: together }, client));
  };
  await run(Math.max(answers, together));
  // What requests cost by themselves is measured elsewhere.
  const empty = cpuOf(asked.process.pid!);
  let left = 200;
  while (left-- > 0) await stream(asked, models.one, agent, 1);
  const before = cpuOf(asked.process.pid!);
  await run(answers * 2);
  const cpu = cpuOf(asked.process.pid!) - before - ((before - empty) / 200) * answers * 2;
  agent.destroy();
  return (cpu * 1e6) / (answers * 2 * tokens);
}

async function manyAtOnce(
  upstream: ServedProcess,
  rack: ServedProcess,
  proxy: ServedProcess,
): Promise<ChatSample> {
  const times = { direct: [] as number[], ours: [] as number[], proxy: [] as number[] };
  const places = { direct: upstream, ours: rack, proxy };
  for (const place of Object.values(places)) await warmUp(place);
  for (let round = 0; round < 10; round++) {
    for (const name of ["direct", "ours", "proxy"] as const) {
      // Users come back to a server that has done nothing for a while, and has given memory back.
      await sleep(IDLE);
      // Every stream has a connection of its own, as those of different clients have.
      const agent = new Agent({ keepAlive: false });
      const answers = await Promise.all(
        Array.from({ length: MANY }, () => stream(places[name], models.many, agent, 20)),
      );
      const firsts = answers.map(({ first }) => first).sort((a, b) => a - b);
      // The first rounds open the connections to the provider, and compile what the others use.
      if (round >= 2) times[name].push(firsts[Math.ceil(MANY * 0.95) - 1]!);
    }
  }
  return {
    manyDirect: median(times.direct),
    manyOurs: median(times.ours),
    manyProxy: median(times.proxy),
  };
}

/** Has a server compile what it uses for a request, as one that has run for some minutes has. */
async function warmUp(place: Place): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  let left = 3_000;
  const client = async () => {
    while (left-- > 0) await stream(place, models.one, agent, 1);
  };
  await Promise.all(Array.from({ length: 16 }, client));
  agent.destroy();
}

/** Asks for a stream and reads it to its end. Rejects unless it has that many tokens and a proper end. */
function stream(
  { url, token }: Place,
  model: string,
  agent: Agent,
  tokens: number,
): Promise<{ first: number }> {
  const body = JSON.stringify({
    model,
    stream: true,
    messages: [{ role: "user", content: "Say something." }],
  });
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  };
  const begin = performance.now();
  return new Promise((resolve, reject) => {
    const outgoing = request(`${url}/v1/chat/completions`, { method: "POST", headers, agent }, (incoming) => {
      let first = Number.NaN;
      const pieces: string[] = [];
      incoming.setEncoding("utf8");
      incoming.on("data", (piece: string) => {
        if (Number.isNaN(first) && piece.includes('"content":"The')) first = performance.now() - begin;
        pieces.push(piece);
      });
      incoming.on("error", reject);
      incoming.on("end", () => {
        const text = pieces.join("");
        const told = text.split('"content":"').length - text.split('"content":""').length;
        if (told === tokens && text.endsWith("data: [DONE]\n\n")) resolve({ first });
        else reject(new Error(`${told} of ${tokens} tokens: ${text.slice(0, 300)}`));
      });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
