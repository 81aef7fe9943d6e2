import { describe, expect, it } from "vitest";
import { assessFinished, assessNext } from "./detect-doom-loop.ts";
import {
  around,
  edit,
  failingEdit,
  file,
  job,
  ladder,
  live,
  read,
  type Step,
  search,
  session,
  test,
  times,
} from "./loop-session.fixture.ts";
import { emptyLoopState, recordCall } from "./loop-state.ts";
import type { LoopRecord } from "./types.ts";

describe("when blocks are enforced", () => {
  it("climbs from nudge over block to stop while the call is insisted on", () => {
    expect(live(around([read("a.ts")], 8))).toBe("run nudge block block stop");
  });

  it("climbs for a cycle and for reshuffled arguments as if the calls had run", () => {
    expect(live(around([read("a.ts"), search("x", "3 hits")], 10))).toBe(
      "run run run nudge nudge block block stop",
    );
    expect(live(times(9, (index) => failingEdit(`attempt ${index}`)))).toBe(
      "run run nudge nudge block block block stop",
    );
  });

  it("lets a call run again once something else was done in between", () => {
    const steps = [read("a.ts"), read("a.ts"), read("a.ts"), read("b.ts"), read("a.ts")];
    expect(live(steps)).toBe("run nudge block run nudge");
  });

  it("lets a failing test run again once something was changed", () => {
    const steps = [...times(10, (index) => (index % 2 === 0 ? test("2 failed") : read(file(index))))];
    expect(live([...steps, edit("a fix"), test("2 failed"), test("2 failed")])).toBe(
      "run run run run nudge run nudge run block run run run nudge",
    );
  });

  it("lets an attempt with untried arguments run once something was learned, and holds the next one", () => {
    const steps = [
      ...times(5, (index) => failingEdit(`attempt ${index}`)),
      read("a.ts"),
      failingEdit("attempt after reading"),
      failingEdit("attempt without reading"),
      read("b.ts"),
      failingEdit("attempt after reading more"),
    ];
    expect(live(steps)).toBe("run run nudge nudge block run nudge block run nudge");
  });

  it("forgets the failures when the granted run succeeds", () => {
    const steps = [
      ...times(5, (index) => failingEdit(`attempt ${index}`)),
      read("a.ts"),
      edit("the right one"),
    ];
    expect(live([...steps, failingEdit("attempt 9"), failingEdit("attempt 10")])).toBe(
      "run run nudge nudge block run run run run",
    );
  });

  it("gives every later call the verdict of the stop", () => {
    const running = session({ enforce: true });
    running.all(around([read("a.ts")], 5));
    expect(running.make(read("something else")).next).toMatchObject({ action: "stop", signal: "repeat" });
  });

  it("stops the fourth attempt after three blocked ones even where the ladder has no stop in reach", () => {
    const steps = around([job("running"), { ...read("log"), poll: true }], 60);
    const outcome = live(steps).split(" ");
    const firstBlock = outcome.indexOf("block");
    expect(outcome.slice(firstBlock)).toEqual(["block", "block", "block", "stop"]);
  });
});

describe("a changing result", () => {
  it("is never blocked, even when the result comes back in turns", () => {
    const toggling = times(24, (index) => read("light", index % 2 === 0 ? "on" : "off"));
    expect(ladder(toggling)).toBe("4/0/0");
  });

  it("is run among other calls that are blocked for repeating", () => {
    const steps = times(20, (index) =>
      index % 2 === 0 ? test("2 failed") : read("progress", `step ${index}`),
    );
    const outcome = live(steps).split(" ");
    expect(outcome.filter((_, index) => index % 2 === 1)).toEqual(times(outcome.length >> 1, () => "run"));
    expect(outcome).toContain("block");
  });

  it("ends a series that would have been blocked", () => {
    const steps = [...times(2, () => read("log", "empty")), read("log", "one line")];
    const running = session();
    running.all(steps);
    expect(assessNext(running.state, running.candidate(read("log"))).action).toBe("none");
  });
});

