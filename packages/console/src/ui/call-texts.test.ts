// @vitest-environment happy-dom
import { mount } from "@vue/test-utils";
import { expect, it } from "vitest";
import { createI18n } from "vue-i18n";
import type { LoopVerdict } from "../api/index.ts";
import { en } from "../i18n/en.ts";
import { zhCN } from "../i18n/zh-cn.ts";
import { shownStatus, useLoopEvidence } from "./call-texts.ts";

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

function evidenceIn(locale: "en" | "zh-CN"): ReturnType<typeof useLoopEvidence> {
  let found: ReturnType<typeof useLoopEvidence> | undefined;
  const i18n = createI18n({ legacy: false, locale, messages: { en, "zh-CN": zhCN } });
  const component = {
    setup() {
      found = useLoopEvidence();
      return () => null;
    },
  };
  mount(component, { global: { plugins: [i18n] } });
  return found!;
}

it.each(["en", "zh-CN"] as const)("says every kind of loop in %s", (locale) => {
  const evidenceOf = evidenceIn(locale);
  for (const signal of Object.keys(signals) as (keyof typeof signals)[]) {
    const evidence = "the words of the server since call #7";
    const text = evidenceOf({ action: "nudge", signal, count: 4, period: 3, evidence }, "hello");
    expect(text).not.toContain("the words of the server");
    expect(text).toMatch(/4/);
    expect(text).toMatch(/7/);
    expect(text).not.toMatch(/[{}]/);
  }
});

it("leaves what it does not know to the server", () => {
  const evidenceOf = evidenceIn("zh-CN");
  expect(evidenceOf({ action: "nudge", count: 2, evidence: "something new" }, "hello")).toBe("something new");
  expect(evidenceOf({ action: "nudge", count: 2 }, "hello")).toBe("hello");
});
