import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { ToolRegistry } from "@toolrack/core";

export interface WatchdogOptions {
  readonly registry: ToolRegistry;
  /** The warning is also written to this log. */
  readonly logFile: string;
  /** Whether the process must end when its parent ends. */
  readonly endsWithParent: boolean;
}

export interface WatchdogData {
  /** Incremented with every beat of the event loop. */
  readonly beats: Int32Array<SharedArrayBuffer>;
  readonly beat: number;
  readonly logFile: string;
  /** The parent's process id, if this process must end with it. */
  readonly parent: number | undefined;
}

/**
 * The key in `globalThis` of the `Watched` object. The watchdog's thread calls its methods through the
 * inspector while the main thread is blocked.
 */
export const WATCHED = "toolrack.watchdog";

export interface Watched {
  /** The running calls, and the stack of the code that blocks the event loop. */
  report(): { readonly calls: string[]; readonly stack: string };
  /** Runs the exit listeners, and removes the signal's listeners so that the signal ends the process. */
  release(signal: string): void;
}

const BEAT = 500;
/** Beats without a call after which the thread ends, because it costs some 10 MB. They take half a minute. */
const LONGEST_IDLE = 60;
/** Beats after a call in which no other is looked for: listening to each would cost every call three events. */
const DEAF = 60;

/**
 * Watches the event loop from a thread. A blocked loop hears no signal, so the process could only be killed,
 * and nobody would know why. The thread hears signals too: when the loop stays blocked for some seconds after
 * one, the thread writes the running calls to standard error and the log, and ends the process. The thread
 * runs only while calls are made, and does not keep the process alive. Returns a function that stops it.
 */
export function startWatchdog({ registry, logFile, endsWithParent }: WatchdogOptions): () => void {
  const parent = endsWithParent ? process.ppid : undefined;
  let stop: (() => void) | undefined;
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
  let unsubscribe: (() => void) | undefined;
  listen();
  return () => {
    unsubscribe?.();
    stop?.();
  };

  function listen(): void {
    unsubscribe ??= registry.subscribe(() => {
      unsubscribe?.();
      unsubscribe = undefined;
      idle = -DEAF;
      stop ??= startThread({ beat: BEAT, logFile, parent }, onBeat);
    }, ["state"]);
  }

  function onBeat(): void {
    idle++;
    if (idle === 0) listen();
    if (idle < LONGEST_IDLE || registry.activeCalls().length > 0) return;
    idle = 0;
    stop?.();
    stop = undefined;
  }
}

/** Returns a function that ends the thread. */
function startThread(data: Omit<WatchdogData, "beats">, onBeat: () => void): () => void {
  const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const timer = setInterval(() => {
    Atomics.add(beats, 0, 1);
    onBeat();
  }, BEAT);
  timer.unref();
  const workerData: WatchdogData = { ...data, beats };
  const thread = new Worker(PROGRAM, {
    workerData,
    // A thread needs these options to hear signals. A thread that hears no signals only warns.
    execArgv: ["--expose-internals", "--no-warnings"],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  thread.unref();
  // A failing watchdog must not fail the process.
  thread.on("error", () => {});
  return () => {
    clearInterval(timer);
    void thread.terminate();
  };
}

/** The stack of the code that ran when the inspector interrupted it. */
function stackHere(): string {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 30;
  const { stack = "" } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  // The first lines are this function, the report and the inspector.
  return stack.split("\n").slice(4).join("\n");
}

/** The thread's program, which lies beside this file: TypeScript in the source tree, JavaScript when built. */
const PROGRAM = fileURLToPath(import.meta.url).replace(/(\.\w+)$/, "-thread$1");
