import { expect, it } from "vitest";
import { shownStatus } from "./shown-status.ts";

it("tells a call that was cancelled from one that failed", () => {
  expect(shownStatus({ status: "error", error: { code: "cancelled" } })).toBe("cancelled");
  expect(shownStatus({ status: "error", error: { code: "execution_failed" } })).toBe("error");
  expect(shownStatus({ status: "completed" })).toBe("completed");
});
