import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { memoryOf, type ServedProcess, startRack, threadsCpuOf } from "../lib/served-process.ts";
import type { Figure, GrowthPart } from "./part.ts";

/** How much a rack has to carry. */
export interface RackSize {
  readonly tools: number;
  readonly readers: number;
  readonly megabytes: number;
  readonly upstreams: number;
}

const fullSize: RackSize = { tools: 50_000, readers: 1_000, megabytes: 60, upstreams: 200 };
/** By how much a rack is smaller than the full one. */
const parts: Readonly<Record<string, number>> = { "1/20": 20, "1/4": 4, full: 1 };

export const rack: GrowthPart = {
  title: "a rack: 50,000 tools, 1,000 event readers, results of 60 MB, 200 stdio servers",
  sizes: Object.keys(parts),
  measure(size) {
    const { tools, readers, megabytes, upstreams } = fullSize;
    const by = parts[size]!;
    const part = {
      tools: tools / by,
      readers: readers / by,
      megabytes: megabytes / by,
      upstreams: upstreams / by,
    };
    return measureRack(part);
  },
};

/**
 * Measures a served rack from outside: what its tool lists, its search, event readers, large results and its end cost. Linux only, because the CPU of the server is read from `/proc`.
 */
export async function measureRack(size: RackSize): Promise<Figure[]> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-growth-"));
  const servers = Object.fromEntries(
    Array.from({ length: size.upstreams }, (_, at) => [
      `s${at}`,
      { command: "sh", args: ["upstream.sh", String(at % 2)] },
    ]),
  );
  await writeFile(join(directory, "mcp.json"), JSON.stringify({ mcpServers: servers }));
  await writeFile(join(directory, "upstream.sh"), upstream);
  const server = await startRack(directory);
  try {
    const rack = new Rack(server);
    await writeFile(join(directory, "tools/many.ts"), manyTools(size));
    await rack.ask("/api/reload", { method: "POST" });
    await rack.untilConnected(size.upstreams);
    return [
      ...(await listRows(rack)),
      ...(await readerRows(rack, size.readers)),
      ...(await resultRows(rack, size.megabytes)),
      ...(await endRows(server)),
    ];
  } finally {
    server.process.kill("SIGKILL");
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function listRows(rack: Rack): Promise<Figure[]> {
  const list = "/api/tools?limit=100";
  const firstList = await rack.cost(list, 1);
  const nextList = await rack.cost(list, 20);
  const changedLists: number[] = [];
  for (const enabled of [false, true, false]) {
    await rack.ask("/api/tools/add", { method: "PATCH", body: { enabled } });
    changedLists.push((await rack.cost(list, 1)).cpu);
  }
  const firstSearch = await rack.cost("/api/tools?limit=20&q=create+invoice", 1);
  await rack.ask("/api/tools/add", { method: "PATCH", body: { enabled: true } });
  const changedSearch = await rack.cost("/api/tools?limit=20&q=merge+ticket", 1);
  const openai = await rack.cost("/openai/tools", 5);
  const names = namesIn(await rack.ask("/api/tools?limit=1000"));
  const switched = await rack.waitsDuring(async () => {
    for (const enabled of [false, true])
      await rack.ask("/api/tools", { method: "PATCH", body: { names, enabled } });
  });
  return [
    { ...row("first list of tools, others wait", firstList.longest, "ms", 50), grows: true },
    row("a page of the list", nextList.cpu, "ms CPU", 10),
    row("the list after a change", Math.min(...changedLists), "ms CPU", 20),
    { ...row("first search, in slices", firstSearch.cpu, "ms CPU"), grows: true },
    { ...row("first search, others wait", firstSearch.longest, "ms", 50), grows: true },
    { ...row("search after a change", changedSearch.cpu, "ms CPU", 50), grows: true },
    { ...row("/openai/tools", openai.cpu, "ms CPU", 50), grows: true },
    { ...row("/openai/tools, size", openai.size / 1_000, "kB", 100), grows: true },
    { ...row("1,000 tools are switched, others wait", switched.at(-1) ?? 0, "ms", 50), grows: true },
  ];
}

function namesIn(page: string): string[] {
  // The API has this shape.
  const { items } = JSON.parse(page) as { items: { name: string }[] };
  return items.map(({ name }) => name);
}

async function readerRows(rack: Rack, count: number): Promise<Figure[]> {
  const { hostname, port, host } = new URL(rack.server.url);
  const request = `GET /api/events HTTP/1.1\\r\\nhost: ${host}\\r\\nauthorization: Bearer ${rack.server.token}\\r\\n\\r\\n`;
  const program = `const { connect } = require("node:net"); let open = 0;
for (let at = 0; at < ${count}; at++) {
  const socket = connect(${port}, "${hostname}", () => socket.write("${request}"));
  socket.once("data", () => { if (++open === ${count}) console.log("open"); });
  socket.resume();
}`;
  const calls = 1_600;
  const callAll = async () => {
    const before = rack.cpu();
    for (let at = 0; at < calls; at += 16)
      await Promise.all(Array.from({ length: 16 }, () => rack.call("add", { n: 1 })));
    return ((rack.cpu() - before) * 1e6) / calls;
  };
  await callAll();
  const alone = await callAll();
  const readers = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  await once(readers.stdout, "data");
  const withReaders = await callAll();
  const killed = performance.now();
  readers.kill("SIGKILL");
  while ((await rack.readers()) > 0 && performance.now() - killed < 30_000) await sleep(20);
  const gone = performance.now() - killed;
  return [
    { ...row("an event reader, for each call", (withReaders - alone) / count, "µs CPU", 0.5), grows: true },
    row("until readers that are gone are dropped", gone, "ms", 1_000),
  ];
}

/** Large results: of text, of data, and of text that holds a secret. */
async function resultRows(rack: Rack, megabytes: number): Promise<Figure[]> {
  const rows: Figure[] = [];
  for (const kind of ["text", "data", "secret"]) {
    const call = () => rack.call("large", { megabytes, kind });
    await call();
    const times = 3;
    const before = rack.cpu();
    const waits = await rack.waitsDuring(async () => {
      for (let at = 0; at < times; at++) await call();
    });
    const cpu = ((rack.cpu() - before) * 1_000) / times;
    const idle = memoryOf(rack.pid);
    let most = 0;
    const look = setInterval(() => {
      most = Math.max(most, memoryOf(rack.pid));
    }, 10);
    const crowded = await rack.waitsDuring(() => Promise.all(Array.from({ length: 8 }, call)));
    clearInterval(look);
    const p95 = (all: readonly number[]) => all[Math.floor(all.length * 0.95)] ?? 0;
    rows.push(
      { ...row(`a large result, ${kind}`, cpu, "ms CPU"), grows: true },
      {
        ...row(`a large result, ${kind}: others wait at the most`, waits.at(-1) ?? 0, "ms", 100),
        grows: true,
      },
      { ...row(`eight at once, ${kind}: others wait, p95`, p95(crowded), "ms", 100), grows: true },
      { ...row(`eight at once, ${kind}: others wait at the most`, crowded.at(-1) ?? 0, "ms"), grows: true },
      { ...row(`eight at once, ${kind}: more memory`, Math.max(0, most - idle), "MB"), grows: true },
    );
  }
  return rows;
}

async function endRows({ process: server }: ServedProcess): Promise<Figure[]> {
  const begun = performance.now();
  const ended = once(server, "exit");
  server.kill("SIGTERM");
  await ended;
  const what = "stop with all stdio upstreams, of which half go on when their input ends";
  return [{ ...row(what, performance.now() - begun, "ms", 1_500), grows: true }];
}

export function row(what: string, value: number, unit: string, goal?: number): Figure {
  return { what, value, unit, ...(goal !== undefined && { goal }) };
}

/** A served rack and its token. */
export class Rack {
  readonly server: ServedProcess;
  readonly pid: number;

  constructor(server: ServedProcess) {
    this.server = server;
    this.pid = server.process.pid!;
  }

  /** Seconds. */
  cpu(): number {
    return threadsCpuOf(this.pid);
  }

  async ask(
    path: string,
    { method = "GET", body }: { method?: string; body?: object } = {},
  ): Promise<string> {
    const headers = { authorization: `Bearer ${this.server.token}`, "content-type": "application/json" };
    const response = await fetch(this.server.url + path, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${text.slice(0, 500)}`);
    return text;
  }

  call(name: string, input: object): Promise<string> {
    return this.ask(`/api/tools/${name}/calls`, { method: "POST", body: { arguments: input } });
  }

  async readers(): Promise<number> {
    return Number(/^toolrack_event_readers (\d+)/m.exec(await this.ask("/metrics"))?.[1]);
  }

  async untilConnected(count: number): Promise<void> {
    for (const end = performance.now() + 120_000; performance.now() < end; await sleep(200)) {
      // The API has this shape.
      const { items } = JSON.parse(await this.ask("/api/mcp-servers")) as { items: { state: string }[] };
      if (items.filter(({ state }) => state === "ready").length === count) return;
    }
    throw new Error("the upstream servers were not ready in two minutes");
  }

  /** Milliseconds of CPU for each request, the longest wait of others meanwhile, and the size of an answer. */
  async cost(path: string, times: number): Promise<{ cpu: number; longest: number; size: number }> {
    const before = this.cpu();
    let size = 0;
    const waits = await this.waitsDuring(async () => {
      for (let at = 0; at < times; at++) size = (await this.ask(path)).length;
    });
    return { cpu: ((this.cpu() - before) * 1_000) / times, longest: waits.at(-1) ?? 0, size };
  }

  /**
   * How long small requests waited for their answers meanwhile, in milliseconds, the shortest first; without the time for
   * which other programs kept the server or this process from running.
   */
  async waitsDuring(work: () => Promise<unknown>): Promise<number[]> {
    const waits: number[] = [];
    let isOver = false;
    const watching = (async () => {
      while (!isOver) {
        const asked = performance.now() - this.#heldUp();
        await (await fetch(`${this.server.url}/healthz`)).text();
        waits.push(Math.max(0, performance.now() - this.#heldUp() - asked));
        await sleep(2);
      }
    })();
    await work();
    isOver = true;
    await watching;
    return waits.sort((one, other) => one - other);
  }

  /** Milliseconds for which the main threads of the server and of this process were ready to run and did not. */
  #heldUp(): number {
    const delays = [this.pid, process.pid].map((pid) =>
      Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[1]),
    );
    return delays.reduce((sum, one) => sum + one, 0) / 1e6;
  }
}

function manyTools({ tools }: RackSize): string {
  return `import { readFileSync } from "node:fs";
import { Tool } from "@toolrack/core";
const words = "invoice weather mail folder ticket order customer report calendar payment contact search create update delete list export import archive merge".split(" ");
const word = (n) => words[n % words.length];
export const many = Array.from({ length: ${tools} }, (_, n) => Tool.define({
  name: ["t", word(n), word(n * 7), n].join("_"),
  description: \`Handles the \${word(n * 3)} number \${n} of the \${word(n * 11)} system, with \${word(n * 13)} details.\`,
  parameters: { type: "object", properties: { id: { type: "string", description: "The id of the " + word(n) } }, required: ["id"] },
  execute: async () => "done",
}));
const made = new Map();
const lines = Array.from({ length: 100 }, (_, n) => "row " + n + " of an ordinary text").join("\\n");
const rows = (count) => Array.from({ length: count }, (_, n) => ({ n, name: "row " + n, tags: ["a", "b"], text: "of an ordinary table", at: n / 7 }));
const kinds = {
  text: (size) => Buffer.from(lines.repeat(size / lines.length)).toString("latin1"),
  data: (size) => ({ rows: rows(Math.round(size / 85)) }),
  // The token of the workspace is a secret of every rack.
  secret: (size) => kinds.text(size) + readFileSync(".toolrack/token", "utf8").trim() + kinds.text(1e5),
};
export const large = Tool.define({
  name: "large",
  description: "Gives a large result.",
  parameters: { type: "object", properties: { megabytes: { type: "number" }, kind: { type: "string" } } },
  execute: async ({ input: { megabytes, kind } }) => {
    // Made once, and flat: what the tool itself does is not measured.
    if (!made.has(kind)) made.set(kind, kinds[kind](megabytes * 1e6));
    return made.get(kind);
  },
});
`;
}

/** A stdio server that takes little memory: a shell that answers line by line. With the argument 1 it goes on when its input ends. */
const upstream = `while IFS= read -r line; do
  rest=\${line#*\\"id\\":}; [ "$rest" = "$line" ] && continue
  id=\${rest%%[,\\}]*}
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\\n' "$id";;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}\\n' "$id";;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\\n' "$id";;
  esac
done
[ "$1" = 0 ] || exec sleep 1000
`;
