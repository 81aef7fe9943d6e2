import { describe, expect, it } from "vitest";
import { textKeys } from "./result-keys.ts";

const at = Date.UTC(2026, 6, 1, 12);

/** What a run of tests prints, of which `failed` fail: `t` is different in each run. */
type Output = (t: number, failed: number) => string;

const runners: Record<string, Output> = {
  vitest: (t, failed) => `
 RUN  v3.2.4 /repo

 ❯ src/sum.test.ts (4 tests | ${failed} failed) ${t + 3}ms
   × adds two numbers ${t}ms
     → expected 3 to be 4 // Object.is equality

 Test Files  1 failed | 11 passed (12)
      Tests  ${failed} failed | 80 passed (81)
   Start at  10:00:${10 + t}
   Duration  ${t}.12s (transform ${t}ms, setup 0ms, collect 3${t}ms, tests ${t}ms)`,
  jest: (t, failed) => `FAIL src/sum.test.ts
  ✕ adds two numbers (${t} ms)

Tests:       ${failed} failed, 80 passed, 81 total
Snapshots:   0 total
Time:        ${t}.241 s, estimated ${t + 1} s
Ran all test suites.`,
  mocha: (t, failed) => `  sum\n    1) adds two numbers\n\n  80 passing (${t}ms)\n  ${failed} failing`,
  pytest: (t, failed) =>
    `F...\n>       assert 3 == 4\nE       assert 3 == 4\n\ntest_sum.py:4: AssertionError\n========= ${failed} failed, 80 passed in ${t}.${t}s =========`,
  unittest: (t, failed) =>
    `F...\nAssertionError: 3 != 4\n\n------------------\nRan 81 tests in 0.0${t}s\n\nFAILED (failures=${failed})`,
  go: (t, failed) =>
    `--- FAIL: TestSum (0.${t}s)\n    sum_test.go:9: got 3, ${failed} failed\nFAIL\nFAIL\texample.com/sum\t0.${t}s\nFAIL`,
  cargo: (t, failed) =>
    `test sum::adds ... FAILED\n\ntest result: FAILED. 80 passed; ${failed} failed; 0 ignored; finished in 0.${t}s`,
  rspec: (t, failed) =>
    `Failures:\n\n  1) Sum adds\n\nFinished in 0.0${t} seconds (files took 0.${t} seconds to load)\n81 examples, ${failed} failures\n\nRandomized with seed ${t}217`,
  minitest: (t, failed) =>
    `Run options: --seed ${t}302\n\nFinished in 0.00${t}s, ${t}4.5 runs/s, ${t}9.1 assertions/s.\n\n81 runs, 90 assertions, ${failed} failures, 0 errors, 0 skips`,
  phpunit: (t, failed) =>
    `There was ${failed} failure:\n\n1) SumTest::testAdds\n\nTime: 00:00.0${t}, Memory: 6.00 MB\n\nTests: 81, Failures: ${failed}.`,
  node: (t, failed) => `✖ adds (${t}.12ms)\nℹ tests 81\nℹ pass 80\nℹ fail ${failed}\nℹ duration_ms ${t}.9231`,
  "node, TAP": (t, failed) =>
    `not ok 1 - adds\n  ---\n  duration_ms: ${t}.102\n  failureType: 'testCodeFailure'\n  ...\n# fail ${failed}\n# duration_ms ${t}.9231`,
  maven: (t, failed) =>
    `[ERROR] Tests run: 81, Failures: ${failed}, Errors: 0, Skipped: 0, Time elapsed: 0.${t} s <<< FAILURE!\n[INFO] BUILD FAILURE\n[INFO] Total time:  ${t}.312 s\n[INFO] Finished at: 2026-07-01T12:00:${10 + t}Z`,
  gradle: (t, failed) =>
    `SumTest > adds() FAILED\n\n81 tests completed, ${failed} failed\n\nBUILD FAILED in ${t}s\n3 actionable tasks: 1 executed, 2 up-to-date`,
  dotnet: (t, failed) =>
    `  Failed Adds [${t} ms]\n\nFailed!  - Failed:     ${failed}, Passed:    80, Skipped:     0, Total:    81, Duration: ${t} ms - sum.dll (net8.0)`,
  ctest: (t, failed) =>
    `    Start 1: sum\n1/1 Test #1: sum ..............***Failed    0.${t} sec\n\n0% tests passed, ${failed} tests failed out of 1\n\nTotal Test time (real) =   0.${t} sec`,
  xctest: (t, failed) =>
    `Test Case 'SumTests.testAdds' failed (0.0${t} seconds)\nExecuted 81 tests, with ${failed} failures (0 unexpected) in 0.0${t} (0.1${t}) seconds`,
  exunit: (t, failed) =>
    `Running ExUnit with seed: ${t}1021, max_cases: 8\n\nFinished in 0.0${t} seconds (0.00s async, 0.0${t}s sync)\n81 tests, ${failed} failures`,
  deno: (t, failed) => `adds ... FAILED (${t}ms)\n\nFAILED | 80 passed | ${failed} failed (${t}9ms)`,
  bun: (t, failed) =>
    `✗ adds [${t}.${t}ms]\n\n 80 pass\n ${failed} fail\nRan 81 tests across 12 files. [${t}.00ms]`,
  playwright: (t, failed) =>
    `Running 81 tests using 4 workers\n\n  ✘  1 sum.spec.ts:3:1 › adds (${t}.1s)\n\n  ${failed} failed\n  80 passed (${t}.3s)`,
  bazel: (t, failed) =>
    `//sum:test FAILED in 0.${t}s\nINFO: Elapsed time: ${t}.310s, Critical Path: 0.${t}s\nExecuted 1 out of 1 test: ${failed} fails locally.`,
};

describe("the same failing tests, run again", () => {
  it.each(Object.entries(runners))("say the same with %s, whatever they took", (_name, output) => {
    const keys = (text: string) => [
      textKeys(text, at, false, { command: "test" }).resultKey,
      textKeys(text, at, true, { command: "test" }).exactKey,
    ];
    expect(keys(output(12, 1))).toEqual(keys(output(37, 1)));
    const [failedOne, failedTwo] = [keys(output(12, 1)), keys(output(12, 2))];
    expect(failedOne[0]).not.toBe(failedTwo[0]);
  });
});
