import { describe, expect, it } from "vitest";
import { assessFinished, assessNext } from "./detect-doom-loop.ts";
import {
  around,
  edit,
  ladder,
  live,
  read,
  refusal,
  type Step,
  search,
  session,
  times,
} from "./loop-session.fixture.ts";
import { emptyLoopState, recordCall } from "./loop-state.ts";
import { textKeys } from "./result-keys.ts";

import type { LoopCandidate, LoopRecord, LoopState } from "./types.ts";

describe("what is no evidence", () => {
  it("does not count infrastructure failures, nor take them for the end of a series", () => {
    const busy: Step = { ...read("a.ts", "503 busy"), isError: true, infrastructure: true };
    expect(ladder(times(12, () => busy))).toBe("0/0/0");
    const between: Step = { ...busy, args: "b.ts" };
    expect(ladder([read("a.ts"), between, read("a.ts"), between, read("a.ts")])).toBe("3/5/0");
  });

  it("says nothing of a call that was not kept", () => {
    const running = session();
    running.all(around([read("a.ts")], 2));
    const busy: Step = { ...read("b.ts", "503 busy"), isError: true, infrastructure: true };
    expect(running.make(busy).finished.action).toBe("none");
  });
});

describe("rounds", () => {
  const inRound = (round: number, ...steps: Step[]) => steps.map((step) => ({ ...step, round: `r${round}` }));

  it("counts identical calls of one round once", () => {
    const steps = times(3, (round) => inRound(round, ...around([read("a.ts")], 4))).flat();
    expect(ladder(steps.slice(0, 4))).toBe("0/0/0");
    expect(ladder(steps)).toBe("5/9/0");
  });

  it("gives all identical calls of a round the verdict of the first", () => {
    const steps = times(3, (round) => inRound(round, ...around([read("a.ts")], 3))).flat();
    expect(live(steps)).toBe("run run run nudge run run block block block");
  });

  it("needs two rounds for a nudge, three for a block and five for a stop, however wide they are", () => {
    const round = (number: number) =>
      inRound(number, ...times(6, (index) => search(`word ${number} ${index}`, "no matches")));
    expect(ladder(round(0))).toBe("0/0/0");
    expect(ladder(times(9, round).flat())).toBe("7/13/25");
  });

  it("sees the same wide round again, also when its calls end in another order", () => {
    const hits = search("x", "3 hits");
    const wide = (round: number) =>
      round % 2 === 0
        ? inRound(round, read("a.ts"), hits, read("b.ts"), read("c.ts"))
        : inRound(round, hits, read("a.ts"), read("c.ts"), read("b.ts"));
    expect(ladder(times(7, wide).flat())).toBe("9/13/21");
  });

  it("keeps results that differ within a round", () => {
    const steps = inRound(0, read("log", "one"), read("log", "two"));
    const running = session();
    running.all(steps);
    expect(running.state.entries).toHaveLength(2);
  });
});

describe("refusals", () => {
  it("nudges at the second and blocks at the third identical refusal, whatever lies between", () => {
    const unknown = refusal("raed", "a", "tool_not_found", "There is no tool raed.");
    const verdicts = session().all([unknown, read("a.ts"), unknown, edit("b.ts"), unknown]);
    expect(verdicts.map(({ finished }) => finished.action)).toEqual([
      "none",
      "none",
      "nudge",
      "none",
      "block",
    ]);
    expect(verdicts[4]?.finished).toMatchObject({ signal: "refused", count: 3 });
  });

  it("takes the same complaint about other arguments for the same refusal, until the tool is used well", () => {
    const wrong = (args: string) => refusal("read", args, "invalid_arguments", "path: expected a string");
    const verdicts = session().all([wrong("1"), wrong("2"), wrong("3"), read("a.ts"), wrong("4")]);
    expect(verdicts.map(({ finished }) => finished.action)).toEqual([
      "none",
      "nudge",
      "block",
      "none",
      "none",
    ]);
  });

  it("stops at the fifth identical refusal in a row", () => {
    const wrong = refusal("read", "{}", "invalid_arguments", "path: missing");
    const verdicts = session().all(around([wrong], 5));
    expect(verdicts.map(({ finished }) => finished.action)).toEqual([
      "none",
      "nudge",
      "block",
      "block",
      "stop",
    ]);
  });

  it("does not hold bad arguments against a call that passed", () => {
    const running = session();
    running.all(around([refusal("read", "a", "invalid_arguments", "path: missing")], 6));
    expect(assessNext(running.state, running.candidate(read("a"))).action).toBe("none");
  });

  it("does not ask a person a third time for what was denied twice, but asks for something else", () => {
    const denied = (args: string) => refusal("shell", args, "approval_denied", "A person said no.");
    const running = session();
    running.all([
      denied("rm a"),
      read("a.ts"),
      denied("rm a"),
      denied("rm b"),
      denied("rm c"),
      denied("rm d"),
    ]);
    const ask = (args: string) =>
      assessNext(running.state, running.candidate({ tool: "shell", args, result: "" }));
    expect(ask("rm a")).toMatchObject({ action: "block", signal: "refused", count: 3 });
    expect(ask("rm e").action).toBe("none");
  });
});

