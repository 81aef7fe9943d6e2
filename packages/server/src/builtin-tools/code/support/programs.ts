import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { delimiter, dirname } from "node:path";
import { createInterface } from "node:readline";

interface ProgramOptions {
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

/** One line of a search's answer. */
export interface RipgrepLine {
  /** As ripgrep wrote it, from the folder it ran in. */
  readonly path: string;
  readonly line: number;
  readonly text: string;
  /** Where the first match lies in `text`, in characters; absent for a line of context. */
  readonly match?: { readonly start: number; readonly end: number };
}

export interface RipgrepOutcome {
  /** The search went through everything. */
  readonly isComplete: boolean;
  /** What could not be searched, in ripgrep's words. */
  readonly complaints: string;
}

/**
 * Runs ripgrep and hands over its lines as they come. When `onLine` answers `false`, or the signal aborts, the
 * process is ended. Rejects with ripgrep's own reason when the search could not begin.
 */
export async function runRipgrep(
  args: readonly string[],
  folder: string,
  signal: AbortSignal,
  onLine: (line: RipgrepLine) => boolean,
): Promise<RipgrepOutcome> {
  signal.throwIfAborted();
  const child = spawn(await program(), ["--json", "--no-config", ...args], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const closed = once(child, "close");
  const stderr = collectMatches(child);
  const end = () => child.kill("SIGKILL");
  signal.addEventListener("abort", end, { once: true });
  try {
    const state = { isStopped: false, isFinished: false };
    for await (const text of createInterface({ input: child.stdout })) {
      const event = JSON.parse(text) as RipgrepEvent;
      if (event.type === "summary") state.isFinished = true;
      const line = toLine(event);
      if (line === undefined || onLine(line)) continue;
      state.isStopped = true;
      break;
    }
    if (state.isStopped) end();
    await closed;
    signal.throwIfAborted();
    if (!state.isStopped && !state.isFinished) throw new Error(stderr().trim().replace(/^rg: /, ""));
    return { isComplete: state.isFinished, complaints: stderr().trim() };
  } finally {
    signal.removeEventListener("abort", end);
    end();
    // Nobody waits for the end any more; it must not become an unhandled rejection.
    closed.catch(() => {});
  }
}

/** Loaded on first use: where the platform has no ripgrep, only this tool fails. */
async function program(): Promise<string> {
  const { rgPath } = await import("@vscode/ripgrep");
  return rgPath;
}

const MOST_COMPLAINTS = 4000;

function collectMatches(child: ChildProcess): () => string {
  let text = "";
  child.stderr?.setEncoding("utf8").on("data", (part: string) => {
    if (text.length < MOST_COMPLAINTS) text += part;
  });
  return () => text.slice(0, MOST_COMPLAINTS);
}

type Encoded = { readonly text: string } | { readonly bytes: string };

type RipgrepEvent =
  | { readonly type: "begin" | "end" | "summary" }
  | {
      readonly type: "match" | "context";
      readonly data: {
        readonly path: Encoded;
        readonly lines: Encoded;
        readonly line_number: number | null;
        readonly submatches: readonly { readonly start: number; readonly end: number }[];
      };
    };

function toLine(event: RipgrepEvent): RipgrepLine | undefined {
  if (event.type !== "match" && event.type !== "context") return undefined;
  const { path, lines, line_number, submatches } = event.data;
  const raw = decode(lines);
  const text = raw.replace(/\r?\n$/, "");
  const [first] = submatches;
  const line = { path: decode(path).replace(/^\.\//, ""), line: line_number ?? 0, text };
  if (event.type === "context" || first === undefined) return line;
  return { ...line, match: { start: charactersIn(raw, first.start), end: charactersIn(raw, first.end) } };
}

function decode(value: Encoded): string {
  return "text" in value ? value.text : Buffer.from(value.bytes, "base64").toString("utf8");
}

/** ripgrep counts bytes of UTF-8. */
function charactersIn(text: string, bytes: number): number {
  const isAscii = Buffer.byteLength(text) === text.length;
  return isAscii ? bytes : Buffer.from(text).subarray(0, bytes).toString("utf8").length;
}

const LONGEST = 400;
const LEAD = 100;

/** A long line cut to the part around its match. */
export function clipLine(text: string, match: { readonly start: number } | undefined): string {
  if (text.length <= LONGEST) return text;
  const start = Math.max(0, Math.min((match?.start ?? 0) - LEAD, text.length - LONGEST));
  const end = Math.min(text.length, start + LONGEST);
  return `${start > 0 ? "…" : ""}${text.slice(start, end)}${end < text.length ? "…" : ""}`;
}
