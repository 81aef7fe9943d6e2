import { defineConfig } from "vitest/config";
import { FlakyReporter } from "./scripts/flaky-reporter.ts";
import { LongFilesFirst } from "./scripts/long-files-first.ts";
import { sharedTestSettings } from "./scripts/shared-test-settings.ts";

export default defineConfig({
  resolve: { conditions: ["toolrack-source"] },
  ssr: { resolve: { conditions: ["toolrack-source"] } },
  test: {
    ...sharedTestSettings,
    sequence: { sequencer: LongFilesFirst },
    reporters: [
      "default",
      ...(process.env.GITHUB_ACTIONS ? (["github-actions"] as const) : []),
      new FlakyReporter((text) => console.error(text)),
    ],
    projects: [
      {
        extends: true,
        test: {
          name: "core",
          // These tests touch nothing outside of what they make, so a worker serves one file after another.
          isolate: false,
          // A limit is for what hangs, not for what a busy machine makes slow.
          testTimeout: 120_000,
          include: ["packages/{core,words}/src/**/*.test.ts"],
          exclude: ["**/*.slow.test.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "rack",
          // The modules of the server are loaded once for each worker and not for each file, which halves the time.
          isolate: false,
          testTimeout: 60_000,
          hookTimeout: 120_000,
          include: ["packages/server/src/**/*.test.ts", "scripts/**/*.test.ts"],
          exclude: ["**/*.slow.test.ts"],
        },
      },
      "packages/console/vitest.config.ts",
      "packages/console/e2e/vitest.config.ts",
    ],
    coverage: {
      provider: "v8",
      include: ["packages/core/src/**/*.ts"],
      exclude: ["**/*.test.ts", "**/*.test-d.ts"],
      thresholds: { "packages/core/src/**/*.ts": { lines: 90 } },
    },
  },
});
