import type { Reporter, TestCase } from "vitest/node";

declare module "vitest" {
  interface TaskMeta {
    /** What the test counted or measured, for the table at the end of the run. */
    figures?: Record<string, string | number>;
  }
}

/** Prints what the slow tests counted and measured, one line each, when all of them have ended. */
export class FigureReporter implements Reporter {
  readonly #say: (text: string) => void;
  readonly #rows = new Map<string, string>();

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  onTestCaseResult(test: TestCase): void {
    const { figures } = test.meta();
    if (figures === undefined) return;
    const result = test.result().state === "passed" ? "" : "FAILED: ";
    const cells = Object.entries(figures).map(([name, value]) => `${name} ${value}`);
    this.#rows.set(test.fullName, result + cells.join("; "));
  }

  onTestRunEnd(): void {
    if (this.#rows.size === 0) return;
    const width = Math.max(...[...this.#rows.keys()].map(({ length }) => length));
    const lines = [...this.#rows].map(([name, text]) => `${name.padEnd(width)}  ${text}`);
    this.#say(`\nWhat was tried, and what came out\n\n${lines.join("\n")}\n`);
  }
}
