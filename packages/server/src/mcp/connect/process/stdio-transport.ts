import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Socket } from "node:net";
import { resolve } from "node:path";
import { setTimeout as delay, setImmediate as nextTurn } from "node:timers/promises";
import { headOfLongMessage, isRecord, LineSplitter, ProcessGroup } from "../../../helpers/index.ts";
import { rpcCodes } from "../../wire/index.ts";
import { type ProcessEnd, UpstreamError } from "../failures.ts";
import { LONGEST_MESSAGE } from "../protocol/http-client.ts";
import type { Message, Transport } from "../protocol/messages.ts";
import {
  descendantsOf,
  findOwnSoon,
  isRunning,
  MARK,
  nextMark,
  signalProcess,
  unwatchGroup,
  watchGroup,
} from "./processes.ts";
import type { RecentLines } from "./recent-lines.ts";
import { StdinWriter } from "./stdin-writer.ts";

interface ProcessSpec {
  /** The key of the server, for error messages. */
  readonly server: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** How long a server may take to end after its input has ended. Then it is told by a signal, and has two seconds more. */
const END_TIMEOUT = 500;
/** How long to wait for the last output of a process that has ended. */
const LAST_OUTPUT_TIMEOUT = 100;
/**
 * How long to wait for the process to end after one of its pipes has closed. If the process ends in this time,
 * its exit code is given as the reason.
 */
const EXIT_TIMEOUT = 250;
/** How many lines of standard output that are no messages go into the log. */
const MOST_NOISE = 5;

const NO_OUTPUT = "It closed its standard output, so that it can answer nothing any more.";
const NO_INPUT = "It no longer reads its standard input, so that it can be sent nothing any more.";

/**
 * Runs a server as a process, with one message per line of standard input and output. Lines that are no JSON
 * objects are counted and skipped, because servers print all kinds of things. The process leads its own process
 * group. `close` ends that group and every process that has left it.
 */
export class StdioTransport implements Transport {
  onclose?: Transport["onclose"];
  onmessage?: Transport["onmessage"];
  /** How many lines on standard output were no messages. */
  noise = 0;
  ending: ProcessEnd | undefined;
  /** Why the server cannot be used although its process has not ended. */
  problem: string | undefined;

