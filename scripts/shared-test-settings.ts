import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";

/** What holds for every test. A project of tests with a config of its own inherits nothing, and so asks for it. */
export const sharedTestSettings = {
  // Most tests wait for something; with one worker less than cores, as is usual, they would wait one after another.
  maxWorkers: availableParallelism() + 2,
  // One test of thousands that a busy machine upset does not hold up a change; it is told of, and is to be mended.
  retry: process.env.CI ? 2 : 0,
  // A limit is for what hangs, not for what a busy machine makes slow.
  expect: { poll: { timeout: 20_000 } },
  setupFiles: [fileURLToPath(new URL("patient-waits.ts", import.meta.url))],
};
