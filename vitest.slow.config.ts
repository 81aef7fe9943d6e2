import { defineConfig } from "vitest/config";
import { FigureReporter } from "./scripts/figure-reporter.ts";
import { FlakyReporter } from "./scripts/flaky-reporter.ts";
import { sharedTestSettings } from "./scripts/shared-test-settings.ts";

/** `npm run test:slow`: what takes long, one file after another, because memory and time are measured. */
export default defineConfig({
  resolve: { conditions: ["toolrack-source"] },
  ssr: { resolve: { conditions: ["toolrack-source"] } },
  test: {
    ...sharedTestSettings,
    fileParallelism: false,
    // A limit is for what hangs, not for what a busy machine makes slow.
    testTimeout: 1_200_000,
    hookTimeout: 120_000,
    env: { TOOLRACK_TEST_DEPTH: "whole" },
    include: [
      "{packages,scripts}/**/*.slow.test.ts",
      // These have a depth, of which `npm test` runs a part.
      "packages/core/src/schema/{hash,hash-value}.test.ts",
      "packages/core/src/format/mcp.test.ts",
      "packages/server/src/chat/soak.test.ts",
      "packages/server/src/files/{reload,bad-files}.test.ts",
      "packages/server/src/store/crash.test.ts",
    ],
    reporters: [
      "default",
      new FlakyReporter((text) => console.error(text)),
      new FigureReporter((text) => console.log(text)),
    ],
  },
});
