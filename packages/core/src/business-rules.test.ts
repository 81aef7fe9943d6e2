import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Tool, ToolRegistry } from "./index.ts";
import type { ToolState } from "./tool/types.ts";

const name = z.object({ name: z.string() });

function greeter() {
  return Tool.define({
    name: "greet",
    description: "Greets somebody.",
    parameters: name,
    execute: async ({ input }) => ({ content: `Hello, ${input.name}!`, type: "text" }),
  });
}

describe("registration rules", () => {
  it("BR-01 a name is unique in a registry, whatever its case, and the first holder stays", () => {
    const registry = new ToolRegistry();
    registry.register(greeter());
    expect(() => registry.register({ ...greeter(), name: "GREET", origin: "b.ts" })).toThrow(
      /"greet" is taken.*"GREET" \(b\.ts\)/,
    );
    expect(registry.getAll()).toHaveLength(1);
  });

  it("BR-02 parameters must be a valid schema", () => {
    const execute = async () => "";
    expect(() => Tool.define({ name: "a", parameters: undefined as never, execute })).toThrow(/parameters/);
    expect(() => Tool.define({ name: "a", parameters: { type: "strin" }, execute })).toThrow(/strin/);
    expect(Tool.define({ name: "a", parameters: name, execute }).name).toBe("a");
  });

  it("BR-03 execute is asynchronous: a plain function is run as one, anything else is refused", async () => {
    expect(() => Tool.define({ name: "a", parameters: name, execute: "run" as never })).toThrow(/execute/);
    const tool = Tool.define({ name: "a", parameters: name, execute: () => "at once" });
    expect(tool.execute({ input: { name: "x" } } as never)).toBeInstanceOf(Promise);
    const registry = new ToolRegistry();
    registry.register(tool);
    expect(await registry.execute("a", { name: "x" })).toEqual({ content: "at once", type: "text" });
  });

  it("BR-04 registering stamps the time", () => {
    const registry = new ToolRegistry();
    const before = Date.now();
    registry.register({ ...greeter(), createdAt: 0 });
    expect(registry.get("greet")?.createdAt).toBeGreaterThanOrEqual(before);
  });

  it("BR-05 a disabled tool cannot be called until it is enabled again", async () => {
    const registry = new ToolRegistry();
    registry.register(greeter());
    registry.disable("greet");
    const refused = await registry.execute("greet", { name: "Ada" });
    expect(refused.error).toMatchObject({
      name: "ToolDisabledError",
      code: "tool_disabled",
      recoverable: false,
    });
    registry.enable("greet");
    expect((await registry.execute("greet", { name: "Ada" })).content).toBe("Hello, Ada!");
  });
});

describe("execution rules", () => {
  it("BR-06 arguments are validated first and a misfit never runs", async () => {
    let runs = 0;
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({ name: "count", parameters: z.object({ n: z.number() }), execute: async () => ++runs }),
    );
    const result = await registry.execute("count", { n: "many" });
    expect(result.error).toMatchObject({ name: "InvalidArgumentError", recoverable: true });
    expect(result.content).toContain("n:");
    expect(runs).toBe(0);
  });

  it("BR-07 a tool that runs too long is interrupted even if it ignores its signal", async () => {
    let signal: AbortSignal | undefined;
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "slow",
        parameters: z.object({}),
        metadata: { timeout: 30 },
        execute: (ctx) => {
          signal = ctx.signal;
          return new Promise(() => {});
        },
      }),
    );
    const result = await registry.execute("slow", {});
    expect(result.error).toMatchObject({ name: "ToolTimeoutError", details: { kind: "total", limit: 30 } });
    expect(signal?.aborted).toBe(true);
  });

  it("BR-08 a dangerous tool runs only when somebody agrees", async () => {
    const wipe = Tool.define({
      name: "wipe",
      parameters: z.object({ path: z.string() }),
      metadata: { dangerous: true, confirm: "Really wipe it?" },
      execute: async ({ input }) => `wiped ${input.path}`,
    });
    const alone = new ToolRegistry();
    alone.register(wipe);
    expect((await alone.execute("wipe", { path: "/tmp/x" })).error?.code).toBe("approval_denied");

    const questions: string[] = [];
    const asked = new ToolRegistry({
      approval: {
        ask: async (request) => {
          questions.push(request.message);
          return { decision: "allow" };
        },
      },
    });
    asked.register(wipe);
    expect((await asked.execute("wipe", { path: "/tmp/x" })).content).toBe("wiped /tmp/x");
    expect(questions).toEqual(["Really wipe it?"]);
  });

  it("BR-09 the outcome is recorded in the state", async () => {
    const registry = new ToolRegistry();
    registry.register(greeter());
    await registry.execute("greet", { name: "Ada" }, { callId: "c1" });
    expect(registry.getState("c1")).toMatchObject({
      status: "completed",
      input: { name: "Ada" },
      output: "Hello, Ada!",
    });
  });

  it("BR-10 whatever is thrown becomes the state error", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "broken",
        parameters: z.object({}),
        execute: async () => {
          throw new Error("out of paper");
        },
      }),
    );
    const result = await registry.execute("broken", {}, { callId: "c1" });
    expect(result).toMatchObject({
      type: "error",
      content: "out of paper",
      error: { name: "ToolExecutionError" },
    });
    expect(registry.getState("c1")).toMatchObject({ status: "error", error: "out of paper" });
  });
});

