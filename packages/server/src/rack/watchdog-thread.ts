import { appendFileSync, mkdirSync, writeSync } from "node:fs";
import { Session } from "node:inspector";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { dirname } from "node:path";
import { workerData } from "node:worker_threads";
import { WATCHED, type WatchdogData, type Watched } from "./watchdog.ts";

/*
 * The thread of the watchdog. It counts its own beats in which the event loop of the process had none, rather than
 * time: a machine that slept, or a process that was stopped, wakes both.
 */

const { beats, beat, logFile, parent } = workerData as WatchdogData; // Written by `startThread`.

/** Beats that the loop may miss after a signal: three seconds. Whoever sends one usually waits for longer before it kills. */
const MOST_AFTER_SIGNAL = 6;
/** Beats after which a loop that nobody wants to end is worth a warning: ten seconds. */
const WORTH_TELLING = 20;
/** How long the main thread may take to answer. */
const ANSWER = 1_000;

const signals = listenForSignals(["SIGTERM", "SIGINT", "SIGHUP"]);
let last = -1;
let missed = 0;
let missedAfterSignal = 0;
let isEnding = false;

setInterval(() => {
  const now = Atomics.load(beats, 0);
  if (now !== last) {
    last = now;
    missed = 0;
    missedAfterSignal = 0;
    signals.heard = undefined; // The process heard it too.
    return;
  }
  if (isEnding) return;
  missed++;
  const signal = signals.heard ?? (hasLostParent() ? "SIGTERM" : undefined);
  if (signal !== undefined && ++missedAfterSignal >= MOST_AFTER_SIGNAL) {
    isEnding = true;
    void end(signal);
  } else if (missed === WORTH_TELLING) void tell("Nothing else is answered meanwhile.");
}, beat);

function hasLostParent(): boolean {
  return parent !== undefined && process.ppid !== parent;
}

async function end(signal: NodeJS.Signals): Promise<void> {
  const why = signals.heard === undefined ? "The process that started it is gone" : `It was sent ${signal}`;
  await tell(`${why}, so it is ended here.`);
  await ask<void>(`release(${JSON.stringify(signal)})`);
  signals.close();
  // Nobody listens for it any more, so the system ends the process as the signal says.
  process.kill(process.pid, signal);
  setTimeout(() => process.kill(process.pid, "SIGKILL"), ANSWER);
}

async function tell(consequence: string): Promise<void> {
  const report = await ask<ReturnType<Watched["report"]>>("report()");
  const seconds = Math.round((missed * beat) / 1000);
  const calls = report === undefined || report.calls.length === 0 ? "none" : report.calls.join(", ");
  const err = `The event loop has stood still for ${seconds} s. ${consequence} Calls under way: ${calls}.`;
  const stack = report?.stack ?? "    (the main thread does not say where it stands)";
  quietly(() => writeSync(2, `warning: ${err}\n${stack}\n`));
  const line = { ts: new Date().toISOString(), stat: "error", err, stack };
  quietly(() => {
    mkdirSync(dirname(logFile), { recursive: true });
    appendFileSync(logFile, `${JSON.stringify(line)}\n`);
  });
}

/** Runs an expression in the main thread, in the middle of whatever that does; undefined when it does not answer. */
function ask<Answer>(expression: string): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const session = new Session();
    const finish = (answer?: Answer) => {
      quietly(() => session.disconnect());
      resolve(answer);
    };
    setTimeout(finish, ANSWER);
    try {
      session.connectToMainThread();
      session.post(
        "Runtime.evaluate",
        { expression: `globalThis[Symbol.for("${WATCHED}")].${expression}`, returnByValue: true },
        // The expression is one of the two above, and gives what `Watched` says.
        (_, answer) => finish(answer?.result.value as Answer | undefined),
      );
    } catch {
      finish(); // This Node has no inspector.
    }
  });
}

interface Signals {
  heard: NodeJS.Signals | undefined;
  close(): void;
}

/**
 * Threads are not given signals, although libuv, below Node, tells every loop that asks. So they are asked for there: the
 * class is what `process.on("SIGTERM")` itself uses.
 */
function listenForSignals(names: readonly NodeJS.Signals[]): Signals {
  const signals: Signals = { heard: undefined, close() {} };
  try {
    const { internalBinding } = createRequire(import.meta.url)("internal/test/binding");
    const { Signal } = internalBinding("signal_wrap");
    const handles = names.map((name) => {
      const handle = new Signal();
      handle.onsignal = () => {
        signals.heard ??= name;
      };
      handle.start(constants.signals[name]);
      return handle;
    });
    signals.close = () => {
      for (const handle of handles) handle.close();
    };
  } catch {
    // A Node that hides them: the thread still tells of a loop that stands still.
  }
  return signals;
}

function quietly(act: () => void): void {
  try {
    act();
  } catch {
    // There is nobody left to tell.
  }
}
