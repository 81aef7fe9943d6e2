// @vitest-environment happy-dom
import { expect, it } from "vitest";
import type { LoopVerdict } from "../api/index.ts";
import { setLanguage } from "../text/index.ts";
import { callerText, loopEvidence, shownStatus, toolTime } from "./call-texts.ts";

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

it("names who made a call truly", () => {
  setLanguage("en", { remember: false });
  const names = [
    { caller: "http", via: "console" },
    { caller: "http", via: "curl/8.5.0" },
    { caller: "cli" },
    { caller: "ci-bot", via: "curl/8.5.0" },
    { caller: "http", via: "claude-code 2.1.0" },
    { caller: "http", via: "chat 0199" },
    { caller: "schedule_tool_0199", via: "schedule 0199" },
    { caller: "schedule_tool_0199" },
    { caller: "some_tool" },
    { caller: "ci_01890a5d-ac96-774b-bcce-b302099a8057", via: "curl/8.5.0" },
    { caller: "some_tool_01890a5d-ac96-774b-bcce-b302099a8057" },
    { caller: "mcp", via: "claude-code 2.1.0" },
    { caller: "mcp" },
    {},
  ].map(callerText);
  expect(names).toEqual([
    "Console",
    "curl/8.5.0",
    "Command line",
    "ci-bot · curl/8.5.0",
    "claude-code 2.1.0",
    "Chat",
    "Schedule",
    "Schedule",
    "some_tool",
    "ci · curl/8.5.0",
    "some_tool",
    "claude-code 2.1.0",
    "MCP client",
    "",
  ]);
});

it("does not count as the tool's time what a call waited for a person", () => {
  expect(toolTime({ duration: 5_010, flags: { waited: 5_000 } })).toBe(10);
  expect(toolTime({ duration: 7 })).toBe(7);
  expect(toolTime({})).toBeUndefined();
});

/** Every signal that there is: a new one does not compile before it stands here. */
const signals: Record<NonNullable<LoopVerdict["signal"]>, true> = {
  repeat: true,
  cycle: true,
  same_error: true,
  stagnation: true,
  drought: true,
  known_answers: true,
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
