import { appendFileSync, mkdirSync, writeSync } from "node:fs";
import { Session } from "node:inspector";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { dirname } from "node:path";
import { workerData } from "node:worker_threads";
import { WATCHED, type WatchdogData, type Watched } from "./watchdog.ts";

/**
 * The thread of the watchdog. It counts those of its own beats during which the event loop had none. It does not
 * measure time: while the machine sleeps or the process is stopped, time passes, but neither thread has a beat.
 */

const { beats, beat, logFile, parent } = workerData as WatchdogData; // Written by `startThread`.

/**
 * Three seconds: the beats that the loop may miss after a signal. Whoever sends the signal usually waits
 * longer before sending SIGKILL.
 */
const MISSED_AFTER_SIGNAL_LIMIT = 6;
/** Ten seconds: the missed beats after which a warning is written, without a signal. */
const MISSED_BEFORE_WARNING = 20;
/** Milliseconds that the main thread may take to answer. */
const ANSWER_LIMIT = 1_000;

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
    signals.heard = undefined; // The main thread got the signal too.
    return;
  }
  if (isEnding) return;
  missed++;
  const hasLostParent = parent !== undefined && process.ppid !== parent;
  const signal = signals.heard ?? (hasLostParent ? "SIGTERM" : undefined);
  if (signal !== undefined && ++missedAfterSignal >= MISSED_AFTER_SIGNAL_LIMIT) {
    isEnding = true;
    void end(signal);
  } else if (missed === MISSED_BEFORE_WARNING) void warn("Nothing else is answered meanwhile.");
}, beat);

async function end(signal: NodeJS.Signals): Promise<void> {
  const why = signals.heard === undefined ? "The process that started it is gone" : `It was sent ${signal}`;
  await warn(`${why}, so it is ended here.`);
  await ask<void>(`release(${JSON.stringify(signal)})`);
  signals.close();
  // The signal has no listeners any more, so the system ends the process.
  process.kill(process.pid, signal);
  setTimeout(() => process.kill(process.pid, "SIGKILL"), ANSWER_LIMIT);
}

async function warn(consequence: string): Promise<void> {
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

/** Evaluates an expression in the main thread, interrupting its code; undefined when it does not answer. */
function ask<Answer>(expression: string): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const session = new Session();
    const finish = (answer?: Answer) => {
      quietly(() => session.disconnect());
      resolve(answer);
    };
    setTimeout(finish, ANSWER_LIMIT);
    try {
      session.connectToMainThread();
      session.post(
        "Runtime.evaluate",
        { expression: `globalThis[Symbol.for("${WATCHED}")].${expression}`, returnByValue: true },
        // The expression calls a method of `Watched`.
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
 * Node gives threads no signals, although libuv tells every event loop that asks. So this uses the internal class
 * behind `process.on("SIGTERM")`.
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
    // This Node hides the class. The thread still warns of a blocked loop.
  }
  return signals;
}

function quietly(act: () => void): void {
  try {
    act();
  } catch {
    // A failure cannot be reported anywhere.
  }
}
