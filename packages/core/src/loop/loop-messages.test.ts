import { describe, expect, it } from "vitest";
import { loopEvidence, loopMessage } from "./loop-messages.ts";
import type { LoopSignal } from "./types.ts";

const signals: LoopSignal[] = [
  "repeat",
  "cycle",
  "same_error",
  "stagnation",
  "drought",
  "interleaved",
  "refused",
];

describe("what the model is told", () => {
  it.each(signals)("of %s", (signal) => {
    const evidence = loopEvidence({ signal, count: 3, period: 2 }, "read_file", 12);
    const verdict = { signal, count: 3, evidence, previousCallId: "call_14" };
    const texts = (["nudge", "block", "stop"] as const).map((action) => loopMessage({ ...verdict, action }));
    expect(texts.join("\n")).toMatchSnapshot();
    for (const text of texts) expect(text).not.toMatch(/try again|undefined/i);
  });

  it("is nothing when there is no loop", () => {
    expect(loopMessage({ action: "none", count: 0 })).toBe("");
  });

  it("makes sense without details", () => {
    expect(loopMessage({ action: "block", count: 3 })).toBe(
      "Not run, because it would repeat what is known: the latest calls repeat earlier ones. These calls have nothing more to tell. Decide on the basis of what they said, change something, or look in a place not looked at yet.",
    );
  });

  it.each([
    [2, "2nd"],
    [11, "11th"],
    [12, "12th"],
    [21, "21st"],
    [23, "23rd"],
  ])("counts %i as %s", (count, expected) => {
    expect(loopEvidence({ signal: "repeat", count, period: 1 }, "read", 1)).toContain(
      `${expected} identical`,
    );
  });
});
