import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { Tool, ToolRegistry } from "../index.ts";

const none = z.object({});

describe("ctx.call", () => {
  it("makes a child in the same session that names its parent as caller", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "inner",
        parameters: none,
        execute: async ({ sessionID, caller }) => ({ sessionID, caller }),
      }),
    );
    registry.register(
      Tool.define({
        name: "outer",
        parameters: none,
        execute: async ({ call }) => (await call("inner")).structured,
      }),
    );
    const result = await registry.execute("outer", {}, { callId: "p", sessionID: "s", tid: "task-1" });
    expect(result.structured).toEqual({ sessionID: "s", caller: "outer_p" });
    expect(registry.getCallHistory(10)).toMatchObject([
      { toolName: "inner", parentCallId: "p", depth: 1, sessionID: "s", tid: "task-1" },
      { toolName: "outer", callId: "p", depth: 0 },
    ]);
  });

  it("rejects with the child's error, which becomes the cause of the parent's", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "inner",
        parameters: none,
        execute: async () => ({ success: false, error: "no paper" }),
      }),
    );
    registry.register(
      Tool.define({ name: "outer", parameters: none, execute: async ({ call }) => call("inner") }),
    );
    const result = await registry.execute("outer", {});
    expect(result.error).toMatchObject({
      code: "execution_failed",
      details: { toolName: "outer", cause: "no paper", causeCode: "execution_failed" },
    });
    expect(registry.getCallHistory(10).map((record) => record.status)).toEqual(["error", "error"]);
  });

  it("lets the parent handle the failure", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "outer",
        parameters: none,
        execute: async ({ call }) => call("missing").catch((error) => error.code),
      }),
    );
    expect((await registry.execute("outer", {})).content).toBe("tool_not_found");
  });

  it("hands down the caller's permissions and never more", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "guarded",
        parameters: none,
        metadata: { permissions: ["file:read"] },
        execute: async () => "secret",
      }),
    );
    registry.register(
      Tool.define({
        name: "outer",
        parameters: none,
        execute: async ({ call }) => call("guarded", {}, { permissions: ["*"] } as never),
      }),
    );
    expect((await registry.execute("outer", {}, { permissions: ["file:*"] })).content).toBe("secret");
    const refused = await registry.execute("outer", {});
    expect(refused.error?.details).toMatchObject({ causeCode: "permission_denied" });
  });

  it("does not hand down the secrets of the parent", async () => {
    const registry = new ToolRegistry();
    registry.register(Tool.define({ name: "inner", parameters: none, execute: async ({ env }) => env }));
    registry.register(
      Tool.define({
        name: "outer",
        parameters: none,
        execute: async ({ call, env }) => [env, (await call("inner")).structured],
      }),
    );
    const result = await registry.execute("outer", {}, { env: { KEY: "k" } });
    expect(result.structured).toEqual([{ KEY: "k" }, {}]);
  });

  it("gives the child no more time than the parent has left", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "endless",
        parameters: none,
        metadata: { timeout: 60_000 },
        execute: () => new Promise(() => {}),
      }),
    );
    registry.register(
      Tool.define({
        name: "outer",
        parameters: none,
        metadata: { timeout: 40 },
        execute: async ({ call }) => call("endless"),
      }),
    );
    const result = await registry.execute("outer", {});
    expect(result.error?.code).toBe("timed_out");
    const inner = registry.getCallHistory(10).find((record) => record.toolName === "endless");
    expect(["timed_out", "cancelled"]).toContain(inner?.error?.code);
  });

  it("cancels the children of a cancelled call and aborts their signals", async () => {
    let childSignal: AbortSignal | undefined;
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "inner",
        parameters: none,
        execute: ({ signal }) => {
          childSignal = signal;
          return new Promise(() => {});
        },
      }),
    );
    registry.register(
      Tool.define({ name: "outer", parameters: none, execute: async ({ call }) => call("inner") }),
    );
    const call = registry.execute("outer", {}, { callId: "p" });
    await vi.waitFor(() => expect(childSignal).toBeDefined());
    registry.cancel("p");
    expect((await call).error?.code).toBe("cancelled");
    expect(childSignal?.aborted).toBe(true);
    expect(registry.activeCalls()).toEqual([]);
  });

  it("ends children that nobody waited for when the parent ends, however it ends", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({ name: "endless", parameters: none, execute: () => new Promise(() => {}) }),
    );
    for (const [name, finish] of [
      ["completes", () => "done"],
      [
        "throws",
        () => {
          throw new Error("no");
        },
      ],
    ] as const) {
      registry.register(
        Tool.define({
          name,
          parameters: none,
          execute: async ({ call }) => {
            call("endless");
            return finish();
          },
        }),
      );
      await registry.execute(name, {});
      expect(registry.activeCalls()).toEqual([]);
    }
    const ended = registry.getCallHistory(9).filter((record) => record.toolName === "endless");
    expect(ended.map((record) => record.error?.code)).toEqual(["cancelled", "cancelled"]);
  });

  it("a tool that calls itself fails as the caller of the call that failed", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "self",
        parameters: z.object({ depth: z.number() }),
        execute: async ({ input, call }) => {
          if (input.depth === 1) throw new Error("deep down");
          return call("self", { depth: 1 });
        },
      }),
    );
    const { error } = await registry.execute("self", { depth: 0 });
    expect(error).toMatchObject({ details: { input: { depth: 0 }, cause: "deep down" } });
  });

  it("is limited in depth", async () => {
    const registry = new ToolRegistry({ maxDepth: 4 });
    let deepest = 0;
    registry.register(
      Tool.define({
        name: "again",
        parameters: z.object({ depth: z.number() }),
        execute: async ({ input, call }) => {
          deepest = input.depth;
          return call("again", { depth: input.depth + 1 });
        },
      }),
    );
    const result = await registry.execute("again", { depth: 0 });
    expect(deepest).toBe(4);
    expect(result.content).toContain("nested 4 deep");
  });

  it("refuses to start once the call that makes it has ended", async () => {
    const registry = new ToolRegistry();
    let late: (() => Promise<unknown>) | undefined;
    registry.register(Tool.define({ name: "inner", parameters: none, execute: async () => "ran" }));
    registry.register(
      Tool.define({
        name: "outer",
        parameters: none,
        execute: async ({ call }) => {
          late = () => call("inner");
          return "done";
        },
      }),
    );
    await registry.execute("outer", {});
    await expect(late?.()).rejects.toMatchObject({ code: "cancelled" });
  });

  it("gains no rights through a registry that a tool kept after its call was forgotten", async () => {
    const registry = new ToolRegistry({ historyLimit: 1, permissions: ["*"] });
    registry.register(
      Tool.define({
        name: "guarded",
        parameters: none,
        metadata: { permissions: ["p"] },
        execute: async () => "secret",
      }),
    );
    let kept: Tool.Context["registry"] | undefined;
    registry.register(
      Tool.define({
        name: "keeper",
        parameters: none,
        execute: async (context) => {
          kept = context.registry;
          return "ok";
        },
      }),
    );
    await registry.execute("keeper", {}, { callId: "k", permissions: [] });
    for (let turn = 0; turn < 3; turn++) await registry.execute("guarded", {});
    expect((await kept?.execute("guarded"))?.error?.code).toBe("cancelled");
    expect((await registry.executeChild("k", "guarded", {})).error?.code).toBe("cancelled");
  });

  it("executeDetached goes on for a call that has ended, with its rights and no more", async () => {
    const registry = new ToolRegistry({ permissions: ["*"] });
    registry.register(
      Tool.define({ name: "open", parameters: none, execute: async ({ sessionID }) => sessionID }),
    );
    registry.register(
      Tool.define({
        name: "guarded",
        parameters: none,
        metadata: { permissions: ["p"] },
        execute: async () => "in",
      }),
    );
    const kept: Tool.Context[] = [];
    registry.register(
      Tool.define({ name: "t", parameters: none, execute: async (context) => void kept.push(context) }),
    );
    await registry.execute("t", {}, { permissions: [], sessionID: "s" });
    const [context] = kept;
    expect((await registry.executeDetached(context!, "open", {}, { caller: "t_timer" })).content).toBe("s");
    expect((await registry.executeDetached(context!, "guarded")).error?.code).toBe("permission_denied");
    expect((await registry.executeDetached({}, "guarded")).error?.code).toBe("permission_denied");
    expect(registry.getCallHistory(9).find((record) => record.toolName === "open")).toMatchObject({
      caller: "t_timer",
      depth: 0,
    });
  });

  it("passes whole results between tools, however long they are", async () => {
    const registry = new ToolRegistry({ maxContent: 100 });
    registry.register(
      Tool.define({ name: "inner", parameters: none, execute: async () => "y".repeat(5000) }),
    );
    registry.register(
      Tool.define({
        name: "outer",
        parameters: none,
        execute: async ({ call }) => (await call("inner")).content.length,
      }),
    );
    expect((await registry.execute("outer", {})).content).toBe("5000");
    const inner = registry.getCallHistory(1);
    expect(inner).toHaveLength(1);
  });

  it("ctx.registry reads one moment and its calls are children too", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "inner",
        parameters: none,
        metadata: { tags: ["t"], category: "c" },
        execute: async () => "in",
      }),
    );
    registry.register(
      Tool.define({
        name: "outer",
        parameters: none,
        execute: async ({ registry: rack }) => {
          const { content } = await rack.execute("inner");
          const failed = await rack.execute("nope");
          return [
            content,
            failed.type,
            rack.get("inner")?.name,
            rack.getAll().length,
            rack.list("c").length,
            rack.findByTag("t").length,
            rack.search("inner")[0]?.name,
            rack.getStats().totalTools,
          ];
        },
      }),
    );
    const result = await registry.execute("outer", {}, { callId: "p" });
    expect(result.structured).toEqual(["in", "error", "inner", 2, 1, 1, "inner", 2]);
    expect(registry.getCallHistory(3)[0]).toMatchObject({ toolName: "inner", parentCallId: "p" });
  });
});
