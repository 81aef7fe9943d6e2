import { spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { CappedOutput } from "./capped-output.ts";
import { ProcessGroup } from "./process-group.ts";

/** More output than this is a runaway, not a result. */
export const FLOOD_LIMIT = 100 * 1024 * 1024;

/**
 * How long to wait for the output of an ended command to close. What the command itself wrote is in the pipe by
 * then; a pipe that stays open longer is held by a background process.
 */
const DRAIN = 300;

export interface CommandOptions {
  readonly command: string;
  /** Present: run the command itself with these. Absent: let the shell run it. */
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
 * Runs a command in a process group of its own. Resolves whatever its exit code is; rejects only when it cannot be
 * started. Never waits for background processes that keep the output open.
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
  const { promise: spawned, resolve: started, reject: failed } = Promise.withResolvers<void>();
  const { promise: exited, resolve: exit } = Promise.withResolvers<void>();
  child.once("spawn", started).once("error", failed);
  child.once("exit", () => exit());
  await spawned;

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
    // A command that ends without reading its input closes the pipe; that is its own affair.
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

/** Resolves when the streams have closed, or when they have had time enough. */
function closed(streams: readonly Readable[]): Promise<void> {
  const open = streams.filter((stream) => !stream.closed);
  return new Promise((resolve) => {
    // Timers run before input is read, so a late timer alone could give up on output that is already there.
    const timer = setTimeout(() => setImmediate(resolve), DRAIN);
    const whenClosed = open.map((stream) => new Promise((close) => stream.once("close", close)));
    void Promise.all(whenClosed).then(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
