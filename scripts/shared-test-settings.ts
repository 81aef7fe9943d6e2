import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";

/** What holds for every test. A project of tests with a config of its own inherits nothing, and so asks for it. */
export const sharedTestSettings = {
  // Most tests wait for something most of the time; with one worker less than cores, as is usual, they would wait one after
  // another. Of the tests of MCP, six workers on two cores took two thirds of the time that three took.
  maxWorkers: availableParallelism() + 4,
  // One test of thousands that a busy machine upset does not hold up a change; it is told of, and is to be mended.
  retry: process.env.CI ? 2 : 0,
  // A limit is for what hangs, not for what a busy machine makes slow.
  expect: { poll: { timeout: 20_000 } },
  setupFiles: [fileURLToPath(new URL("patient-waits.ts", import.meta.url))],
};
