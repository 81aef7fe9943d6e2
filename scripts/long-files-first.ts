import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Short files whose tests take long. While Vitest knows no times, as in a new checkout, it begins with the largest files,
 * and all others would have ended long before these.
 */
const longFiles = [
  "scripts/docs.test.ts",
  "packages/server/src/code/stdio.test.ts",
  "packages/server/src/store/store.test.ts",
  "packages/server/src/rack/reliability/lane-kinds.test.ts",
  "packages/server/src/mcp/serve/conformance.test.ts",
  "packages/server/src/mcp/connect/gateway-conformance.test.ts",
  "packages/server/src/store/skills/rows-by-hand.test.ts",
].map((path) => resolve(import.meta.dirname, "..", path));

/** Vitest's own order, but for these files, which come first. */
export class LongFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const gone = longFiles.find((path) => !existsSync(path));
    if (gone !== undefined)
      throw new Error(`${gone} is gone. Name another file in scripts/long-files-first.ts.`);
    const { long = [], short = [] } = Object.groupBy(await super.sort(files), ({ moduleId }) =>
      longFiles.includes(moduleId) ? "long" : "short",
    );
    return [...long, ...short];
  }
}
