import { expect, it } from "vitest";
import type { CallSummary } from "./generated-types.ts";
import { fillBuckets, summariseCalls } from "./statistics.ts";

it("counts calls and failures over all and by slices of time", () => {
  const calls = [call(0, 10), call(10, 20), call(99, 30, "error"), call(100, 40), call(5, 0, "running")];
  const { buckets, ...whole } = summariseCalls(calls, { since: 0, until: 100, slices: 2 });
  expect(whole).toEqual({ calls: 3, errors: 1, cancelled: 0, p50: 20, p95: 30 });
  expect(buckets).toEqual([
    { at: 0, calls: 2, errors: 0, cancelled: 0, p50: 20, p95: 20 },
    { at: 50, calls: 1, errors: 1, cancelled: 0, p50: 30, p95: 30 },
  ]);
});

it("counts what was called off apart from failures, and no time in which a call waited for a person", () => {
  const calledOff = (code: "cancelled" | "approval_denied") => ({
    ...call(1, 9_000, "error"),
    error: { name: "", code, message: "", recoverable: false },
  });
  const waited = { ...call(2, 5_010), flags: { waited: 5_000 } };
  const { buckets: _, ...whole } = summariseCalls(
    [calledOff("cancelled"), calledOff("approval_denied"), waited],
    { since: 0, until: 10, slices: 1 },
  );
  expect(whole).toEqual({ calls: 3, errors: 0, cancelled: 2, p50: 10, p95: 10 });
});

it("has no times where nothing happened", () => {
  const { buckets: _, ...whole } = summariseCalls([], { since: 0, until: 10, slices: 1 });
  expect(whole).toEqual({ calls: 0, errors: 0, cancelled: 0 });
});

function call(timestamp: number, duration: number, status: CallSummary["status"] = "completed"): CallSummary {
  return { callId: String(timestamp), toolName: "t", status, timestamp, duration };
}

it("puts slices without a call between those that the server counted", () => {
  const buckets = [{ at: 20, calls: 3, errors: 1, cancelled: 0, p50: 5, p95: 9 }];
  const filled = fillBuckets({ since: 14, until: 39, interval: 10, buckets });
  expect(filled).toEqual([
    { at: 10, calls: 0, errors: 0, cancelled: 0, p50: undefined, p95: undefined },
    { at: 20, calls: 3, errors: 1, cancelled: 0, p50: 5, p95: 9 },
    { at: 30, calls: 0, errors: 0, cancelled: 0, p50: undefined, p95: undefined },
  ]);
});
