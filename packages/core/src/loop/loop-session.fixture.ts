import { assessFinished, assessNext } from "./detect-doom-loop.ts";
import { emptyLoopState, recordCall } from "./loop-state.ts";
import { textKeys } from "./result-keys.ts";

import type { LoopCandidate, LoopRecord, LoopState, LoopVerdict } from "./types.ts";

/** One call of a scripted session. For tests only. */
export interface Step {
  readonly tool: string;
  readonly args: string;
  readonly result: string;
  readonly isError?: boolean;
  readonly readOnly?: boolean;
  readonly poll?: boolean;
  readonly round?: string;
  /** Milliseconds that the model takes before the call. Default: one second. */
  readonly after?: number;
  /** Milliseconds that the tool takes. Default: none. */
  readonly took?: number;
  readonly infrastructure?: boolean;
  readonly refusal?: string;
  /** Further arguments. */
  readonly more?: Readonly<Record<string, unknown>>;
}

export const read = (args: string, result = `content of ${args}`): Step => ({
  tool: "read",
  args,
  result,
  readOnly: true,
});
export const search = (args: string, result: string): Step => ({
  tool: "search",
  args,
  result,
  readOnly: true,
});
export const edit = (args: string, result = "ok"): Step => ({ tool: "edit", args, result });
export const failingEdit = (args: string, result = "no match for the old text"): Step => ({
  tool: "edit",
  args,
  result,
  isError: true,
});
export const test = (result: string, isError = true): Step => ({
  tool: "test",
  args: "all",
  result,
  isError,
});
export const job = (result: string, poll = true): Step => ({
  tool: "job",
  args: "7",
  result,
  readOnly: true,
  poll,
});
export const refusal = (tool: string, args: string, code: string, result: string): Step => ({
  tool,
  args,
  result,
  refusal: code,
});

export const times = <Item>(count: number, item: (index: number) => Item): Item[] =>
  Array.from({ length: count }, (_, index) => item(index));
export const around = (steps: readonly Step[], count: number): Step[] =>
  times(count, (index) => steps[index % steps.length]!);
export const file = (index: number) => `src/${"abcdefghijklmnopqrstuvwxyz"[index]}.ts`;

/** A session that makes the given calls. With `enforce`, a blocked call is not run and recorded as blocked. */
export function session({ enforce = false } = {}) {
  let state: LoopState = emptyLoopState();
  let at = Date.UTC(2026, 4, 1, 10);
  let calls = 0;
  return {
    get state() {
      return state;
    },
    candidate(step: Step): LoopCandidate {
      const { tool, args, poll, round } = step;
      return {
        tool,
        argsKey: args,
        readOnly: step.readOnly === true,
        poll,
        round,
        args: { text: args, ...step.more },
      };
    },
    make(step: Step): { next: LoopVerdict; finished: LoopVerdict; ran: boolean } {
      at += step.after ?? 1000;
      calls++;
      const next = step.refusal ? noVerdict : assessNext(state, this.candidate(step));
      const blocked = enforce && next.action !== "none";
      const isError = blocked || step.isError === true || step.refusal !== undefined;
      const startedAt = at;
      if (!blocked) at += step.took ?? 0;
      const record: LoopRecord = {
        callId: `c${calls}`,
        tool: step.tool,
        argsKey: step.args,
        ...textKeys(blocked ? "the text of the block" : step.result, at, isError),
        isError,
        errorCode: blocked
          ? "loop_blocked"
          : (step.refusal ?? (step.isError ? "execution_failed" : undefined)),
        infrastructure: step.infrastructure,
        readOnly: step.readOnly === true,
        executed: !blocked && step.refusal === undefined,
        poll: step.poll,
        round: step.round,
        resultLength: step.result.length,
        startedAt,
        at,
      };
      state = recordCall(state, record, { text: step.args, ...step.more });
      if (blocked && next.action === "stop") state = { ...state, stopped: next };
      return { next, finished: assessFinished(state, record.callId), ran: record.executed };
    },
    all(steps: readonly Step[]) {
      return steps.map((step) => this.make(step));
    },
  };
}

const noVerdict: LoopVerdict = { action: "none", count: 0 };

/**
 * The numbers of the calls at which nudge, block and stop are reached first, when every call is run
 * regardless; 0 for never.
 */
export function ladder(steps: readonly Step[]) {
  const verdicts = session().all(steps);
  const at = (reached: (verdict: (typeof verdicts)[number]) => boolean) => verdicts.findIndex(reached) + 1;
  return [
    at(({ finished }) => finished.action !== "none"),
    at(({ next }) => next.action === "block" || next.action === "stop"),
    at(({ next }) => next.action === "stop"),
  ].join("/");
}

/** What becomes of each call when blocks are enforced and a stop ends the run. */
export function live(steps: readonly Step[]) {
  const outcome: string[] = [];
  const running = session({ enforce: true });
  for (const step of steps) {
    const { next, finished } = running.make(step);
    outcome.push(
      next.action === "none" ? (finished.action === "none" ? "run" : finished.action) : next.action,
    );
    if (next.action === "stop") break;
  }
  return outcome.join(" ");
}
