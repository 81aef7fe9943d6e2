import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { Tool, ToolRegistry } from "../index.ts";
import type { ChildOptions, ToolContext } from "../tool/types.ts";

const none = z.object({});

describe("time limits", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function endless(name: string, metadata: { timeout?: number; idleTimeout?: number }) {
    return Tool.define({ name, parameters: none, metadata, execute: () => new Promise(() => {}) });
  }

  it("each call ends at its own limit, in whatever order they started", async () => {
    const registry = new ToolRegistry();
    registry.register(endless("long", { timeout: 5_000 }));
    registry.register(endless("short", { timeout: 300 }));
    const ended: string[] = [];
    const long = registry.execute("long", {}).then(() => ended.push("long"));
    const short = registry.execute("short", {}).then(() => ended.push("short"));
    await vi.advanceTimersByTimeAsync(299);
    expect(ended).toEqual([]);
    await vi.advanceTimersByTimeAsync(2);
    await short;
    expect(ended).toEqual(["short"]);
    await vi.advanceTimersByTimeAsync(4_700);
    await long;
    expect(ended).toEqual(["short", "long"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("the caller may shorten a limit but not lengthen it", async () => {
    const registry = new ToolRegistry();
    registry.register(endless("tool", { timeout: 1_000 }));
    const shortened = registry.execute("tool", {}, { timeout: 100 });
    const lengthened = registry.execute("tool", {}, { timeout: 60_000 });
    await vi.advanceTimersByTimeAsync(101);
    expect((await shortened).error?.details).toMatchObject({ limit: 100 });
    await vi.advanceTimersByTimeAsync(900);
    expect((await lengthened).error?.details).toMatchObject({ limit: 1000 });
  });

  it("tools without a limit of their own get the registry's; 0 means none", async () => {
    const registry = new ToolRegistry({ timeout: 500 });
    registry.register(endless("usual", {}));
    registry.register(endless("unlimited", { timeout: 0 }));
    const usual = registry.execute("usual", {});
    const unlimited = registry.execute("unlimited", {}, { callId: "u" });
    await vi.advanceTimersByTimeAsync(501);
    expect((await usual).error?.code).toBe("timed_out");
    await vi.advanceTimersByTimeAsync(86_400_000);
    expect(registry.getState("u")?.status).toBe("running");
    registry.cancel("u");
    await unlimited;
    expect(vi.getTimerCount()).toBe(0);
  });

  it("no call loses its limit when the end of one ends another", async () => {
    const registry = new ToolRegistry();
    registry.register(endless("tool", { timeout: 40 }));
    registry.subscribe((event) => {
      if (event.type === "state" && event.callId === "three" && event.state.status === "error")
        registry.cancel("two");
    });
    const calls = ["one", "two", "three"].map((callId) => registry.execute("tool", {}, { callId }));
    await vi.advanceTimersByTimeAsync(100);
    const codes = (await Promise.all(calls)).map((result) => result.error?.code);
    expect(codes).toEqual(["timed_out", "cancelled", "timed_out"]);
  });

  it("a limit of more than 24 days works", async () => {
    const registry = new ToolRegistry();
    const days = 86_400_000;
    registry.register(endless("patient", { timeout: 30 * days }));
    const call = registry.execute("patient", {}, { callId: "p" });
    await vi.advanceTimersByTimeAsync(29 * days);
    expect(registry.getState("p")?.status).toBe("running");
    await vi.advanceTimersByTimeAsync(days + 1);
    expect((await call).error?.code).toBe("timed_out");
  });

  it("silence ends a call after its idle limit, and progress starts it anew", async () => {
    const registry = new ToolRegistry();
    let report: (() => void) | undefined;
    registry.register(
      Tool.define({
        name: "worker",
        parameters: none,
        metadata: { idleTimeout: 200 },
        execute: ({ progress }) => {
          report = () => progress(1, 10, "step");
          return new Promise(() => {});
        },
      }),
    );
    const call = registry.execute("worker", {}, { callId: "w" });
    for (let step = 0; step < 5; step++) {
      await vi.advanceTimersByTimeAsync(150);
      report?.();
    }
    expect(registry.getState("w")?.status).toBe("running");
    await vi.advanceTimersByTimeAsync(201);
    expect((await call).error).toMatchObject({ code: "timed_out", details: { kind: "idle", limit: 200 } });
  });
});

describe("the timer of the limits", () => {
  it("keeps no process alive once the last call has ended", async () => {
    const script = `
      import { Tool, ToolRegistry } from "@toolrack/core";
      const registry = new ToolRegistry({ timeout: 3_600_000 });
      registry.register(Tool.define({ name: "endless", parameters: {}, execute: () => new Promise(() => {}) }));
      registry.register(Tool.define({ name: "quick", parameters: {}, execute: async () => "ok" }));
      const endless = registry.execute("endless", {}, { callId: "c" });
      setTimeout(() => registry.cancel("c"), 50);
      await endless;
      await registry.execute("quick", {});
      console.log("ended");`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--conditions=toolrack-source", "--input-type=module", "--eval", script],
      { cwd: fileURLToPath(new URL(".", import.meta.url)), timeout: 60_000 },
    );
    expect(stdout).toBe("ended\n");
  });
});

describe("cancelling", () => {
  it("one call ends while the others go on", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "wait",
        parameters: z.object({ ms: z.number() }),
        execute: async ({ input, signal }) => {
          await sleep(input.ms, undefined, { signal });
          return "finished";
        },
      }),
    );
    const first = registry.execute("wait", { ms: 60_000 }, { callId: "a" });
    const second = registry.execute("wait", { ms: 20 }, { callId: "b" });
    expect(registry.cancel("a", "not needed")).toBe(true);
    expect((await first).error).toMatchObject({ code: "cancelled", details: { reason: "not needed" } });
    expect((await second).content).toBe("finished");
    expect(registry.cancel("a")).toBe(false);
    expect(registry.cancel("unknown")).toBe(false);
  });

  it("the caller's own signal cancels, before and during the run, and is let go afterwards", async () => {
    const registry = new ToolRegistry();
    registry.register(Tool.define({ name: "wait", parameters: none, execute: () => new Promise(() => {}) }));
    registry.register(Tool.define({ name: "quick", parameters: none, execute: async () => "ok" }));
    expect(
      (await registry.execute("wait", {}, { signal: AbortSignal.abort("gone") })).error?.details,
    ).toMatchObject({ reason: "gone" });

    const controller = new AbortController();
    const removed = vi.spyOn(controller.signal, "removeEventListener");
    await registry.execute("quick", {}, { signal: controller.signal });
    expect(removed).toHaveBeenCalledOnce();
    const call = registry.execute("wait", {}, { signal: controller.signal });
    controller.abort(new Error("user left"));
    expect((await call).error?.details).toMatchObject({ reason: "user left" });
  });

  it("a signal looked at after the cancel is already aborted", async () => {
    const registry = new ToolRegistry();
    let look: (() => AbortSignal) | undefined;
    registry.register(
      Tool.define({
        name: "lazy",
        parameters: none,
        execute: (context) => {
          look = () => context.signal;
          return new Promise(() => {});
        },
      }),
    );
    const call = registry.execute("lazy", {}, { callId: "l" });
    await vi.waitFor(() => expect(look).toBeDefined());
    registry.cancel("l");
    await call;
    expect(look?.().aborted).toBe(true);
  });
});

