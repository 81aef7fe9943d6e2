import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toResult } from "../tool/to-result.ts";
import { assessFinished, assessNext } from "./detect-doom-loop.ts";
import { emptyLoopState, recordCall } from "./loop-state.ts";
import { resultKeys } from "./result-keys.ts";
import { windowSize } from "./thresholds.ts";

import type { LoopRecord, LoopState } from "./types.ts";

const call = fc.record({
  tool: fc.constantFrom("read", "edit", "test"),
  argsKey: fc.constantFrom("a", "b", "c"),
  isError: fc.boolean(),
  readOnly: fc.boolean(),
  poll: fc.boolean(),
  round: fc.option(fc.constantFrom("r1", "r2", "r3"), { nil: undefined }),
  wait: fc.constantFrom(0, 1000, 12_000),
  /** Some calls are refused before they run; a call that passes must not suffer for them. */
  refused: fc.constantFrom(false, false, false, true),
});

/** Results of which no two are alike, each kind different in another place. */
const changing: readonly ((n: number) => unknown)[] = [
  (n) => `page ${n}`,
  (n) => ({ page: n }),
  (n) => `balance: ${1_612_345_678 + n}`,
  (n) => ({ downloaded: 1_500_000_000 + n * 7_777_777 }),
  (n) => `running, ${80 - n} seconds left`,
  (n) => `took ${80 - n} ms`,
  (n) => `next free slot: 2024-01-01T10:${10 + n}:00Z`,
  (n) => new Uint8Array([1, 2, n]),
  (n) => ({ output: "screenshot", attachments: [{ type: "file", mime: "image/png", url: `data:,${n}` }] }),
  (n) => ({ content: "done", type: "text", structured: { n } }),
  (n) => ({ content: "done", type: "json", structured: { n } }),
  (n) => ({ content: [{ type: "text", text: "see" }, image(n)] }),
  (n) => ({ content: [{ type: "text", text: "see", annotations: {} }, image(n)] }),
  (n) => ({ content: [{ type: "text", text: "found" }], structuredContent: { n } }),
];
const image = (n: number) => ({ type: "image", mimeType: "image/png", data: `AAA${n}` });

describe("for any session", () => {
  it("a call is never held back as long as every call that runs gives a result not seen before", () => {
    fc.assert(
      fc.property(fc.array(call, { maxLength: 60 }), (calls) => {
        let state = emptyLoopState();
        let at = 0;
        for (const [index, { refused, wait, ...facts }] of calls.entries()) {
          at += wait;
          expect(assessNext(state, facts).action).toBe("none");
          const executed = !refused;
          const record = { ...facts, callId: `c${index}`, executed, at };
          const refusal = { errorCode: "invalid_arguments", isError: true, resultKey: -1 };
          state = recordCall(state, {
            ...record,
            ...(executed ? { resultKey: index } : refusal),
          });
          if (executed) expect(assessFinished(state, record.callId).action).toBe("none");
        }
      }),
      { numRuns: 500 },
    );
  });

  it("the same holds for results as tools return them, wherever the difference lies", () => {
    const at = Date.UTC(2026, 4, 1, 10);
    const step = fc.record({ call, show: fc.constantFrom(...changing) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let state = emptyLoopState();
        for (const [index, { call: facts, show }] of steps.entries()) {
          const candidate = { ...facts, isError: false, at: at + index };
          expect(assessNext(state, candidate).action).toBe("none");
          const keys = resultKeys(toResult(show(index)), candidate.at);
          state = recordCall(state, { ...candidate, ...keys, callId: `c${index}`, executed: true });
          expect(assessFinished(state, `c${index}`).action).toBe("none");
        }
      }),
      { numRuns: 300 },
    );
  });

  it("a call whose last two results differ is never held back, whatever else repeats", () => {
    const step = fc.record({ call, resultKey: fc.constantFrom(1, 2) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let state = emptyLoopState();
        const results = new Map<string, number[]>();
        for (const [index, { call: facts, resultKey }] of steps.entries()) {
          const key = `${facts.tool} ${facts.argsKey}`;
          const [last, before] = results.get(key) ?? [];
          const candidate = { ...facts, round: undefined, at: index };
          const { action } = assessNext(state, candidate);
          if (last !== undefined && before !== undefined && last !== before && isRecent(state, key, 2)) {
            expect(action).toBe("none");
          }
          state = recordCall(state, { ...candidate, resultKey, callId: `c${index}`, executed: true });
          results.set(key, [resultKey, ...(results.get(key) ?? [])]);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("the state stays bounded, survives JSON, and judges the same after it", () => {
    const step = fc.record({ call, resultKey: fc.constantFrom(1, 2, 3) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), call, (steps, { wait, ...next }) => {
        let state = emptyLoopState();
        for (const [index, { call: facts, resultKey }] of steps.entries()) {
          const record = { ...facts, resultKey, callId: `c${index}`, executed: !facts.refused, at: index };
          state = recordCall(state, record);
        }
        expect(state.entries.length).toBeLessThanOrEqual(windowSize);
        // What JSON gives back is the state that went in.
        const resumed = JSON.parse(JSON.stringify(state)) as LoopState;
        const candidate = { ...next, at: steps.length + wait };
        expect(assessNext(resumed, candidate)).toEqual(assessNext(state, candidate));
      }),
    );
  });

  it("nothing that is handed in makes it throw", () => {
    fc.assert(
      fc.property(fc.anything(), fc.anything(), fc.anything(), (state, record, candidate) => {
        // The values are wrong on purpose, hence the casts.
        const recorded = recordCall(state as LoopState, record as LoopRecord, candidate);
        assessFinished(state as LoopState, "c");
        assessNext(state as LoopState, candidate as never);
        assessNext(recorded, candidate as never);
      }),
      { numRuns: 1000 },
    );
  });
});

/** Both results still lie in the window, so the change can be seen. */
function isRecent(state: LoopState, key: string, count: number): boolean {
  return state.entries.filter((entry) => `${entry.tool} ${entry.argsKey}` === key).length >= count;
}
