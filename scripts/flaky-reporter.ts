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

  onTestRunEnd(modules: readonly Pick<TestModule, "children">[]): void {
    const flaky = modules
      .flatMap(({ children }) => [...children.allTests()])
      .filter((test) => test.diagnostic()?.flaky === true);
    if (flaky.length > 0) this.#say(reportOf(flaky));
  }
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
