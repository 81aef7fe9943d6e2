import type { CallFrame } from "./frame.ts";

/**
 * One step in the life of a call. It reads and fills the frame, and throws to refuse. It returns a promise only
 * when it really has to wait; what that resolves to is the frame's `output` for the next stage. So a call that
 * waits for nothing but its tool costs one turn of the loop.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a stage that does not wait returns nothing at all.
export type Stage = (frame: CallFrame) => Promise<unknown> | void;

export interface Ending {
  /** All stages passed. */
  complete(frame: CallFrame): void;
  /** A stage threw or rejected. */
  fail(frame: CallFrame, thrown: unknown): void;
}

/** Runs the stages in order and ends the call exactly once. A call that ended meanwhile goes no further. */
export function compose(stages: readonly Stage[], ending: Ending): (frame: CallFrame) => void {
  function advance(frame: CallFrame, from: number): void {
    try {
      for (let index = from; index < stages.length; index++) {
        const waiting = stages[index]!(frame);
        if (waiting === undefined) {
          if (frame.ended) return;
          continue;
        }
        frame.waited = true;
        waiting.then(
          (output) => {
            if (frame.ended) return;
            frame.output = output;
            advance(frame, index + 1);
          },
          (thrown: unknown) => ending.fail(frame, thrown),
        );
        return;
      }
    } catch (thrown) {
      ending.fail(frame, thrown);
      return;
    }
    ending.complete(frame);
  }
  return (frame) => advance(frame, 0);
}
