import { describe, expect, it } from "vitest";
import { cpuTime } from "../../../../scripts/cpu-time.ts";
import { textKeys } from "./result-keys.ts";

const at = Date.UTC(2026, 6, 1, 12);
const resultKey = (text: string) => textKeys(text, at, false).resultKey;
const exactKey = (text: string, isError = false) => textKeys(text, at, isError).exactKey;

describe("resultKey", () => {
  it.each([
    ["ISO timestamps", "done at 2026-07-01T10:11:12.345Z", "done at 2026-07-02T09:08:07+02:00"],
    ["timestamps with a space", "2026-07-01 10:11:12 up", "2026-07-01 10:11:13,002 up"],
    ["times of day", "[10:11:12] up", "[23:59:59.999] up"],
    ["times of day in JSON", '{"out":"a\\n10:11:12 up"}', '{"out":"a\\n10:11:13 up"}'],
    ["timestamps in JSON", '{"out":"a\\n2026-07-01 10:11:12 up"}', '{"out":"a\\n2026-07-01 10:11:13 up"}'],
    ["epoch seconds", "saved, ts=1782900000", "saved, ts=1782900999"],
    ["epoch milliseconds", '{"ok":true,"ts":1782900000123}', '{"ok":true,"ts":1782900999456}'],
    ["epoch seconds with a fraction", '{"ok":true,"ts":1782900000.5}', '{"ok":true,"ts":1782900999.25}'],
    [
      "UUIDs",
      "job 0190163d-8694-739b-aea5-966c26f8ad91 made",
      "job 0190163d-9c11-7cc2-b1f0-11aa22bb33cc made",
    ],
    ["memory addresses", "<Object at 0x7f8a1c2d3e40>", "<Object at 0x7fb200c0ffee>"],
    ["durations", "2 failed, took 12ms", "2 failed, took 134 ms"],
    ["long durations", "finished in 1m 02.5s", "finished in 59.12s"],
    ["durations in words", "finished in 3 seconds", "finished in 1 second"],
    ["what a timeout took", "Timed out after 3001 ms", "Timed out after 3002 ms"],
    ["durations in brackets", "2 passing (12ms)", "2 passing (1.3s)"],
    ["durations of tests", "✓ a.test.ts (3 tests) 12ms\n✗ b 3s\n", "✓ a.test.ts (3 tests) 9ms\n✗ b 12s\n"],
    ["durations of tests in JSON", '{"out":"ok \\tpkg\\t0.1s\\n"}', '{"out":"ok \\tpkg\\t0.2s\\n"}'],
    ["durations in JSON", '{"ok":true,"duration": "12ms"}', '{"ok":true,"duration": "9 ms"}'],
    ["what a summary took", "Tests: 2 failed\nTime:        2.345 s", "Tests: 2 failed\nTime:        9.1 s"],
    ["elapsed time", "up, 12s elapsed", "up, 134s elapsed"],
    ["request ids", "failed (request id: abc123)", "failed (request id: xyz789)"],
    ["request ids in JSON", '{"request_id":"a1","ok":false}', '{"request_id":"b2","ok":false}'],
    ["bare request ids", "failed, see req_011CSHoEeqs5C35K", "failed, see req_022DTIpFfrt6D46L"],
  ])("is the same for results that differ only in %s", (_name, one, other) => {
    expect(resultKey(one)).toBe(resultKey(other));
    expect(exactKey(one)).not.toBe(exactKey(other));
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
    ["times of another day", "free from 2026-07-04T10:00:00Z", "free from 2026-07-04T11:00:00Z"],
    ["times of another day with a space", "from 2026-07-04 10:00:00", "from 2026-07-04 11:00:00"],
    ["numbers that are epochs of another day", "balance: 1612345678", "balance: 1612345769"],
    ["large numbers", '{"downloaded":1500000000000}', '{"downloaded":1507777777000}'],
    ["a countdown", "running, 80 seconds left", "running, 70 seconds left"],
    ["a countdown of the clock", "00:01:20 left", "00:01:10 left"],
    ["when something will happen", "retry in 80s", "retry in 70s"],
    ["how long to wait", "busy, retry after 80 seconds", "busy, retry after 70 seconds"],
    ["the time that remains", "running, remaining time: 80s", "running, remaining time: 70s"],
    ["measured values", "p95: 80 ms, p99: 90 ms", "p95: 70 ms, p99: 90 ms"],
    ["settings", "timeout is 80s", "timeout is 70s"],
    ["a duration and nothing else", "took 80 ms", "took 70 ms"],
    ["a time and nothing else", "2026-07-01T10:11:12Z", "2026-07-01T10:11:13Z"],
    ["a labelled time and nothing else", '{"now":1782900000123}', '{"now":1782900999456}'],
    [
      "an id and nothing else",
      '{"id":"0190163d-8694-739b-aea5-966c26f8ad91"}',
      '{"id":"0190163d-9c11-7cc2-b1f0-11aa22bb33cc"}',
    ],
  ])("differs for results that differ in %s", (_name, one, other) => {
    expect(resultKey(one)).not.toBe(resultKey(other));
    expect(exactKey(one)).not.toBe(exactKey(other));
  });

  it("takes a time for data or not by the time of the call", () => {
    const key = (text: string, day: number) => textKeys(text, Date.UTC(2026, 6, day), false).resultKey;
    const [one, other] = ["up since 2026-07-04T10:00:00Z", "up since 2026-07-04T10:00:01Z"];
    expect(key(one, 4)).toBe(key(other, 4));
    expect(key(one, 9)).not.toBe(key(other, 9));
    expect(key(one, 4)).toBe(key(other, 4));
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
        "took 1".repeat(10_000),
        "1s ".repeat(20_000),
        `ok ${"1s".repeat(30_000)}`,
        "1s\n".repeat(20_000),
        `ok${" 1s\\n".repeat(12_000)}`,
        "abed in ".repeat(8_000),
        `${"a".repeat(60_000)}ed in 1`,
        "1h1m1".repeat(12_000),
      ]) {
        expect(cpuTime(() => resultKey(nasty))).toBeLessThan(200);
      }
    });
  });
});

describe("exactKey", () => {
  it.each([
    ["request ids", "refused (request id: abc123)", "refused (request id: xyz789)"],
    ["times of now", "refused at 2026-07-01T10:11:12Z", "refused at 2026-07-01T10:11:13Z"],
    ["how long it took", "timed out after 3001 ms", "timed out after 3002 ms"],
  ])("is the same for errors that differ only in %s", (_name, one, other) => {
    expect(exactKey(one, true)).toBe(exactKey(other, true));
  });

  it("differs for errors about different ids", () => {
    const error = (id: string) => `no user 0190163d-8694-739b-aea5-966c26f8ad${id} (request id: a${id})`;
    expect(exactKey(error("91"), true)).not.toBe(exactKey(error("92"), true));
  });

  it("is the resultKey of a text in which nothing is masked", () => {
    expect(exactKey("3 hits")).toBe(resultKey("3 hits"));
  });
});
