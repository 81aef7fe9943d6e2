import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { delimiter, dirname } from "node:path";

export interface ProgramOptions {
  readonly folder: string;
  readonly signal: AbortSignal;
  /** In milliseconds. */
  readonly timeout: number;
}

export interface ProgramResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const MOST_OUTPUT = 1024 * 1024;
const GRACE = 2000;

/**
 * Runs a program of the workspace to its end, without the server's own environment. A cancel and a timeout end
 * it with everything it started: asked first, so that no file is left half written, and forced after two seconds.
 */
export async function runProgram(
  program: string,
  args: readonly string[],
  { folder, signal, timeout }: ProgramOptions,
): Promise<ProgramResult> {
  signal.throwIfAborted();
  const limit = AbortSignal.timeout(timeout);
  const either = AbortSignal.any([signal, limit]);
  // Its own process group, because launchers of formatters start another process that does the work.
  const child = spawn(program, args, {
    cwd: folder,
    env: environment(),
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const end = () => endGroup(child);
  either.addEventListener("abort", end, { once: true });
  const stdout = collect(child.stdout);
  const stderr = collect(child.stderr);
  try {
    const [code] = await once(child, "close");
    signal.throwIfAborted();
    if (limit.aborted)
      throw new Error(`${program} did not end within ${timeout / 1000} seconds and was stopped.`);
    return { code, stdout: stdout(), stderr: stderr() };
  } finally {
    either.removeEventListener("abort", end);
  }
}

/** What a command-line program needs; nothing that the server knows. */
function environment(): Record<string, string> {
  const { PATH = "", HOME, TMPDIR, LANG } = process.env;
  return {
    PATH: [dirname(process.execPath), PATH].join(delimiter),
    NO_COLOR: "1",
    ...(HOME === undefined ? {} : { HOME }),
    ...(TMPDIR === undefined ? {} : { TMPDIR }),
    ...(LANG === undefined ? {} : { LANG }),
  };
}

function endGroup(child: ChildProcess): void {
  kill(child, "SIGTERM");
  const force = setTimeout(() => kill(child, "SIGKILL"), GRACE);
  child.once("close", () => clearTimeout(force));
}

function kill({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // It has ended by itself.
  }
}

function collect(stream: NodeJS.ReadableStream): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (part: string) => {
    if (text.length < MOST_OUTPUT) text += part;
  });
  return () => text;
}
