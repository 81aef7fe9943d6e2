import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Tool, type ToolMetadata, ToolRegistry } from "../index.ts";
import type { ToolContext } from "../tool/types.ts";
import { waitingForTurn } from "./context.ts";

function rackWith(execute: (context: ToolContext) => Promise<unknown>, metadata: ToolMetadata): ToolRegistry {
  const registry = new ToolRegistry();
  const parameters = { type: "object", properties: {} };
  registry.register(Tool.define({ name: "queue", description: "Waits.", parameters, execute, metadata }));
  return registry;
}

test("a call that waits for its turn need not report anything, and has to once its turn has come", async () => {
  const registry = rackWith(
    async (context) => {
      const begin = waitingForTurn(context);
      await sleep(120);
      begin();
      await new Promise((_, end) => context.signal.addEventListener("abort", end));
    },
    { idleTimeout: 60, timeout: 60_000 },
  );
  const started = performance.now();
  const result = await registry.execute("queue", {});
  expect(performance.now() - started).toBeGreaterThanOrEqual(170);
  expect(result.error?.details).toMatchObject({ kind: "idle", limit: 60 });
  expect(result.content).toMatch(/reported nothing for 60 ms/);
});

test("one whose time runs out before its turn comes is told that nothing was done", async () => {
  const registry = rackWith(
    async (context) => {
      waitingForTurn(context);
      await new Promise((_, end) => context.signal.addEventListener("abort", end));
    },
    { timeout: 50 },
  );
  const { content, error } = await registry.execute("queue", {});
  expect(error?.code).toBe("timed_out");
  expect(content).toBe(
    'The tool "queue" was not run: its turn did not come within 50 ms. Nothing was done; call it again when there are fewer calls.',
  );
});
