import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { setTimeout as delay, setImmediate as nextTurn } from "node:timers/promises";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { ProcessGroup } from "../../../internal-tools/system/support/process-group.ts";
import { isRecord } from "../../../json/is-record.ts";
import { headOfLongMessage } from "../../../text/head-of-long-message.ts";
import { LineSplitter } from "../../../text/line-splitter.ts";
import { LONGEST_MESSAGE } from "../protocol/bounded-fetch.ts";
import { descendantsOf, findFamilies, isRunning, type KnownProcess } from "./descendants.ts";
import { findMarked, MARK, nextMark } from "./mark.ts";
import { Outbox } from "./outbox.ts";
import type { RecentLines } from "./recent-lines.ts";
import { startError } from "./start-error.ts";
import { unwatchGroup, watchGroup } from "./watchdog.ts";

export interface ProcessSpec {
  /** The key of the server, for messages. */
  readonly server: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** How a server's process ended. */
export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** How long a server may take to end by itself once its input has ended. */
const FAREWELL = 1_000;
/** What JSON-RPC calls an internal error. */
const TOO_LARGE = -32_603;
/** How long the last words of a process that has ended are waited for. */
const LAST_WORDS = 100;
/** How long after one of its pipes a process may end itself; then that is what is said of it. */
const LAST_MOMENT = 250;

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
  /** The era is probed on the very process, and not on a second one, when a transport has these two. */
  readonly stderr = null;
  /** Lines on standard output that were no message. */
  noise = 0;
  ended: ProcessEnd | undefined;
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
    // Who closed it believes that nothing is left of it.
    if (this.#closing !== undefined) return Promise.reject(this.#gone());
    const { command, args, env, cwd } = this.#spec;
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
        reject(startError(error, this.#spec));
        this.#closed();
      });
      child.once("spawn", resolve);
      child.once("exit", (code, signal) => {
        this.ended = { code, signal };
        // Its last words may still be in the pipe, which a descendant may hold open for ever.
        void Promise.race([new Promise((done) => child.once("close", done)), delay(LAST_WORDS)]).then(() =>
          this.#closed(),
        );
      });
      // Node makes a socket of each pipe, which the types do not say.
      this.#outbox = new Outbox(child.stdin as Socket, this.#spec.server);
      child.stdin.on("error", (error) => {
        this.onerror?.(error);
        void this.#lose(NO_INPUT);
      });
      child.stdout.on("data", (piece: Buffer) => this.#reader.push(piece));
      child.stdout.once("end", () => void this.#lose(NO_OUTPUT));
      child.stdout.on("error", (error) => {
        this.onerror?.(error);
        void this.#lose(NO_OUTPUT);
      });
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
    const isThere = child?.pid !== undefined && this.ended === undefined;
    // Whose child a process was is forgotten with its parent.
    const family = isThere ? descendantsOf([child.pid], findFamilies()) : [];
    const exited = isThere ? new Promise((done) => child.once("exit", done)) : Promise.resolve();
    if (isThere) {
      this.isHungUp = true;
      this.#outbox?.flush();
      child.stdin.end();
      await Promise.race([exited, delay(FAREWELL)]);
    }
    if (group !== undefined) {
      await group.end();
      await endAll(() => leftOf(family, this.#mark));
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
    if (this.#closing === undefined) void this.close();
  }

  /** One that neither hears nor says anything any more is as good as ended, although its process may live on. */
  async #lose(reason: string): Promise<void> {
    await delay(LAST_MOMENT);
    // After a turn that took long, timers come before the news that the process has ended.
    await nextTurn();
    if (this.ended !== undefined || this.#closing !== undefined || this.#isClosed) return;
    this.problem = reason;
    this.#lines.add("rack", reason);
    this.#closed();
  }

  #gone(): Error {
    if (this.ended !== undefined) return new Error("The server's process has ended.");
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
      this.#skip(message);
      return;
    }
    if (message.method === undefined) this.#outbox?.answered();
    try {
      // Nothing more is known yet of what a server sends; those who take it look.
      this.onmessage?.(message as unknown as JSONRPCMessage);
    } catch (error) {
      this.onerror?.(error as Error);
    }
  }

  /** Fails the one request that the line answers; the server and all other requests go on. */
  #leaveOut(start: string, end: string): void {
    const reason = `The server's answer is larger than ${LONGEST_MESSAGE / 1024 / 1024} MB and was not read. Ask for less at one time.`;
    this.noise++;
    this.#lines.add("rack", reason);
    const { id, method } = headOfLongMessage(start, end);
    if (id === undefined || method !== undefined) return;
    this.#hand({ jsonrpc: "2.0", id, error: { code: TOO_LARGE, message: reason } });
  }

  #skip(said: unknown): void {
    this.noise++;
    if (this.noise <= 5) this.#lines.add("stderr", typeof said === "string" ? said : JSON.stringify(said));
  }
}

/** What has left the group: daemons, and whatever started a session of its own. */
function leftOf(family: readonly KnownProcess[], mark: string): number[] {
  return [...new Set([...findMarked(mark), ...family.filter(isRunning).map(({ id }) => id)])];
}

async function endAll(find: () => readonly number[]): Promise<void> {
  // A process that is asked may not listen; one that is killed is only late where it waits for a device.
  for (const [signal, patience] of [
    ["SIGTERM", 500],
    ["SIGKILL", 2_000],
  ] as const) {
    const left = find();
    if (left.length === 0) return;
    for (const id of left) {
      try {
        process.kill(id, signal);
      } catch {
        // It has ended in between.
      }
    }
    const deadline = Date.now() + patience;
    while (find().length > 0 && Date.now() < deadline) await delay(25);
  }
}
