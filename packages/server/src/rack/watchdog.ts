import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { ToolRegistry } from "@toolrack/core";

export interface WatchdogOptions {
  readonly registry: ToolRegistry;
  /** Gets a line as well; whoever looks for the reason later looks there. */
  readonly logFile: string;
  /** Whether the process is of no use without the one that started it. */
  readonly endsWithParent: boolean;
}

/** What the thread is told of the process that it watches. */
export interface WatchdogData {
  /** Counted up with every beat of the event loop. */
  readonly beats: Int32Array<SharedArrayBuffer>;
  readonly beat: number;
  readonly logFile: string;
  /** Its process id, when the end of it is the end of this process. */
  readonly parent: number | undefined;
}

/** Under this name of `globalThis` the thread finds what follows, through the inspector, while this thread stands still. */
export const WATCHED = "toolrack.watchdog";

export interface Watched {
  /** What is under way, and where the code stands that keeps the event loop. */
  report(): { readonly calls: string[]; readonly stack: string };
  /** Lets everybody who waits for the end of the process do what is left to do, and leaves the signal to the system. */
  release(signal: string): void;
}

const BEAT = 500;
/** A thread costs some 10 MB, so there is none while nothing is called. Beats, a minute. */
const LONGEST_IDLE = 120;

/**
 * Watches that the event loop turns, from a thread. While it stands still no signal is heard, so a process whose tools
 * block it could only be killed hard, and nobody would know why. The thread hears the signals too: when the loop does not
 * turn for some seconds after one, it writes what was under way to standard error and the log, and ends the process.
 * It runs while calls are made, and keeps nothing alive. Returns a function that stops it.
 */
export function startWatchdog(options: WatchdogOptions): () => void {
  const { registry } = options;
  const parent = process.ppid;
  let thread: { stop(): void } | undefined;
  let isAwake = false;
  let idle = 0;
  const watched: Watched = {
    report: () => ({
      calls: registry.activeCalls().map(({ callId, toolName }) => `${toolName} (${callId})`),
      stack: stackHere(),
    }),
    release(signal) {
      process.emit("exit", 1);
      process.removeAllListeners(signal);
    },
  };
  Object.defineProperty(globalThis, Symbol.for(WATCHED), { value: watched, configurable: true });
  const unsubscribe = registry.subscribe(() => {
    isAwake = true;
    thread ??= startThread({ ...options, parent, onBeat });
  }, ["state"]);
  return () => {
    unsubscribe();
    thread?.stop();
  };

  function onBeat(): void {
    idle = isAwake ? 0 : idle + 1;
    isAwake = false;
    if (idle < LONGEST_IDLE || registry.activeCalls().length > 0) return;
    idle = 0;
    thread?.stop();
    thread = undefined;
  }
}

function startThread({
  logFile,
  endsWithParent,
  parent,
  onBeat,
}: WatchdogOptions & { readonly parent: number; readonly onBeat: () => void }): { stop(): void } {
  const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const workerData: WatchdogData = {
    beats,
    beat: BEAT,
    logFile,
    parent: endsWithParent ? parent : undefined,
  };
  const timer = setInterval(() => {
    Atomics.add(beats, 0, 1);
    onBeat();
  }, BEAT);
  timer.unref();
  const thread = new Worker(PROGRAM, {
    workerData,
    // Signals of a thread are none of the public interface. Where they cannot be had, the thread only tells of what it sees.
    execArgv: ["--expose-internals", "--no-warnings"],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  thread.unref();
  // A guard that fails must not be the cause of a failure.
  thread.on("error", () => {});
  return {
    stop() {
      clearInterval(timer);
      void thread.terminate();
    },
  };
}

/** What stands below is what was running when the inspector stepped in. */
function stackHere(): string {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 30;
  const { stack = "" } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  // The first lines are of this function, of the report and of the inspector.
  return stack.split("\n").slice(4).join("\n");
}

/** Beside this file, and of the same kind: TypeScript in the source tree, JavaScript when it is built. */
const PROGRAM = fileURLToPath(import.meta.url).replace(/(\.\w+)$/, "-thread$1");
