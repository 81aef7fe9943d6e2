import { describe, expect, it } from "vitest";
import { resultKey } from "./result-key.ts";

describe("resultKey", () => {
  it.each([
    ["ISO timestamps", "done at 2026-07-01T10:11:12.345Z", "done at 2026-07-02T09:08:07+02:00"],
    ["timestamps with a space", "2026-07-01 10:11:12 up", "2026-07-01 10:11:13,002 up"],
    ["times of day", "[10:11:12] up", "[23:59:59.999] up"],
    ["epoch seconds", "ts=1751364672", "ts=1751364999"],
    ["epoch milliseconds", '{"ts":1751364672123}', '{"ts":1751364999456}'],
    [
      "UUIDs",
      "job 0190163d-8694-739b-aea5-966c26f8ad91 made",
      "job 0190163d-9c11-7cc2-b1f0-11aa22bb33cc made",
    ],
    ["memory addresses", "<Object at 0x7f8a1c2d3e40>", "<Object at 0x7fb200c0ffee>"],
    ["durations", "2 failed, took 12ms", "2 failed, took 134 ms"],
    ["long durations", "finished in 1m 02.5s", "finished in 59.12s"],
    ["durations in words", "finished in 3 seconds", "finished in 1 second"],
    ["request ids", "failed (request id: abc123)", "failed (request id: xyz789)"],
    ["request ids in JSON", '{"request_id":"a1","ok":false}', '{"request_id":"b2","ok":false}'],
    ["bare request ids", "failed, see req_011CSHoEeqs5C35K", "failed, see req_022DTIpFfrt6D46L"],
  ])("is the same for results that differ only in %s", (_name, one, other) => {
    expect(resultKey(one)).toBe(resultKey(other));
  });

  it.each([
    ["counts", "2 failed", "3 failed"],
    ["percentages", "10% done", "20% done"],
    ["pages", "page 4 of 9", "page 5 of 9"],
    ["line numbers", "stopped in line 40", "stopped in line 41"],
    ["dates", "free on 2026-07-01", "free on 2026-07-02"],
    ["words", "red", "blue"],
    ["versions", "1.2.3", "1.2.4"],
    ["commit hashes", "at 3f786850e387550f", "at 89e6c98d92887913"],
    ["chain addresses", `from 0x${"ab12".repeat(10)}`, `from 0x${"cd34".repeat(10)}`],
    ["prices", "1500 EUR", "1600 EUR"],
    ["whether there is a timestamp at all", "at 2026-07-01T10:11:12Z", "at noon"],
  ])("differs for results that differ in %s", (_name, one, other) => {
    expect(resultKey(one)).not.toBe(resultKey(other));
  });

  describe("of a very long text", () => {
    const lines = Array.from({ length: 60_000 }, (_, index) => `entry ${index} is fine`);
    const text = (head: string, middle: string, tail: string) =>
      [head, ...lines.slice(0, 30_000), middle, ...lines.slice(30_000), tail].join("\n");
    const key = resultKey(text("took 9ms", "middle", "at 10:11:12"));

    it("is the same when only the ends differ in what is masked, even in length", () => {
      expect(resultKey(text("took 1000ms", "middle", "at 10:11:12.999"))).toBe(key);
    });

    it("differs when one character differs at the start, in the middle or at the end", () => {
      expect(resultKey(text("took 9ms!", "middle", "at 10:11:12"))).not.toBe(key);
      expect(resultKey(text("took 9ms", "muddle", "at 10:11:12"))).not.toBe(key);
      expect(resultKey(text("took 9ms", "middle", "at 10:11:12!"))).not.toBe(key);
    });

    it("takes time in proportion to its length when it is made to be slow", () => {
      for (const nasty of [
        "1".repeat(60_000),
        "1 ".repeat(30_000),
        "a-".repeat(30_000),
        "req_".repeat(15_000),
      ]) {
        const start = performance.now();
        resultKey(nasty);
        expect(performance.now() - start).toBeLessThan(200);
      }
    });
  });
});
