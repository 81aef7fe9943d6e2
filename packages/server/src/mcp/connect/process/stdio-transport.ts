import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Socket } from "node:net";
import { resolve } from "node:path";
import { setTimeout as delay, setImmediate as nextTurn } from "node:timers/promises";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { headOfLongMessage, isRecord, LineSplitter, ProcessGroup } from "../../../helpers/index.ts";
import { rpcCodes } from "../../wire/index.ts";
import { LONGEST_MESSAGE } from "../protocol/messages.ts";
import { Outbox } from "./outbox.ts";
import { descendantsOf, findMarked, isRunning, MARK, nextMark, signalProcess } from "./processes.ts";
import type { RecentLines } from "./recent-lines.ts";
import { unwatchGroup, watchGroup } from "./watchdog.ts";

interface ProcessSpec {
  /** The key of the server, for messages. */
  readonly server: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** How long a server may take to end by itself once its input has ended. */
const FAREWELL = 1_000;
/** How long the last words of a process that has ended are waited for. */
const LAST_WORDS = 100;
/** How long after one of its pipes a process may end itself; then that is what is said of it. */
const LAST_MOMENT = 250;
/** Lines that are no messages and are shown in the log. */
const MOST_NOISE = 5;

const NO_OUTPUT = "It closed its standard output, so that it can answer nothing any more.";
const NO_INPUT = "It no longer reads its standard input, so that it can be sent nothing any more.";

/**
 * A server as a process of its own, one message a line. Lines that are no JSON are counted and skipped: servers print
 * all kinds of things. The process leads its own group; `close` ends all of it, and what has left it.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport["onmessage"];
  /** The era is probed on the very process, and not on a second one, when a transport has this and `pid`. */
  readonly stderr = null;
  /** Lines on standard output that were no message. */
  noise = 0;
  /** How the process ended, such as `ended with exit code 1`. */
  ending: string | undefined;
  /** It ran when it was closed here, so that its end says nothing about it. */
  isHungUp = false;
  /** Why it is of no use any more although its process had not ended. */
  problem: string | undefined;

