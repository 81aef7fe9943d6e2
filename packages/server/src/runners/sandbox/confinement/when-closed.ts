import type { ChildProcess } from "node:child_process";

/** How long what a process said last is still read after its end, in milliseconds. */
const LAST_WORDS = 1_000;

/**
 * Acts once the process has ended and its streams are closed. One that is ended in the middle of its start may leave a
 * process behind that was to end with it, and that holds the streams open for ever: then they are closed here, which is
 * what such a process ends by.
 */
export function whenClosed(
  child: ChildProcess,
  act: (exitCode: number | null, signal: NodeJS.Signals | null) => void,
): void {
  child.once("close", act);
  child.once("exit", () => {
    const timer = setTimeout(() => {
      for (const stream of child.stdio) stream?.destroy();
    }, LAST_WORDS);
    child.once("close", () => clearTimeout(timer));
  });
}
