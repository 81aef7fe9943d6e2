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
    noteFailures(modules, errors);
    const flaky = modules
      .flatMap(({ children }) => [...children.allTests()])
      .filter((test) => test.diagnostic()?.flaky === true);
    if (flaky.length > 0) this.#say(reportOf(flaky));
  }
}

/**
 * Tells `scripts/test.mjs` what failed: it runs a few files again, and says at its very end what was wrong, where nobody
 * has to look for it among thousands of lines. An error that belongs to no test could come from any file, so then no file
 * is named.
 */
function noteFailures(modules: readonly TestModule[], errors: readonly unknown[]): void {
  const place = process.env.TOOLRACK_FAILURES;
  if (place === undefined) return;
  const failed = modules.filter((module) => !module.ok());
  const files = errors.length > 0 ? [] : failed.map(fileOf);
  const said = [
    ...failed.flatMap(({ children }) => [...children.allTests("failed")].map(describe)),
    ...failed.flatMap((module) =>
      module.errors().map((error) => `\n  ${fileOf(module)}\n${indented(error)}`),
    ),
    ...errors.map((error) => `\n  An error that belongs to no test.\n${indented(error)}`),
  ];
  writeFileSync(place, JSON.stringify({ files, said }));
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
  const [first] = test.result().errors ?? [];
  return `\n  ${fileOf(test.module)} > ${test.fullName}\n${indented(first)}`;
}

function fileOf({ moduleId }: TestModule): string {
  return relative(process.cwd(), moduleId);
}

/** The message and the beginning of the stack. */
function indented(error: unknown): string {
  const text = error instanceof Error || isSaying(error) ? (error.stack ?? error.message) : undefined;
  const lines = (text ?? "It left no message.").split("\n").slice(0, 20);
  return lines.map((line) => `    ${line}`).join("\n");
}

/** What comes from a worker of the tests is not an `Error` any more, and has its parts. */
function isSaying(error: unknown): error is { message: string; stack?: string } {
  return typeof error === "object" && error !== null && "message" in error;
}
