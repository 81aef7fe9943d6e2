// `npm run walk -- http|mcp|stdio|sandbox`: makes one real call on a warm server and prints every file and function of
// core and server that it ran, in the order of their first use. `walk.slow.test.ts` fails when there are too many.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

/** How the call comes in. `sandbox` is the call of a single-file tool over HTTP; its worker is not looked at. */
export type Surface = "http" | "mcp" | "stdio" | "sandbox";

/** What one call runs: on its way to the answer, and what is done later for all calls of a moment, such as writing their records. */
export interface Walk {
  readonly way: Ran;
  readonly later: Ran;
}

export interface Ran {
  /** In the order of their first use. */
  readonly files: readonly RanFile[];
  readonly functions: number;
  /** How often they were called. */
  readonly calls: number;
}

export interface RanFile {
  /** From the root of the repo. */
  readonly path: string;
  readonly functions: readonly { readonly name: string; readonly line: number; readonly calls: number }[];
}

const root = resolve(import.meta.dirname, "..");
const ours = ["core", "server"].map((name) => `${pathToFileURL(join(root, "packages", name, "src"))}/`);
const WARM_UP = 20;
/** What ran in each of these calls belongs to a call; what ran in some only is a timer of the server. */
const LOOKS = 4;
/** Milliseconds after the answer in which the record is written. */
const AFTER_ANSWER = 150;

const tools = {
  "tools/add.ts": `import { Tool } from "@toolrack/core";
export const add = Tool.define({
  name: "add",
  description: "Adds two numbers.",
  parameters: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
  execute: ({ input }) => String(input.a + input.b),
});
`,
  "tools/sum.tool.js": `module.exports = {
  getMetadata: () => ({ id: "sum", name: "Sum", description: "Adds two numbers.", version: "1.0.0", author: "walk", category: "math" }),
  getSchema: () => ({ parameters: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] } }),
  getDependencies: () => ({}),
  getBusinessErrors: () => [],
  execute: async ({ a, b }) => ({ sum: a + b }),
};
`,
};

/** Starts a server on a workspace of its own, warms it up, and looks at what a call runs. */
export async function walk(surface: Surface): Promise<Walk> {
  const directory = mkdtempSync(join(tmpdir(), "toolrack-walk-"));
  mkdirSync(join(directory, "tools"));
  for (const [path, text] of Object.entries(tools)) writeFileSync(join(directory, path), text);
  const child = startProgram(surface, directory);
  try {
    let said = "";
    child.stderr!.setEncoding("utf8").on("data", (text) => {
      said += text;
    });
    child.once("close", () => console.error(said));
    const call = await caller(surface, child, directory);
    // `toolrack mcp` starts anew in the same process: what it said last counts.
    const debug = await Debugger.connect(said.match(/ws:\S+/g)?.at(-1) ?? "");
    await debug.send("Profiler.enable");
    await debug.send("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    for (let count = 0; count < WARM_UP; count++) await call();
    await sleep(1_000);
    const ways: Functions[] = [];
    const laters: Functions[] = [];
    for (let count = 0; count < LOOKS; count++) {
      await functionsRun(debug);
      await call();
      ways.push(await functionsRun(debug));
      await sleep(AFTER_ANSWER);
      laters.push(await functionsRun(debug));
    }
    await debug.send("Profiler.stopPreciseCoverage");
    const way = ways.reduce(inBoth);
    const later = laters.reduce(inBoth);
    const order = await debug.orderOf(new Map([...way, ...later]), call);
    return { way: toRan(way, order), later: toRan(later, order) };
  } finally {
    child.removeAllListeners("close");
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "close");
    rmSync(directory, { recursive: true, force: true });
  }
}