  readonly #spec: ProcessSpec;
  readonly #lines: RecentLines;
  readonly #mark = nextMark();
  #child: ChildProcessWithoutNullStreams | undefined;
  #group: ProcessGroup | undefined;
  readonly #reader = new LineSplitter(LONGEST_MESSAGE, {
    onLine: (line) => this.#take(line),
    onTooLong: (start, end) => this.#leaveOut(start, end),
  });
  #outbox: Outbox | undefined;
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
    // Whoever closed it believes that nothing is left of it.
    if (this.#closing !== undefined) return Promise.reject(this.#gone());
    const { command, args, env, cwd, server } = this.#spec;
    return new Promise((resolve, reject) => {
      const child = spawn(command, [...args], {
        cwd,
        env: { ...env, [MARK]: this.#mark },
        stdio: ["pipe", "pipe", "pipe"],
        detached: process.platform !== "win32",
        // There, npx and its like are scripts that only the shell can start.
        shell: process.platform === "win32",
        windowsHide: true,
      });
      this.#child = child;
      // At once, so that whoever closes it before it says that it runs finds what is to be ended.
      if (child.pid !== undefined) {
        this.#group = new ProcessGroup(child);
        watchGroup(this.#group.id);
      }
      child.once("error", (error: NodeJS.ErrnoException) => {
        const text = `"${command}" cannot be started: ${startProblem(error, command, cwd)}`;
        reject(new Error(text, { cause: error }));
        this.#closed();
      });
      child.once("spawn", resolve);
      child.once("exit", (code, signal) => {
        this.ending = signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`;
        // Its last words may still be in the pipe, which a descendant may hold open for ever.
        const closed = new Promise((done) => child.once("close", done));
        void Promise.race([closed, delay(LAST_WORDS)]).then(() => this.#closed());
      });
      const lose = (reason: string) => (error?: Error) => {
        if (error !== undefined) this.onerror?.(error);
        void this.#lose(reason);
      };
      // Node makes a socket of each pipe, which the types do not say.
      this.#outbox = new Outbox(child.stdin as Socket, server);
      child.stdin.on("error", lose(NO_INPUT));
      child.stdout.on("data", (piece: Buffer) => this.#reader.push(piece));
      child.stdout.once("end", lose(NO_OUTPUT));
      child.stdout.on("error", lose(NO_OUTPUT));
      child.stderr.setEncoding("utf8");
      child.stderr.on("data", (piece: string) => this.#lines.addPiece(piece));
      child.stderr.on("error", () => {});
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    return this.#outbox?.isOpen === true ? this.#outbox.send(message) : Promise.reject(this.#gone());
  }

  /** Closes its input, waits a moment, then ends it and everything that it started. Resolves when all is gone. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    const child = this.#child;
    const group = this.#group;
    const isThere = child?.pid !== undefined && this.ending === undefined;
    // Whose child a process was is forgotten with its parent.
    const family = isThere ? descendantsOf([child.pid]) : [];
    const exited = isThere ? new Promise((done) => child.once("exit", done)) : Promise.resolve();
    if (isThere) {
      this.isHungUp = true;
      this.#outbox?.flush();
      child.stdin.end();
      await Promise.race([exited, delay(FAREWELL)]);
    }
    if (group !== undefined) {
      await group.end();
      // What has left the group: daemons, and processes that started a session of their own.
      const left = () =>
        new Set([...findMarked(this.#mark), ...family.filter(isRunning).map(({ id }) => id)]);
      await endAll(left);
      unwatchGroup(group.id);
    }
    // Until then it is there as one that has ended and was not collected.
    await Promise.race([exited, delay(LAST_WORDS)]);
    child?.stdout.destroy();
    child?.stderr.destroy();
    this.#closed();
  }

  #closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#lines.flush();
    const { onclose } = this;
    delete this.onclose;
    onclose?.();
    this.#outbox?.close(this.#gone());
    // A server that ended by itself may have left children.
    void this.close();
  }

  /** One that neither hears nor says anything any more is as good as ended, although its process may live on. */
  async #lose(reason: string): Promise<void> {
    await delay(LAST_MOMENT);
    // After a turn that took long, timers come before the news that the process has ended.
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

  #take(text: string): void {
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      if (text.trim() !== "") this.#skip(text);
      return;
    }
    // Several messages in one line were allowed once.
    if (Array.isArray(message)) for (const one of message) this.#hand(one);
    else this.#hand(message);
  }

  #hand(message: unknown): void {
    if (!isRecord(message)) {
      this.#skip(JSON.stringify(message));
      return;
    }
    if (message.method === undefined) this.#outbox?.answered();
    try {
      // Nothing more is known yet of what a server sends; those who take it look.
      this.onmessage?.(message as unknown as JSONRPCMessage);
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Fails the one request that the line answers; the server and all other requests go on. */
  #leaveOut(start: string, end: string): void {
    const reason = `The server's answer is larger than ${LONGEST_MESSAGE / 1024 / 1024} MB and was not read. Ask for less at one time.`;
    this.noise++;
    this.#lines.add("rack", reason);
    const { id, method } = headOfLongMessage(start, end);
    if (id === undefined || method !== undefined) return;
    this.#hand({ jsonrpc: "2.0", id, error: { code: rpcCodes.internalError, message: reason } });
  }

  #skip(said: string): void {
    this.noise++;
    if (this.noise <= MOST_NOISE) this.#lines.add("stderr", said);
  }
}

async function endAll(find: () => ReadonlySet<number>): Promise<void> {
  // A process that is asked may not listen; one that is killed is only late where it waits for a device.
  for (const [signal, patience] of [
    ["SIGTERM", 500],
    ["SIGKILL", 2_000],
  ] as const) {
    const left = find();
    if (left.size === 0) return;
    for (const id of left) signalProcess(id, signal);
    const deadline = performance.now() + patience;
    while (find().size > 0 && performance.now() < deadline) await delay(25);
  }
}

/** Why a process could not be started. The system says the same of a program, of its folder and of what runs it. */
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
  return "there is no such program. Install it, or give its whole path.";
}
