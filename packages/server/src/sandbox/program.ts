import type { Readable } from "node:stream";
import { timerMs, withDefaultLimits } from "../config/index.ts";
import { defined, unlessAborted } from "../helpers/index.ts";
import type { Confinement } from "./confinement/confinement.ts";
import { killTree, Usage, whenClosed } from "./confinement/process-tree.ts";
import { type EgressProxies, type EnterOptions, enterSandbox } from "./egress.ts";
import { type ProgramResult, type ProgramSpec, SandboxError } from "./sandbox-types.ts";

/** Milliseconds between two checks of a program's limits: short, as a program can fill the memory fast. */
const checkMs = 100;

/** Runs one program to its end. Rejects with the signal's reason, or with a `SandboxError`. */
export async function runProgram(
  confinement: Confinement,
  proxies: EgressProxies,
  program: ProgramSpec,
  input: string,
  signal: AbortSignal,
): Promise<ProgramResult> {
  signal.throwIfAborted();
  const { label } = program;
  const limits = withDefaultLimits(program.limits);
  const egressSocket = confinement.level === 3 ? await proxies.socketFor(program.hosts) : undefined;
  signal.throwIfAborted(); // The caller may have given up while the socket was made.
  const launched = confinement.startProgram({ program, limits, ...defined({ egressSocket }) });
  const { child } = launched;
  const kill = () => killTree(child.pid);
  // Stdout and stderr share one budget of bytes. When it is spent, the rest is dropped and the program is
  // ended.
  let left = limits.outputBytes;
  const collect = (stream: Readable | null): (() => string) => {
    const chunks: Buffer[] = [];
    stream?.on("data", (chunk: Buffer) => {
      if (left === 0) return;
      chunks.push(chunk.subarray(0, left));
      left -= Math.min(left, chunk.length);
      if (left === 0) kill();
    });
    return () => Buffer.concat(chunks).toString("utf8");
  };
  const stdout = collect(child.stdout);
  const stderr = collect(child.stderr);
  // Stdio 3 is a pipe; Node's types know only stdin, stdout and stderr.
  const report = collectReport(child.stdio[3] as unknown as Readable);
  child.stdin?.on("error", () => {});
  child.stdin?.end(input);

  let verdict: SandboxError | undefined;
  const exceed = (limit: string, what: string) => {
    const data = { limit, stderr: stderr().slice(-2_000) };
    verdict ??= new SandboxError("sandbox_limit", `${label} was ended: ${what}.`, data);
    kill();
  };
  const usage = new Usage(launched, exceed);
  const look = setInterval(() => usage.look(limits), checkMs);
  const timeoutMs = timerMs(program.limits?.timeoutMs ?? Number.POSITIVE_INFINITY);
  const timer = setTimeout(() => exceed("time", `it ran longer than ${timeoutMs} ms`), timeoutMs);
  signal.addEventListener("abort", kill, { once: true });
  try {
    const ended = await new Promise<ProgramEnd>((resolve, reject) => {
      child.on("error", ({ message }) =>
        reject(new SandboxError("sandbox_start_failed", `The sandbox could not be started: ${message}.`)),
      );
      whenClosed(child, (exitCode, signal) => resolve({ exitCode, signal }));
    });
    signal.throwIfAborted();
    if (verdict !== undefined) throw verdict;
    const { exitCode, signal: exitSignal, failure, refusedHosts = [], isCutOff = false } = report() ?? ended;
    if (failure !== undefined)
      throw new SandboxError("sandbox_start_failed", `${label} could not be started: ${failure}.`);
    const printed = { stdout: stdout(), stderr: stderr(), truncated: left === 0 };
    return { exitCode, signal: exitSignal, ...printed, refusedHosts, isCutOff };
  } finally {
    clearTimeout(timer);
    clearInterval(look);
    signal.removeEventListener("abort", kill);
    launched.release();
  }
}

/**
 * Returns a function that gives the report of the starter process in the sandbox: how the program ended,
 * which bubblewrap does not tell. Undefined at level 2, where the host starts the program directly, without a
 * starter process.
 */
function collectReport(channel: Readable): () => ProgramEnd | undefined {
  let text = "";
  channel.on("data", (chunk: Buffer) => {
    if (text.length < 10_000) text += chunk;
  });
  channel.on("error", () => {});
  return () => {
    try {
      // The program has no access to this descriptor: only the starter process writes to it.
      return JSON.parse(text) as ProgramEnd;
    } catch {
      return undefined;
    }
  };
}