  readonly #spec: ProcessSpec;
  readonly #lines: RecentLines;
  readonly #mark = nextMark();
  #child: ChildProcessWithoutNullStreams | undefined;
  #group: ProcessGroup | undefined;
  readonly #reader = new LineSplitter(LONGEST_MESSAGE, {
    onLine: (line) => this.#readLine(line),
    onTooLong: (start, end) => this.#refuseLong(start, end),
  });
  #input: StdinWriter | undefined;
  #closing: Promise<void> | undefined;
  #isClosed = false;

  constructor(spec: ProcessSpec, lines: RecentLines) {
    this.#spec = spec;
    this.#lines = lines;
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  start(): Promise<void> {
    // After `close` nothing may be started any more.
    if (this.#closing !== undefined) return Promise.reject(this.#gone());
    const { command, args, env, cwd, server } = this.#spec;
    return new Promise((resolve, reject) => {
      const child = spawn(command, [...args], {
        cwd,
        env: { ...env, [MARK]: this.#mark },
        stdio: ["pipe", "pipe", "pipe"],
        detached: process.platform !== "win32",
        // On Windows, npx and similar programs are scripts that only the shell can start.
        shell: process.platform === "win32",
        windowsHide: true,
      });
      this.#child = child;
      // Set before the "spawn" event, so that an early `close` finds the group to end.
      if (child.pid !== undefined) {
        this.#group = new ProcessGroup(child);
        watchGroup(this.#group.id);
      }
      child.once("error", (error: NodeJS.ErrnoException) => {
        const problem = startProblem(error, command, cwd);
        const why =
          problem === NO_PROGRAM ? ({ code: "program_missing", details: { command } } as const) : undefined;
        const text = `"${command}" cannot be started: ${problem}`;
        reject(new UpstreamError("unavailable", text, { why, cause: error }));
        this.#closed();
      });
      child.once("spawn", resolve);
      child.once("exit", (code, signal) => {
        this.ending = signal === null ? { exitCode: code ?? 0 } : { signal };
        // The last output of the process may still be in the pipe. A descendant may hold the pipe open for
        // ever, so the wait is limited.
        const closed = new Promise((done) => child.once("close", done));
        void Promise.race([closed, delay(LAST_OUTPUT_TIMEOUT)]).then(() => this.#closed());
      });
      const lose = (reason: string) => () => void this.#lose(reason);
      // Each pipe is a socket, although the types do not say so.
      this.#input = new StdinWriter(child.stdin as Socket, server);
      child.stdin.on("error", lose(NO_INPUT));
      child.stdout.on("data", (piece: Buffer) => this.#reader.push(piece));
      child.stdout.once("end", lose(NO_OUTPUT));
      child.stdout.on("error", lose(NO_OUTPUT));
      child.stderr.setEncoding("utf8");
      child.stderr.on("data", (piece: string) => this.#lines.addPiece(piece));
      child.stderr.on("error", () => {});
    });
  }

  send(message: Message): Promise<void> {
    return this.#input?.isOpen === true ? this.#input.send(message) : Promise.reject(this.#gone());
  }

  /**
   * Closes the server's input, waits a moment, then ends the process and everything that it started. Resolves
   * when all of these processes have ended.
   */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    const child = this.#child;
    const group = this.#group;
    const isAlive = child?.pid !== undefined && this.ending === undefined;
    // The descendants are read now, because a process can no longer be found as a descendant after its parent
    // has ended.
    const family = isAlive ? descendantsOf([child.pid]) : [];
    const exited = isAlive ? new Promise((done) => child.once("exit", done)) : Promise.resolve();
    if (isAlive) {
      this.#input?.flush();
      child.stdin.end();
      await Promise.race([exited, delay(END_TIMEOUT)]);
    }
    if (group !== undefined) {
      await group.end();
      // Processes that have left the group: daemons, and those with a session of their own.
      await endAll(async () => {
        const own = [...(await findOwnSoon())].flatMap(([id, mark]) => (mark === this.#mark ? id : []));
        return new Set([...own, ...family.filter(isRunning).map(({ id }) => id)]);
      });
      unwatchGroup(group.id);
    }
    // Until "exit", the process is still there as a zombie.
    await Promise.race([exited, delay(LAST_OUTPUT_TIMEOUT)]);
    child?.stdout.destroy();
    child?.stderr.destroy();
    this.#closed();
  }

  #closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#lines.flush();
    this.onclose?.();
    this.#input?.close(this.#gone());
    // A server that ended by itself may have left children.
    void this.close();
  }

  /** A server without input or output counts as closed, although its process may still run. */
  async #lose(reason: string): Promise<void> {
    await delay(EXIT_TIMEOUT);
    // One more turn, because timers run before the "exit" event after a long turn of the event loop.
    await nextTurn();
    if (this.ending !== undefined || this.#closing !== undefined || this.#isClosed) return;
    this.problem = reason;
    this.#lines.add("rack", reason);
    this.#closed();
  }

  #gone(): Error {
    if (this.ending !== undefined) return new Error("The server's process has ended.");
    if (this.problem === undefined && this.#closing !== undefined)
      return new Error("The connection to the server was closed.");
    return new Error(this.problem ?? NO_INPUT);
  }

  #readLine(text: string): void {
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      if (text.trim() !== "") this.#skip(text);
      return;
    }
    // An older version of the protocol allows several messages in one line.
    if (Array.isArray(message)) for (const one of message) this.#deliver(one);
    else this.#deliver(message);
  }

  #deliver(message: unknown): void {
    if (!isRecord(message)) {
      this.#skip(JSON.stringify(message));
      return;
    }
    if (message.method === undefined) this.#input?.answered();
    this.onmessage?.(message);
  }

  /**
   * Handles a line that is too long, given its start and its end. Only the request that the line answers fails;
   * the server and all other requests go on.
   */
  #refuseLong(start: string, end: string): void {
    const reason = `The server's answer is larger than ${LONGEST_MESSAGE / 1024 / 1024} MB and was not read. Ask for less at one time.`;
    this.noise++;
    this.#lines.add("rack", reason);
    const { id, method } = headOfLongMessage(start, end);
    if (id === undefined || method !== undefined) return;
    this.#deliver({ jsonrpc: "2.0", id, error: { code: rpcCodes.internalError, message: reason } });
  }

  #skip(line: string): void {
    this.noise++;
    if (this.noise <= MOST_NOISE) this.#lines.add("stderr", line);
  }
}

async function endAll(find: () => Promise<ReadonlySet<number>>): Promise<void> {
  // A process may ignore SIGTERM. After SIGKILL it can only be delayed by a device that it waits for.
  for (const [signal, timeout] of [
    ["SIGTERM", 500],
    ["SIGKILL", 2_000],
  ] as const) {
    const left = await find();
    if (left.size === 0) return;
    for (const id of left) signalProcess(id, signal);
    const deadline = performance.now() + timeout;
    while (performance.now() < deadline && (await find()).size > 0);
  }
}

const NO_PROGRAM = "there is no such program. Install it, or give its whole path.";

/** Why a process could not be started. ENOENT may mean the program, its folder or its interpreter. */
function startProblem({ code, message }: NodeJS.ErrnoException, command: string, cwd: string): string {
  if (code !== "ENOENT") return message;
  if (!existsSync(cwd)) return `there is no folder ${cwd} to start it in. Make it, or change "cwd".`;
  if (/[\\/]/.test(command) && existsSync(resolve(cwd, command))) {
    return "the file is there, but not the program that its first line (#!) has it run by.";
  }
  if (/^~[\\/]/.test(command)) {
    return `there is no such program. Only a shell knows "~": write "\${userHome}${command.slice(1)}".`;
  }
  const [program = "", ...words] = command.trim().split(/\s+/);
  if (words.length > 0) {
    return `there is no such program. Are there arguments in "command"? Leave "${program}" there, and put what follows into "args", each word by itself.`;
  }
  return NO_PROGRAM;
}