describe("near-identical arguments", () => {
  const long = "a paragraph that a search engine found ".repeat(8);
  const query = (words: string) => `how do i configure the proxy of the build server for ${words}`;
  const words = [
    "team x",
    "x team",
    "the team x",
    "a team x",
    "team x of",
    "x",
    "team",
    "our team x",
    "team x now",
  ];

  function verdicts(args: (words: string) => unknown, result: string, readOnly = false) {
    let state = emptyLoopState();
    return words.map((variant, index) => {
      const given = args(variant);
      const call = { tool: "oracle", argsKey: variant, readOnly, at: index };
      const next = assessNext(state, { ...call, args: given });
      const callId = `c${index}`;
      const record = { ...call, ...textKeys(result, index, false), callId, isError: false, executed: true };
      state = recordCall(state, { ...record, resultLength: result.length }, given);
      return next.action === "none" ? assessFinished(state, callId).action : next.action;
    });
  }

  it("count as stagnation of a tool that is not declared read-only when the result is a long one", () => {
    // The first call of the series has nothing to be compared with, hence one call later than read-only tools.
    expect(verdicts((variant) => ({ query: query(variant) }), long)).toEqual(
      "none none none none nudge nudge block block block".split(" "),
    );
  });

  it("do not count when the tool only says ok, nor when the arguments really differ", () => {
    expect(new Set(verdicts((variant) => ({ query: query(variant) }), "ok"))).toEqual(new Set(["none"]));
    const different = (variant: string) => ({ query: Array.from(variant).join(` ${variant.length} `) });
    expect(new Set(verdicts(different, long))).toEqual(new Set(["none"]));
  });
});

describe("a verdict", () => {
  it("carries evidence, the result that still holds, and plain JSON only", () => {
    const running = session();
    running.all([read("other"), ...around([read("a.ts")], 2)]);
    const verdict = assessNext(running.state, running.candidate(read("a.ts")));
    expect(verdict).toEqual({
      action: "block",
      signal: "repeat",
      count: 3,
      period: 1,
      fingerprint: expect.any(String),
      evidence: "3rd identical call of read, same result since call #2; nothing changed in between",
      calls: ["c2", "c3"],
      clears: "Another call in between, or another result of read.",
      previousCallId: "c3",
    });
    expect(JSON.parse(JSON.stringify(verdict))).toEqual(verdict);
  });

  it("has the same fingerprint wherever in the loop it is given, and another one for another loop", () => {
    const fingerprints = (steps: Step[]) =>
      new Set(
        session()
          .all(steps)
          .flatMap(({ finished }) => (finished.signal === "cycle" ? [finished.fingerprint] : [])),
      );
    const first = fingerprints(around([read("a"), read("b"), read("c")], 12));
    const second = fingerprints(around([read("b"), read("c"), read("d")], 12));
    expect(first.size).toBe(1);
    expect(second.size).toBe(1);
    expect(first).not.toEqual(second);
  });
});

describe("malformed input", () => {
  // The values are wrong on purpose, hence the casts.
  const broken = [
    undefined,
    null,
    7,
    "x",
    {},
    { entries: 3 },
    { entries: [null], total: 1 },
  ] as unknown as LoopState[];

  it.each(broken.map((state) => [JSON.stringify(state) ?? "undefined", state] as const))(
    "does not throw on the state %s",
    (_name, state) => {
      const running = session();
      expect(assessNext(state, running.candidate(read("a"))).action).toBe("none");
      expect(assessFinished(state, "c1").action).toBe("none");
      expect(recordCall(state, undefined as unknown as LoopRecord).entries).toBeDefined();
    },
  );

  it("takes records without keys for no evidence", () => {
    let state = emptyLoopState();
    for (let index = 0; index < 9; index++) state = recordCall(state, { callId: "c" } as LoopRecord);
    expect(state.entries).toEqual([]);
    expect(assessNext(state, {} as LoopCandidate).action).toBe("none");
  });
});