describe("the world version", () => {
  it("lets all checks be made again after an edit, although each says what it said before", () => {
    const checks = times(6, (index) => ({ tool: `check ${index}`, args: "", result: "ok", readOnly: true }));
    expect(ladder([...checks, edit("a.ts"), ...checks])).toBe("0/0/0");
  });

  it("is not raised by an edit that was made before, nor by one that failed", () => {
    const again = [
      edit("a.ts"),
      test("2 failed"),
      edit("a.ts"),
      test("2 failed"),
      edit("a.ts"),
      test("2 failed"),
    ];
    expect(ladder(again)).toBe("4/6/0");
    const failing = times(12, (index) =>
      index % 2 === 0 ? test("2 failed") : failingEdit(`${index}`, `${index}`),
    );
    expect(ladder(failing)).toBe("5/9/0");
  });
});

describe("waiting", () => {
  it("gives a declared poll exactly four times the patience", () => {
    expect(ladder(times(24, () => job("running")))).toBe("8/12/20");
  });

  const status = job("running", false);
  const pause = (took: number): Step => ({ tool: "sleep", args: "a while", result: `slept ${took}`, took });

  it("gives the same patience to a call before which tools took ten seconds since its twin", () => {
    const patient = times(24, (index) => (index % 2 === 0 ? status : pause(10_000 + index)));
    expect(ladder(patient)).toBe("0/0/0");
    const hasty = times(24, (index) => (index % 2 === 0 ? status : read(`${index}`)));
    expect(ladder(hasty)).toBe("7/0/0");
  });

  it("does not take the model's own time for waiting", () => {
    const slow = times(8, (): Step => ({ ...status, after: 60_000 }));
    expect(ladder(slow)).toBe(ladder(times(8, () => status)));
    expect(ladder(slow)).toBe("2/3/5");
  });

  it("is the same at any speed of the model", () => {
    const runs = [
      around([read("a.ts"), failingEdit("a.ts"), test("2 failed")], 12),
      around([status, pause(12_000)], 12),
      times(10, (index) => failingEdit(`attempt ${index}`)),
    ];
    for (const steps of runs) {
      const at = (after: number) => session().all(steps.map((step) => ({ ...step, after })));
      expect(at(4_000)).toEqual(at(1_000));
      expect(at(11_000)).toEqual(at(1_000));
    }
  });

  it("does not wait for an error", () => {
    const failing: Step = { ...test("2 failed"), took: 60_000 };
    expect(ladder(times(6, () => failing))).toBe("2/3/5");
  });

  it("takes the time of a tool for waiting only if its name says that it waits", () => {
    const slow = (tool: string) =>
      times(9, (): Step => ({ tool, args: "7", result: "not yet", took: 20_000 }));
    expect(ladder(slow("wait_for_job"))).toBe("8/0/0");
    expect(ladder(slow("ask_job"))).toBe("2/3/5");
  });

  it("takes a call for waiting that used the time that its arguments let it wait", () => {
    const output = (took: number, more: Step["more"]) =>
      times(12, (): Step => ({ tool: "output", args: "7", result: "none yet", took, more }));
    expect(ladder(output(20_000, { timeout_ms: 20_000 }))).toBe("8/12/0");
    expect(ladder(output(20_000, { timeout: 20 }))).toBe("8/12/0");
    expect(ladder(output(20_000, { timeout_ms: 600_000 }))).toBe("2/3/5");
  });

  it("does not let a hasty repeat after a long wait jump to the stop", () => {
    const running = session();
    const waits = { tool: "wait_for_job", args: "7", result: "not yet" };
    running.all(times(6, (): Step => ({ ...waits, took: 15_000 })));
    expect(running.make({ ...waits, took: 0 }).next.action).toBe("none");
    expect(running.make(waits).next.action).toBe("block");
  });

  it("counts the pause between two polls as part of the wait", () => {
    const pause: Step = { tool: "sleep", args: "5s", result: "slept 5s" };
    expect(ladder(around([job("running"), pause], 14))).toBe("0/0/0");
  });

  it("measures the gap from the end of one call to the start of the next, so a slow tool does not look patient", () => {
    const slow = (index: number, startedAt: number): LoopRecord => ({
      callId: `c${index}`,
      tool: "test",
      argsKey: "all",
      resultKey: 2,
      isError: true,
      readOnly: false,
      executed: true,
      startedAt,
      at: startedAt + 60_000,
    });
    const state = recordCall(recordCall(emptyLoopState(), slow(1, 0)), slow(2, 61_000));
    expect(assessFinished(state, "c2")).toMatchObject({ action: "nudge", signal: "repeat", count: 2 });
  });
});