/** Limits how many programs of one name run at once. The others wait in the order in which they came. */
export class ProgramSlots {
  readonly #names = new Map<string, { running: number; readonly waiting: Set<() => void> }>();

  /** Resolves to a function that must be called when the program has ended. Rejects with the signal's reason. */
  async take(name: string, atOnce: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const slots = this.#names.get(name) ?? { running: 0, waiting: new Set<() => void>() };
    this.#names.set(name, slots);
    const leave = () => {
      const [next] = slots.waiting;
      if (next === undefined) {
        if (--slots.running === 0) this.#names.delete(name);
        return;
      }
      // The next program in the queue takes over the place, so that no later one gets it first.
      slots.waiting.delete(next);
      next();
    };
    if (slots.running < atOnce) {
      slots.running++;
      return leave;
    }
    const turn = Promise.withResolvers<void>();
    slots.waiting.add(turn.resolve);
    try {
      await unlessAborted(turn.promise, signal);
    } catch (error) {
      // A program that no longer waits was given the place at the moment when it gave up, and passes the
      // place on.
      if (!slots.waiting.delete(turn.resolve)) leave();
      throw error;
    }
    return leave;
  }
}

/**
 * The host sends this to the starter process in the sandbox, as one JSON line over file descriptor 3. Not as
 * command line arguments: every user of the machine can read those, and the environment may hold secrets.
 */
export interface ProgramOrder {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** How the program ended. The starter process sends this to the host as JSON over file descriptor 3. */
interface ProgramEnd {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Why the program could not be started. */
  readonly failure?: string;
  readonly refusedHosts?: readonly string[];
  readonly isCutOff?: boolean;
}

/** The text for `node -e` that starts one program inside a sandbox. */
export function programBootstrap(options: EnterOptions): string {
  return `(${startProgram})(${JSON.stringify(options)}, ${enterSandbox})`;
}

/**
 * The starter process: receives a `ProgramOrder`, runs the program, and reports how it ended. Only the text
 * of this function is sent into the sandbox: it may use its arguments and Node, and nothing else.
 */
function startProgram(options: EnterOptions, enter: typeof enterSandbox): void {
  const { spawn } = process.getBuiltinModule("node:child_process");
  const { readFileSync } = process.getBuiltinModule("node:fs");
  const { Socket } = process.getBuiltinModule("node:net");
  const channel = new Socket({ fd: 3, readable: true, writable: true });
  let received = "";
  const refusedHosts = new Set<string>();
  channel.setEncoding("utf8");
  channel.on("error", () => process.exit(1));
  channel.on("data", (chunk) => {
    received += chunk;
    if (!received.endsWith("\n")) return;
    const order = JSON.parse(received) as ProgramOrder; // The host wrote this line.
    enter(
      options,
      () => run(order),
      (text) => {
        const [, host] = /Refused: (\S+) is not granted/.exec(text) ?? [];
        if (host !== undefined && refusedHosts.size < 20) refusedHosts.add(host);
      },
    );
  });

  function run({ command: [file = "", ...args], environment }: ProgramOrder): void {
    const child = spawn(file, args, { env: environment, stdio: "inherit" });
    child.on("error", (error) => report({ exitCode: null, signal: null, failure: error.message }));
    child.on("exit", (exitCode, signal) => report({ exitCode, signal }));
  }

  function report(end: ProgramEnd): void {
    const network = { refusedHosts: [...refusedHosts], isCutOff: isCutOff() };
    channel.end(JSON.stringify({ ...end, ...network }), () => process.exit(0));
  }

  /**
   * The kernel counts, for the network of this sandbox alone, what was sent to addresses that nothing leads to, and to
   * the port of a name server, which is not there.
   */
  function isCutOff(): boolean {
    try {
      const lines = readFileSync("/proc/net/snmp", "utf8").split("\n");
      const count = (group: string, name: string): number => {
        const rows = lines.filter((line) => line.startsWith(`${group}: `)).map((line) => line.split(" "));
        return Number(rows[1]?.[rows[0]?.indexOf(name) ?? -1] ?? 0);
      };
      if (count("Ip", "OutNoRoutes") + count("Udp", "NoPorts") > 0) return true;
      return /^(?:Ip6OutNoRoutes|Udp6NoPorts)\s+[1-9]/m.test(readFileSync("/proc/net/snmp6", "utf8"));
    } catch {
      return false;
    }
  }
}
