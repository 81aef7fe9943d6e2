import type { Readable } from "node:stream";
import { timerMs, withDefaultLimits } from "../config/index.ts";
import { defined } from "../helpers/index.ts";
import type { Confinement, Launched } from "./confinement/confinement.ts";
import { killTree, Usage, whenClosed } from "./confinement/processes.ts";
import { type EgressAddress, type EgressProxies, forwardEgress } from "./egress.ts";
import { type ProgramResult, type ProgramSpec, SandboxError } from "./spec.ts";

/** Milliseconds between two checks. Short, because a program can take the server's memory fast. */
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
  const limits = withDefaultLimits(program.limits);
  const hasNetwork = program.hosts.length > 0 && confinement.level === 3;
  const egressSocket = hasNetwork ? await proxies.socketFor(program.hosts) : undefined;
  const launched = confinement.startProgram({ program, limits, ...defined({ egressSocket }) });
  const { child } = launched;
  const kill = () => killTree(child.pid);
  const output = new CappedOutput(limits.outputBytes, kill);
  const stdout = output.collect(child.stdout);
  const stderr = output.collect(child.stderr);
  const report = collectReport(launched);
  child.stdin?.on("error", () => {});
  child.stdin?.end(input);

  let verdict: SandboxError | undefined;
  const exceed = (limit: string, what: string) => {
    const data = { limit, stderr: stderr().slice(-2_000) };
    verdict ??= new SandboxError("sandbox_limit", `${program.label} was ended: ${what}.`, data);
    kill();
  };
  const usage = new Usage(launched, exceed);
  const look = setInterval(() => usage.look(limits), checkMs);
  const timeoutMs = timerMs(program.limits?.timeoutMs ?? Number.POSITIVE_INFINITY);
  const timer = setTimeout(() => exceed("time", `it ran longer than ${timeoutMs} ms`), timeoutMs);
  signal.addEventListener("abort", kill, { once: true });
  try {
    const [exitCode, exitSignal] = await endOf(launched);
    signal.throwIfAborted();
    if (verdict !== undefined) throw verdict;
    const end = report() ?? { exitCode, signal: exitSignal };
    if (end.failure !== undefined)
      throw new SandboxError(
        "sandbox_start_failed",
        `${program.label} could not be started: ${end.failure}.`,
      );
    return {
      exitCode: end.exitCode,
      signal: end.signal,
      stdout: stdout(),
      stderr: stderr(),
      truncated: output.isFull,
    };
  } finally {
    clearTimeout(timer);
    clearInterval(look);
    signal.removeEventListener("abort", kill);
    launched.release();
  }
}

/** Both streams share one budget. When it is spent, the rest is dropped and the program is ended. */
class CappedOutput {
  isFull = false;
  #left: number;
  readonly #onFull: () => void;

  constructor(bytes: number, onFull: () => void) {
    this.#left = bytes;
    this.#onFull = onFull;
  }

  collect(stream: Readable | null): () => string {
    const chunks: Buffer[] = [];
    stream?.on("data", (chunk: Buffer) => {
      chunks.push(chunk.subarray(0, this.#left));
      this.#left -= Math.min(this.#left, chunk.length);
      if (this.#left > 0 || this.isFull) return;
      this.isFull = true;
      this.#onFull();
    });
    return () => Buffer.concat(chunks).toString("utf8");
  }
}

function endOf({ child }: Launched): Promise<[number | null, string | null]> {
  return new Promise((resolve, reject) => {
    child.on("error", (error) =>
      reject(new SandboxError("sandbox_start_failed", `The sandbox could not be started: ${error.message}.`)),
    );
    whenClosed(child, (exitCode, signal) => resolve([exitCode, signal]));
  });
}

/**
 * Collects how the program ended, from the starter process in the sandbox; bubblewrap does not report it. At level 2
 * the program is started directly, without a report.
 */
function collectReport({ child }: Launched): () => ProgramEnd | undefined {
  let text = "";
  // Stdio 3 is a pipe; Node's types know only the first three.
  const channel = child.stdio[3] as unknown as Readable;
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
    if (slots.running < atOnce) slots.running++;
    else await waitForTurn(slots.waiting, signal);
    return () => {
      const [next] = slots.waiting;
      // The next program in the queue takes over the place, so that no later one gets it first.
      if (next !== undefined) return next();
      slots.running--;
      if (slots.running === 0) this.#names.delete(name);
    };
  }
}

function waitForTurn(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = () => {
      leave();
      resolve();
    };
    const giveUp = () => {
      leave();
      reject(signal.reason);
    };
    const leave = () => {
      waiting.delete(go);
      signal.removeEventListener("abort", giveUp);
    };
    waiting.add(go);
    signal.addEventListener("abort", giveUp, { once: true });
  });
}

interface ProgramBootstrapOptions {
  /** The user to become, when the process starts as root inside its namespaces. */
  readonly uid?: number;
  readonly egress?: EgressAddress;
}

/** One JSON line on file descriptor 3. Not in argv, which every user can read: the environment may hold secrets. */
export interface ProgramOrder {
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]];
  readonly environment: Readonly<Record<string, string>>;
}

/** How the program ended, as JSON on file descriptor 3. */
interface ProgramEnd {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Why it could not be started. */
  readonly failure?: string;
}

/** The text for `node -e` that starts one program inside a sandbox. */
export function programBootstrap(options: ProgramBootstrapOptions): string {
  return `(${startProgram})(${JSON.stringify(options)}, ${forwardEgress})`;
}

/** Only the text of this function reaches the sandbox: it may use its arguments and Node, nothing else. */
function startProgram(options: ProgramBootstrapOptions, forward: typeof forwardEgress): void {
  const { spawn } = process.getBuiltinModule("node:child_process");
  const { Socket } = process.getBuiltinModule("node:net");
  if (options.uid !== undefined) {
    process.setgroups?.([options.uid]);
    process.setgid?.(options.uid);
    process.setuid?.(options.uid);
  }
  const channel = new Socket({ fd: 3, readable: true, writable: true });
  let received = "";
  channel.setEncoding("utf8");
  channel.on("error", () => process.exit(1));
  channel.on("data", (chunk) => {
    received += chunk;
    if (!received.endsWith("\n")) return;
    // The host wrote this line.
    const order = JSON.parse(received) as ProgramOrder;
    if (options.egress === undefined) run(order);
    else
      forward(
        options.egress,
        () => {},
        () => run(order),
      );
  });

  function run({ command: [file, ...args], environment }: ProgramOrder): void {
    const child = spawn(file, args, { env: environment, stdio: "inherit" });
    child.on("error", (error) => report({ exitCode: null, signal: null, failure: error.message }));
    child.on("exit", (exitCode, signal) => report({ exitCode, signal }));
  }

  function report(end: ProgramEnd): void {
    channel.end(JSON.stringify(end), () => process.exit(0));
  }
}