function startProgram(surface: Surface, directory: string): ChildProcess {
  const words = surface === "stdio" ? ["mcp"] : ["serve", "--port", "0", "--json", "--no-watch"];
  const node = ["--conditions=toolrack-source", "--disable-warning=ExperimentalWarning"];
  const main = join(root, "packages/server/src/main.ts");
  return spawn(process.execPath, ["--inspect=127.0.0.1:0", ...node, main, ...words], {
    cwd: directory,
    stdio: ["pipe", "pipe", "pipe"],
  });
}

/** A function that makes one call and returns when its answer has come. */
async function caller(
  surface: Surface,
  child: ChildProcess,
  directory: string,
): Promise<() => Promise<void>> {
  const lines = createInterface(child.stdout!);
  const toolCall = { method: "tools/call", params: { name: "add", arguments: { a: 1, b: 2 } } };
  if (surface === "stdio") {
    let id = 0;
    const ask = async (request: object) => {
      child.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", id: ++id, ...request })}\n`);
      return await lineWith(lines, `"id":${id}`);
    };
    const clientInfo = { name: "walk", version: "1" };
    await ask({
      method: "initialize",
      params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo },
    });
    child.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
    return async () => requireSum(await ask(toolCall));
  }
  const { url } = JSON.parse(await lineWith(lines, '"type":"ready"'));
  const token = readFileSync(join(directory, ".toolrack/token"), "utf8").trim();
  const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
  const post = async (path: string, body: unknown, more = {}) => {
    const request = { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify(body) };
    requireSum(await (await fetch(new URL(path, url), request)).text());
  };
  const version = "2026-07-28";
  const meta = {
    "io.modelcontextprotocol/protocolVersion": version,
    "io.modelcontextprotocol/clientInfo": { name: "walk", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const mcpHeaders = {
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": version,
    "mcp-method": "tools/call",
    "mcp-name": "add",
  };
  const mcpCall = { jsonrpc: "2.0", id: 1, ...toolCall, params: { ...toolCall.params, _meta: meta } };
  if (surface === "mcp") return () => post("/mcp", mcpCall, mcpHeaders);
  const name = surface === "sandbox" ? "sum" : "add";
  return () => post(`/api/tools/${name}/calls`, { arguments: { a: 1, b: 2 } });
}

/** The next line with this text in it. */
function lineWith(lines: Interface, text: string): Promise<string> {
  return new Promise((found) => {
    const read = (line: string) => {
      if (!line.includes(text)) return;
      lines.off("line", read);
      found(line);
    };
    lines.on("line", read);
  });
}

function requireSum(answer: string): void {
  if (!answer.includes("3") || /"error"|isError":true/.test(answer)) throw new Error(`No sum: ${answer}`);
}

interface RanFunction {
  readonly path: string;
  readonly name: string;
  readonly scriptId: string;
  readonly line: number;
  readonly column: number;
  readonly calls: number;
}

/** By file and place. */
type Functions = Map<string, RanFunction>;

interface Coverage {
  result: {
    scriptId: string;
    url: string;
    functions: { functionName: string; ranges: { startOffset: number; count: number }[] }[];
  }[];
}

/** What has run since this was asked last. */
async function functionsRun(debug: Debugger): Promise<Functions> {
  const { result } = await debug.send<Coverage>("Profiler.takePreciseCoverage");
  const ran: Functions = new Map();
  for (const { scriptId, url, functions } of result) {
    if (!ours.some((prefix) => url.startsWith(prefix))) continue;
    const path = url.slice(pathToFileURL(root).href.length + 1);
    // Node only blanks the types out, so every place in what runs is the place in the source.
    const text = readFileSync(join(root, path), "utf8");
    for (const { functionName, ranges } of functions) {
      const { startOffset = 0, count = 0 } = ranges[0] ?? {};
      // The first values of a class's fields are no function that somebody wrote: they belong to the constructor.
      if (count === 0 || functionName === "<instance_members_initializer>") continue;
      const before = text.slice(0, startOffset).split("\n");
      const place = { line: before.length, column: before.at(-1)?.length ?? 0 };
      ran.set(`${path}:${startOffset}`, { path, name: functionName, scriptId, ...place, calls: count });
    }
  }
  return ran;
}

function inBoth(one: Functions, other: Functions): Functions {
  return new Map([...one].filter(([key]) => other.has(key)));
}

function toRan(ran: Functions, order: readonly string[]): Ran {
  const place = new Map(order.map((key, index) => [key, index]));
  const placeOf = (key: string) => place.get(key) ?? order.length;
  const inOrder = [...ran].sort(([one], [other]) => placeOf(one) - placeOf(other));
  const files = Map.groupBy(inOrder, ([, { path }]) => path);
  return {
    files: [...files].map(([path, functions]) => ({
      path,
      functions: functions.map(([, { name, line, calls }]) => ({ name: name || "(anonymous)", line, calls })),
    })),
    functions: ran.size,
    calls: inOrder.reduce((sum, [, { calls }]) => sum + calls, 0),
  };
}

/** The debugger's protocol of a Node process. */
class Debugger {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (answer: { result?: unknown; error?: { message: string } }) => void>();
  #count = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      const answer = JSON.parse(String(data));
      this.#waiting.get(answer.id)?.(answer);
      this.#waiting.delete(answer.id);
    });
  }

  static async connect(address: string): Promise<Debugger> {
    const socket = new WebSocket(address);
    await new Promise((opened, failed) => {
      socket.addEventListener("open", opened);
      socket.addEventListener("error", failed);
    });
    return new Debugger(socket);
  }

  async send<Result = unknown>(method: string, params: object = {}): Promise<Result> {
    const id = ++this.#count;
    const answer = new Promise<{ result?: unknown; error?: { message: string } }>((resolve) => {
      this.#waiting.set(id, resolve);
    });
    this.#socket.send(JSON.stringify({ id, method, params }));
    const { result, error } = await answer;
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result as Result; // The protocol's own word for it.
  }

  /** The functions in the order in which a call first enters them: each has a breakpoint that notes it and goes on. */
  async orderOf(functions: Functions, call: () => Promise<void>): Promise<string[]> {
    await this.send("Debugger.enable");
    await this.send("Runtime.evaluate", { expression: "globalThis.walked = new Set()" });
    for (const [key, { scriptId, line, column }] of functions) {
      const start = { scriptId, lineNumber: line - 1, columnNumber: column };
      const { locations } = await this.send<{ locations: object[] }>("Debugger.getPossibleBreakpoints", {
        start,
        restrictToFunction: true,
      });
      const condition = `globalThis.walked.add(${JSON.stringify(key)}), false`;
      // A place may hold one breakpoint only; a function whose first place is taken by another comes last.
      await this.send("Debugger.setBreakpoint", { location: locations[0] ?? start, condition }).catch(
        () => {},
      );
    }
    await this.send("Runtime.evaluate", { expression: "globalThis.walked.clear()" });
    await call();
    await sleep(AFTER_ANSWER);
    const { result } = await this.send<{ result: { value: string[] } }>("Runtime.evaluate", {
      expression: "[...globalThis.walked]",
      returnByValue: true,
    });
    return result.value;
  }
}

function print(title: string, { files, functions, calls }: Ran): void {
  for (const { path, functions: walked } of files) {
    console.log(path);
    for (const { name, line, calls } of walked)
      console.log(`  ${name}:${line}${calls === 1 ? "" : ` × ${calls}`}`);
  }
  console.log(`${title}: ${files.length} files, ${functions} functions, ${calls} calls of them\n`);
}

if (import.meta.main) {
  const name = process.argv[2];
  if (name === "http" || name === "mcp" || name === "stdio" || name === "sandbox") {
    const { way, later } = await walk(name);
    print("Afterwards, for all calls of a moment together", later);
    print(`To the answer of ${name}`, way);
  } else {
    console.error("Usage: npm run walk -- http|mcp|stdio|sandbox");
    process.exitCode = 2;
  }
}
