// @vitest-environment happy-dom
import { expect, it } from "vitest";
import type { LoopVerdict } from "../api/index.ts";
import { setLanguage } from "../i18n/index.ts";
import { loopEvidence, shownStatus } from "./call-texts.ts";

it("tells a call that was cancelled from one that failed", () => {
  expect(shownStatus({ status: "error", error: { code: "cancelled" } })).toBe("cancelled");
  expect(shownStatus({ status: "error", error: { code: "execution_failed" } })).toBe("error");
  expect(shownStatus({ status: "completed" })).toBe("completed");
});

it("tells a call that somebody denied from one that failed", () => {
  expect(shownStatus({ status: "error", error: { code: "approval_denied" } })).toBe("denied");
});

it("tells a call that waits for an answer from one that runs", () => {
  const waiting = new Set(["asks"]);
  expect(shownStatus({ callId: "asks", status: "running" }, waiting)).toBe("pending");
  expect(shownStatus({ callId: "runs", status: "running" }, waiting)).toBe("running");
  expect(shownStatus({ callId: "asks", status: "completed" }, waiting)).toBe("completed");
});

/** Every signal that there is: a new one does not compile before it stands here. */
const signals: Record<NonNullable<LoopVerdict["signal"]>, true> = {
  repeat: true,
  cycle: true,
  same_error: true,
  stagnation: true,
  drought: true,
  interleaved: true,
  refused: true,
};

it.each(["en", "zh-CN"] as const)("says every kind of loop in %s", async (language) => {
  await setLanguage(language, { remember: false });
  for (const signal of Object.keys(signals) as (keyof typeof signals)[]) {
    const evidence = "the words of the server since call #7";
    const text = loopEvidence({ action: "nudge", signal, count: 4, period: 3, evidence }, "hello");
    expect(text).not.toContain("the words of the server");
    expect(text).toMatch(/4/);
    expect(text).toMatch(/7/);
    expect(text).not.toMatch(/[{}]/);
  }
});

it("leaves what it does not know to the server", async () => {
  await setLanguage("zh-CN", { remember: false });
  expect(loopEvidence({ action: "nudge", count: 2, evidence: "something new" }, "hello")).toBe(
    "something new",
  );
  expect(loopEvidence({ action: "nudge", count: 2 }, "hello")).toBe("hello");
});