describe("state rules", () => {
  it("BR-11 every call has a call id of its own", async () => {
    const registry = new ToolRegistry();
    registry.register(greeter());
    const inputs = Array.from({ length: 50 }, (_, index) => ({ name: String(index) }));
    await Promise.all(inputs.map((input) => registry.execute("greet", input)));
    const ids = registry.getCallHistory(100).map((record) => record.callId);
    expect(new Set(ids).size).toBe(50);

    await registry.execute("greet", { name: "Ada" }, { callId: "mine" });
    const again = await registry.execute("greet", { name: "Bob" }, { callId: "mine" });
    expect(again.error?.message).toContain('"mine" is already in use');
    expect(registry.getState("mine")).toMatchObject({ input: { name: "Ada" } });

    const brief = new ToolRegistry({ historyLimit: 2 });
    brief.register(greeter());
    await brief.execute("greet", { name: "Bob" }, { callId: "x" });
    await brief.execute("greet", { name: "Eve" }, { callId: "x" });
    for (const person of ["a", "b"]) await brief.execute("greet", { name: person });
    await brief.execute("greet", { name: "Ada" }, { callId: "x" });
    expect(brief.getState("x")).toMatchObject({ input: { name: "Ada" } });
  });

  it("BR-12 state changes go through metadata(), and a finished state never changes", async () => {
    const seen: ToolState[] = [];
    let late: ((update: Partial<ToolState>) => void) | undefined;
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "work",
        parameters: z.object({}),
        execute: async ({ metadata }) => {
          late = metadata;
          metadata({ title: "Working", metadata: { step: 1 } });
          metadata({ metadata: { rows: 7 } });
          metadata({ status: "completed" } as Partial<ToolState>);
          return "done";
        },
      }),
    );
    await registry.execute("work", {}, { callId: "c1", metadata: (state) => seen.push(state) });
    expect(seen.map((state) => state.status)).toEqual([
      "pending",
      "running",
      "running",
      "running",
      "running",
      "completed",
    ]);
    late?.({ title: "Too late" });
    registry.updateState("c1", { title: "Too late", metadata: { step: 9 } });
    expect(registry.getState("c1")).toMatchObject({
      status: "completed",
      title: "Working",
      metadata: { step: 1, rows: 7 },
    });
  });

  it("BR-13 the last 100 calls are remembered, or as many as configured", async () => {
    const registry = new ToolRegistry();
    registry.register(greeter());
    for (let index = 0; index < 130; index++) await registry.execute("greet", { name: String(index) });
    const history = registry.getCallHistory(1000);
    expect(history).toHaveLength(100);
    expect(history[0]?.parameters).toEqual({ name: "30" });
    expect(registry.getCallHistory(2).map((record) => record.parameters.name)).toEqual(["128", "129"]);

    const small = new ToolRegistry({ historyLimit: 3 });
    small.register(greeter());
    for (const person of ["a", "b", "c", "d"]) await small.execute("greet", { name: person });
    expect(small.getCallHistory(10).map((record) => record.parameters.name)).toEqual(["b", "c", "d"]);
  });

  it("BR-14 detectDoomLoop finds a repeating pattern in the last calls", async () => {
    const registry = new ToolRegistry();
    registry.register(greeter());
    for (const person of ["a", "b", "c", "d"]) await registry.execute("greet", { name: person });
    expect(registry.detectDoomLoop()).toMatchObject({ isDoomLoop: false });
    for (let turn = 0; turn < 3; turn++) await registry.execute("greet", { name: "again" });
    expect(registry.detectDoomLoop()).toMatchObject({ isDoomLoop: true, signal: "repeat", count: 3 });
    await sleep(0);
  });
});
