import { expect, it } from "vitest";
import { shownStatus } from "./shown-status.ts";

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
