import { describe, expect, it } from "vitest";
import { assessFinished, assessNext } from "./detect-doom-loop.ts";
import { clearForNewMessage, emptyLoopState, recordCall, rollback } from "./loop-state.ts";
import type { LoopRecord, LoopState } from "./types.ts";

let number = 0;
const record = (tool: string, over: Partial<LoopRecord> = {}): LoopRecord => ({
  callId: `${tool}-${number++}`,
  tool,
  argsKey: "a",
  resultKey: 1,
  isError: false,
  readOnly: true,
  executed: true,
  at: 0,
  ...over,
});
const after = (...records: LoopRecord[]): LoopState =>
  records.reduce((state, next) => recordCall(state, next), emptyLoopState());
const next = (tool: string) => ({ tool, argsKey: "a", readOnly: true, at: 0 });

describe("recordCall", () => {
  it("leaves the state it was given as it was", () => {
    const before = after(record("read"));
    const snapshot = structuredClone(before);
    recordCall(before, record("read"));
    expect(before).toEqual(snapshot);
  });

  it("keeps the last 24 calls and goes on counting", () => {
    const state = after(...Array.from({ length: 30 }, (_, index) => record("read", { argsKey: `${index}` })));
    expect(state.entries).toHaveLength(24);
    expect(state.entries.map(({ ordinal }) => ordinal)).toEqual(Array.from({ length: 24 }, (_, i) => i + 7));
    expect(state.total).toBe(30);
  });

  it("remembers a blocked call by the result it would have had", () => {
    const state = after(record("read"), record("read"));
    const blocked = record("read", {
      executed: false,
      errorCode: "loop_blocked",
      isError: true,
      resultKey: 2,
    });
    expect(recordCall(state, blocked).entries.at(-1)).toMatchObject({
      resultKey: 1,
      isError: false,
      executed: false,
      blocked: true,
      refused: false,
    });
  });

  it("counts a cancelled call without taking it for evidence", () => {
    const state = after(record("read"), record("read", { errorCode: "cancelled", isError: true }));
    expect(state.entries).toHaveLength(1);
    expect(state.total).toBe(2);
  });

  it("starts anew when the stored state cannot be read", () => {
    // The state is wrong on purpose, hence the cast.
    const broken = { entries: [null], total: 1 } as unknown as LoopState;
    expect(recordCall(broken, record("read")).entries).toMatchObject([{ tool: "read", isNew: true }]);
  });
});

describe("clearForNewMessage", () => {
  it("forgets the calls", () => {
    const state = clearForNewMessage(after(record("read"), record("read")));
    expect(state).toEqual(emptyLoopState());
    expect(assessNext(state, next("read")).action).toBe("none");
  });

  it("keeps a stop", () => {
    const stopped: LoopState = {
      ...after(record("read")),
      stopped: { action: "stop", signal: "repeat", count: 5 },
    };
    const state = clearForNewMessage(stopped);
    expect(state.entries).toEqual([]);
    expect(assessNext(state, next("write"))).toEqual({ action: "stop", signal: "repeat", count: 5 });
    expect(recordCall(state, record("read")).stopped).toBeDefined();
  });
});

describe("rollback", () => {
  it("leaves no trace of the calls of a turn that is asked for again", () => {
    const kept = [record("read"), record("read", { argsKey: "b" })];
    const retried = [record("read"), record("read")];
    const state = after(...kept, ...retried);
    const ids = retried.map(({ callId }) => callId);
    expect(rollback(state, ids)).toEqual(after(...kept));
  });

  it("judges later calls as if the removed ones had never been made", () => {
    const edit = record("edit", { readOnly: false });
    const before = record("read");
    const later = [record("read"), record("read", { resultKey: 3 }), record("edit", { readOnly: false })];
    const state = rollback(after(before, edit, ...later), [edit.callId]);
    expect(state).toEqual(after(before, ...later));
    expect(state.entries.map(({ isNew }) => isNew)).toEqual([true, false, true, true]);
  });

  it("changes nothing when the calls are unknown", () => {
    const state = after(record("read"));
    expect(rollback(state, ["elsewhere"])).toBe(state);
  });

  it("takes back the sightings of a loop", () => {
    const twice = [record("read"), record("read")];
    const state = after(...twice);
    expect(assessFinished(state, twice[1]!.callId).action).toBe("nudge");
    expect(assessNext(state, next("read")).action).toBe("block");
    expect(assessNext(rollback(state, [twice[1]!.callId]), next("read")).action).toBe("none");
  });
});
