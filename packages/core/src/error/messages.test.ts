import { describe, expect, it } from "vitest";
import * as messages from "./messages.ts";

const issue = {
  path: "days",
  expected: "integer",
  received: 'string "x"',
  message: 'Expected integer, got string "x".',
};

describe("what callers read", () => {
  it("says what happened, where, and what to do next", () => {
    const texts = [
      messages.notFound("raed", ["read", "write"], 2),
      messages.notFound("raed", [], 2),
      messages.notFound("raed", [], 0),
      messages.noneForCaller("raed"),
      messages.disabled("read"),
      messages.takenDown("wipe"),
      messages.callerGone("wipe", "Its token was taken back."),
      messages.tooDeep("read", 16),
      messages.notJson("read", "Unexpected end"),
      messages.notAnObject("read", "a list"),
      messages.tooLarge("read", 9, 8),
      messages.invalidArguments("read", [issue, { ...issue, path: "", message: "" }]),
      messages.brokenSchema("read", "No."),
      messages.permissionDenied("read", ["a"]),
      messages.permissionDenied("read", ["a", "b"]),
      messages.nobodyToAsk("wipe"),
      messages.approvalDenied("wipe", "not today"),
      messages.approvalDenied("wipe", undefined),
      messages.goingOnDenied("wipe", "not today"),
      messages.goingOnDenied("wipe", undefined),
      messages.approvalExpired("wipe", 5_000, undefined),
      messages.approvalExpired("wipe", 5_000, "the inbox"),
      messages.timedOut("read", "total", 500),
      messages.timedOut("read", "idle", 2_000),
      messages.cancelled("read", undefined),
      messages.cancelled("read", "the user left"),
      messages.badOutput("read", [issue]),
      messages.badOutput("read", []),
      messages.duplicateCallId("c1"),
    ];
    expect(texts).toMatchSnapshot();
    for (const text of texts) expect(text).not.toMatch(/please|try again/i);
  });
});
