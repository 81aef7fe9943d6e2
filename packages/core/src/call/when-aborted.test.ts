import { expect, test } from "vitest";
import { Tool, ToolRegistry } from "../index.ts";
import type { ToolContext } from "../tool/types.ts";
import { whenAborted } from "./context.ts";

const forever = () => new Promise<never>(() => {});

function rackWith(execute: (context: ToolContext) => Promise<unknown>): ToolRegistry {
  const registry = new ToolRegistry();
  registry.register(
    Tool.define({
      name: "wait",
      description: "Waits.",
      parameters: { type: "object", properties: {} },
      execute,
    }),
  );
  return registry;
}

test("everybody who waits is told once when the call is cancelled, with the reason of its signal", async () => {
  const told: unknown[] = [];
  let reason: unknown;
  const begun = Promise.withResolvers<void>();
  const registry = rackWith((context) => {
    whenAborted(context, (why) => told.push(["first", why]));
    whenAborted(Object.create(context), (why) => told.push(["second", why]));
    context.signal.addEventListener("abort", () => {
      reason = context.signal.reason;
    });
    begun.resolve();
    return forever();
  });
  const running = registry.execute("wait", {}, { callId: "one" });
  await begun.promise;
  registry.cancel("one", "enough");
  expect((await running).type).toBe("error");
  expect(told).toHaveLength(2);
  expect(told).toEqual(
    expect.arrayContaining([
      ["first", reason],
      ["second", reason],
    ]),
  );
});

test("a call that runs out of time tells it too", async () => {
  const told: unknown[] = [];
  const registry = rackWith((context) => {
    whenAborted(context, (why) => told.push(why));
    return forever();
  });
  const { error } = await registry.execute("wait", {}, { timeout: 20 });
  expect(told).toEqual([expect.objectContaining({ code: "timed_out" })]);
  expect(error?.code).toBe("timed_out");
});

test("who has stopped waiting is told nothing, and who comes too late is told at once", async () => {
  const told: string[] = [];
  const begun = Promise.withResolvers<ToolContext>();
  const registry = rackWith((given) => {
    begun.resolve(given);
    const stops = [
      whenAborted(given, () => told.push("stopped")),
      whenAborted(given, () => told.push("too")),
    ];
    for (const stop of stops) stop();
    return forever();
  });
  const running = registry.execute("wait", {}, { callId: "two" });
  const context = await begun.promise;
  registry.cancel("two");
  await running;
  whenAborted(context, () => told.push("late"));
  expect(told).toEqual(["late"]);
});
