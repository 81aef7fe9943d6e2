import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { setImmediate, setTimeout as wait } from "node:timers/promises";
import { ProcessGroup } from "../helpers/index.ts";

/** A command that writes more than this many bytes is ended. */
export const FLOOD_LIMIT = 100 * 1024 * 1024;

/**
 * Milliseconds to wait until the output of an ended command closes. Its own output is in the pipe by then; a pipe that
 * stays open longer is held by a background process.
 */
const DRAIN_MS = 300;

interface CommandOptions {
  readonly command: string;
  /** When given, the command is started directly with these arguments; otherwise the shell runs it. */
  readonly args?: readonly string[] | undefined;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin?: string | undefined;
  readonly timeout: number;
  /** Bytes kept of each stream. */
  readonly maxOutput: number;
  readonly signal: AbortSignal;
}

export interface CommandOutcome {
  readonly stdout: CappedOutput;
  readonly stderr: CappedOutput;
  readonly exitCode: number | null;
  readonly exitSignal: NodeJS.Signals | null;
  /** Why the command was ended from outside, if it was. */
  readonly ended: "timeout" | "cancel" | "flood" | undefined;
  /** The process group, when something in it is still running. */
  readonly background: number | undefined;
}

/**
 * Runs a command in its own process group. Resolves for any exit code; rejects only when it cannot be started. Never
 * waits for background processes that keep the output open.
 */
export async function runCommand(options: CommandOptions): Promise<CommandOutcome> {
  options.signal.throwIfAborted();
  const stdout = new CappedOutput(options.maxOutput);
  const stderr = new CappedOutput(options.maxOutput);
  const child = spawn(options.command, options.args ?? [], {
    cwd: options.cwd,
    env: { ...options.env },
    shell: options.args === undefined,
    detached: true,
    stdio: [options.stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    windowsHide: true,
  });
  const exited = new Promise((exit) => child.once("exit", exit));
  await once(child, "spawn");
  child.on("error", () => {});

  const group = new ProcessGroup(child);
  let ended: CommandOutcome["ended"];
  let ending: Promise<void> | undefined;
  const end = (reason: NonNullable<CommandOutcome["ended"]>) => {
    ended ??= reason;
    ending ??= group.end();
  };
  const streams = [child.stdout!, child.stderr!];
  const keep = (output: CappedOutput) => (chunk: Buffer) => {
    output.write(chunk);
    if (stdout.size + stderr.size > FLOOD_LIMIT) end("flood");
  };
  child.stdout!.on("data", keep(stdout));
  child.stderr!.on("data", keep(stderr));
  if (options.stdin !== undefined) {
    // A command may end without reading its input, which closes the pipe.
    child.stdin!.on("error", () => {});
    child.stdin!.end(options.stdin);
  }

  const timer = setTimeout(end, options.timeout, "timeout");
  const cancel = () => end("cancel");
  options.signal.addEventListener("abort", cancel, { once: true });
  if (options.signal.aborted) cancel();
  try {
    await exited;
  } finally {
    clearTimeout(timer);
    options.signal.removeEventListener("abort", cancel);
    await ending;
    await closed(streams);
    child.stdin?.destroy();
    for (const stream of streams) stream.destroy();
    group.release();
  }
  const background = group.isAlive ? group.id : undefined;
  return { stdout, stderr, exitCode: child.exitCode, exitSignal: child.signalCode, ended, background };
}

/** Resolves when the streams have closed, or after `DRAIN_MS`. */
async function closed(streams: readonly Readable[]): Promise<void> {
  const open = streams.filter((stream) => !stream.closed);
  const timer = new AbortController();
  // Timers run before input is read, so a late timer alone could drop output that is already there.
  const drained = wait(DRAIN_MS, undefined, timer).then(() => setImmediate());
  await Promise.race([drained, Promise.all(open.map((stream) => once(stream, "close")))]).catch(() => {});
  timer.abort();
  drained.catch(() => {});
}

/** Keeps the beginning and the end of a stream, and counts what is dropped between them. */
export class CappedOutput {
  size = 0;
  readonly #headLimit: number;
  readonly #tailLimit: number;
  readonly #head: Buffer[] = [];
  #tail: Buffer[] = [];
  #tailSize = 0;

  constructor(limit: number) {
    this.#headLimit = Math.ceil(limit / 2);
    this.#tailLimit = limit - this.#headLimit;
  }

  write(chunk: Buffer): void {
    const forHead = chunk.subarray(0, Math.max(0, this.#headLimit - this.size));
    this.size += chunk.length;
    if (forHead.length > 0) this.#head.push(Buffer.from(forHead));
    const rest = chunk.subarray(forHead.length);
    if (rest.length === 0) return;
    this.#tail.push(rest);
    this.#tailSize += rest.length;
    if (this.#tailSize <= this.#tailLimit * 2) return;
    // Copies the end, so that the chunks can be garbage-collected.
    this.#tail = [Buffer.from(this.#end())];
    this.#tailSize = this.#tailLimit;
  }

  /** The text, with a line in the middle that says how much was left out. */
  toString(): string {
    const head = Buffer.concat(this.#head);
    const tail = this.#end();
    const omitted = this.size - head.length - tail.length;
    if (omitted === 0) return Buffer.concat([head, tail]).toString("utf8");
    const note = `[… ${omitted.toLocaleString("en-US")} of ${this.size.toLocaleString("en-US")} bytes left out …]`;
    // With `stream`, the decoder drops an incomplete character at the cut.
    const begun = new TextDecoder("utf-8", { ignoreBOM: true }).decode(head, { stream: true });
    // Bytes that continue a character from before the cut begin with the bits 10.
    const first = tail.findIndex((byte, index) => index === 3 || byte >> 6 !== 0b10);
    return `${begun}\n${note}\n${tail.subarray(Math.max(0, first)).toString("utf8")}`;
  }

  #end(): Buffer {
    const whole = Buffer.concat(this.#tail);
    return whole.subarray(Math.max(0, whole.length - this.#tailLimit));
  }
}

/** Variables that describe the machine and never hold a secret. `LC_*` counts as well. */
const safeNames = new Set(["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL", "TERM"]);

/** Whether the value of this variable may be shown, or passed to a child process. */
export function isSafeVariable(name: string): boolean {
  return safeNames.has(name) || /^LC_[A-Z]+$/.test(name);
}

/** The safe variables and the additions: the rest of the server's environment may hold secrets. */
export function childEnvironment(additions: Readonly<Record<string, string>> = {}): Record<string, string> {
  const safe = Object.entries(process.env).filter(([name]) => isSafeVariable(name));
  return { ...Object.fromEntries(safe), TERM: "dumb", ...additions };
}