describe("a tool that makes one call after the other", () => {
  /** Far more than fit into the limits and timers of these tests, so that a test ends also where nothing stops the tool. */
  const MOST = 200_000;

  function rackWith(step: (context: ToolContext, count: number) => Promise<unknown>, isOver: () => boolean) {
    const registry = new ToolRegistry();
    let steps = 0;
    registry.register(Tool.define({ name: "echo", parameters: none, execute: async () => "ok" }));
    registry.register(
      Tool.define({
        name: "looping",
        parameters: none,
        execute: async (context) => {
          while (steps < MOST && !isOver()) await step(context, steps++);
        },
      }),
    );
    return { registry, steps: () => steps };
  }

  /** An id that another call has. A tool in plain JavaScript may ask for one, although the type does not offer it. */
  function taken(callId: string): ChildOptions {
    const options: ChildOptions & { callId: string } = { callId };
    return options;
  }

  function alarm(): () => boolean {
    let rang = false;
    setTimeout(() => {
      rang = true;
    }, 30);
    return () => rang;
  }

  it("ends at its limit, although its calls wait for nothing", async () => {
    const { registry, steps } = rackWith(
      ({ call }) => call("echo"),
      () => false,
    );
    const result = await registry.execute("looping", {}, { timeout: 50, callId: "l" });
    expect(result.error).toMatchObject({ code: "timed_out", details: { kind: "total", limit: 50 } });
    expect(steps()).toBeLessThan(MOST);
  });

  it("ends at the limit of whoever called it", async () => {
    const { registry, steps } = rackWith(
      ({ call }) => call("echo"),
      () => false,
    );
    registry.register(
      Tool.define({
        name: "outer",
        parameters: none,
        metadata: { timeout: 50 },
        execute: async ({ call }) => call("looping"),
      }),
    );
    expect((await registry.execute("outer", {})).error?.code).toBe("timed_out");
    expect(steps()).toBeLessThan(MOST);
    expect(registry.activeCalls()).toEqual([]);
  });

  it.each<[string, (context: ToolContext) => Promise<unknown>]>([
    ["are answered", ({ call }) => call("echo")],
    ["fail", ({ call }) => call("missing").catch(() => {})],
    ["are refused before they begin", ({ call, callId }) => call("echo", {}, taken(callId)).catch(() => {})],
    ["are made through the registry", ({ registry }) => registry.execute("echo", {})],
    ["are made all at once", ({ call }) => Promise.all(Array.from({ length: 5 }, () => call("echo")))],
  ])("lets timers have their turn while its calls %s", async (_, step) => {
    const rang = alarm();
    const { registry } = rackWith(step, rang);
    await registry.execute("looping", {});
    expect(rang()).toBe(true);
  });

  it("lets timers have their turn when it goes on after its end", async () => {
    const rang = alarm();
    const { registry, steps } = rackWith(({ call }) => call("echo").catch(() => {}), rang);
    await registry.execute("looping", {}, { timeout: 1 });
    await vi.waitFor(() => expect(rang()).toBe(true));
    expect(steps()).toBeLessThan(MOST);
  });

  it("lets timers have their turn between calls that it makes all at once, and ends at its limit", async () => {
    let begun = 0;
    const registry = new ToolRegistry({ historyLimit: 2_000 });
    registry.register(
      Tool.define({
        name: "slow",
        parameters: none,
        execute: () => {
          begun++;
          const end = performance.now() + 1;
          while (performance.now() < end);
        },
      }),
    );
    registry.register(
      Tool.define({
        name: "many",
        parameters: none,
        metadata: { timeout: 50 },
        execute: ({ call }) => Promise.all(Array.from({ length: 1_000 }, () => call("slow"))),
      }),
    );
    expect((await registry.execute("many", {})).error?.code).toBe("timed_out");
    expect(begun).toBeGreaterThan(0);
    // Without a turn in between, the calls that were refused are answered before the tool is.
    expect(registry.getCallHistory().length).toBeLessThan(1_000);
  });

  it("is slowed down when it goes on making calls after its end", async () => {
    const rang = alarm();
    const { registry, steps } = rackWith(
      ({ call }) => call("echo").catch(() => {}),
      () => false,
    );
    await registry.execute("looping", {}, { timeout: 1 });
    const before = steps();
    await vi.waitFor(() => expect(rang()).toBe(true));
    expect(steps() - before).toBeLessThan(50);
  });

  it("hands over some times a second, not with every call", async () => {
    let turns = 0;
    let isOver = false;
    const count = () => {
      turns++;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    // On a busy machine the time between two steps may be longer than calls may go on without a turn.
    let now = performance.now();
    const clock = vi.spyOn(performance, "now").mockImplementation(() => (now += 0.01));
    const { registry, steps } = rackWith(
      ({ call }) => call("echo"),
      () => turns >= 5,
    );
    await registry.execute("looping", {}).finally(() => clock.mockRestore());
    isOver = true;
    expect(turns).toBeGreaterThanOrEqual(5);
    expect(steps()).toBeGreaterThan(turns);
  });
});
