import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["toolrack-source"] },
  ssr: { resolve: { conditions: ["toolrack-source"] } },
  test: {
    // Most tests wait for something; with one worker less than cores, as is usual, they would wait one after another.
    maxWorkers: Math.max(2, availableParallelism()),
    projects: [
      {
        extends: true,
        test: {
          name: "rack",
          // A limit is for what hangs, not for what a busy machine makes slow.
          testTimeout: 30_000,
          hookTimeout: 60_000,
          include: ["packages/{core,server}/src/**/*.test.ts", "scripts/**/*.test.ts"],
        },
      },
      "packages/console/vitest.config.ts",
    ],
    coverage: {
      provider: "v8",
      include: ["packages/core/src/**/*.ts"],
      exclude: ["**/*.test.ts", "**/*.test-d.ts"],
      thresholds: { "packages/core/src/**/*.ts": { lines: 90 } },
    },
  },
});
