import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, TestCase, TestModule } from "vitest/node";

/**
 * Tells at the end, loudly, of every test that passed only when it was run again, with what had failed at first. Such a
 * test fails no run, so nobody would hear of it otherwise.
 */
export class FlakyReporter implements Reporter {
  readonly #say: (text: string) => void;

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[] = []): void {
    noteFailedFiles(modules, errors);
    const flaky = modules
      .flatMap(({ children }) => [...children.allTests()])
      .filter((test) => test.diagnostic()?.flaky === true);
    if (flaky.length > 0) this.#say(reportOf(flaky));
  }
}

/**
 * Names the files with a failed test for `scripts/test.mjs`, which runs a few of them again. An error that belongs to no
 * test could come from any file, so then none is named.
 */
function noteFailedFiles(modules: readonly TestModule[], errors: readonly unknown[]): void {
  const place = process.env.TOOLRACK_FAILED_FILES;
  if (place === undefined || errors.length > 0) return;
  const failed = modules
    .filter((module) => !module.ok())
    .map(({ moduleId }) => relative(process.cwd(), moduleId));
  writeFileSync(place, failed.join("\n"));
}

function reportOf(flaky: readonly TestCase[]): string {
  const count = flaky.length === 1 ? "1 test" : `${flaky.length} tests`;
  return [
    "",
    `FLAKY: ${count} failed, and passed when run again. Each is a bug, of the test or of what it tests: mend it.`,
    ...flaky.map(describe),
    "",
  ].join("\n");
}

function describe(test: TestCase): string {
  const place = `${relative(process.cwd(), test.module.moduleId)} > ${test.fullName}`;
  const [first] = test.result().errors ?? [];
  const said = first === undefined ? "It left no message." : (first.stack ?? first.message);
  return `\n  ${place}\n${said.replace(/^/gm, "    ")}`;
}
