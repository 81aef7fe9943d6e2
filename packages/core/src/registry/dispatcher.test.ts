import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Tool, ToolRegistry } from "../index.ts";
import { ToolDispatcher } from "./dispatcher.ts";

const add = Tool.define({
  name: "add",
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ input, sessionID }) => `${input.a + input.b}${sessionID}`,
});

describe("ToolDispatcher", () => {
  it("registers, finds, lists and unregisters through its registry", () => {
    const dispatcher = new ToolDispatcher();
    dispatcher.registerTool(add);
    expect(dispatcher.getTool("ADD")?.name).toBe("add");
    expect(dispatcher.listTools().map((info) => info.name)).toEqual(["add"]);
    expect(dispatcher.registry.get("add")).toBe(dispatcher.getTool("add"));
    expect(dispatcher.unregisterTool("add")).toBe(true);
    expect(dispatcher.unregisterTool("add")).toBe(false);
  });

  it("dispatch answers with an observation, for failures too", async () => {
    const dispatcher = new ToolDispatcher();
    dispatcher.registerTool(add);
    const seen = await dispatcher.dispatch("Add", { a: 1, b: 2 });
    expect(seen).toMatchObject({ toolName: "add", status: "success", content: "3" });
    expect(seen.duration).toBeGreaterThanOrEqual(0);
    const failed = await dispatcher.dispatch("subtract", {});
    expect(failed).toMatchObject({
      toolName: "subtract",
      status: "error",
      error: { code: "tool_not_found" },
    });
  });

  it("executeWithContext takes over what the context says", async () => {
    const dispatcher = new ToolDispatcher();
    dispatcher.registerTool(add);
    const result = await dispatcher.executeWithContext(
      "add",
      { a: 1, b: 2 },
      { sessionID: "s", callId: "mine" },
    );
    expect(result.content).toBe("3s");
    expect(dispatcher.registry.getState("mine")?.status).toBe("completed");
  });

  it("executeWithContext gains no rights, whatever was done to the context", async () => {
    const dispatcher = new ToolDispatcher(new ToolRegistry({ permissions: ["*"], historyLimit: 1 }));
    dispatcher.registerTool(
      Tool.define({
        name: "priv",
        parameters: {},
        metadata: { permissions: ["root"] },
        execute: async () => "secret",
      }),
    );
    const kept: Tool.Context[] = [];
    dispatcher.registerTool(
      Tool.define({
        name: "outer",
        parameters: {},
        execute: async (context) => {
          kept.push(context);
          const copies = [context, { ...context }, Object.create(context)];
          const results = await Promise.all(
            copies.map((copy) => dispatcher.executeWithContext("priv", {}, copy)),
          );
          return results.map((result) => result.error?.code);
        },
      }),
    );
    const result = await dispatcher.registry.execute("outer", {}, { permissions: [] });
    expect(result.structured).toEqual(["permission_denied", "permission_denied", "permission_denied"]);
    await dispatcher.dispatch("nothing");
    expect((await dispatcher.executeWithContext("priv", {}, kept[0]!)).error?.code).toBe("cancelled");
  });

  it("executeWithContext of a call under way makes a child of it", async () => {
    const dispatcher = new ToolDispatcher();
    dispatcher.registerTool(add);
    dispatcher.registerTool(
      Tool.define({
        name: "outer",
        parameters: z.object({}),
        execute: async (context) => dispatcher.executeWithContext("add", { a: 1, b: 1 }, context),
      }),
    );
    await dispatcher.registry.execute("outer", {}, { callId: "p" });
    expect(dispatcher.registry.getCallHistory(2)[0]).toMatchObject({ toolName: "add", parentCallId: "p" });
  });

  it("executeWithContext takes over what was changed in a copy of the context, but no permissions", async () => {
    const dispatcher = new ToolDispatcher(new ToolRegistry({ permissions: [] }));
    const told: string[] = [];
    const seen: Record<string, unknown>[] = [];
    dispatcher.registerTool(
      Tool.define({
        name: "inner",
        parameters: {},
        execute: async (context) => {
          seen.push({ ...context });
          context.metadata({ title: "inner works" });
          context.logger.info("a line");
          return "done";
        },
      }),
    );
    dispatcher.registerTool(
      Tool.define({
        name: "outer",
        parameters: {},
        execute: async (context) => {
          const own = new AbortController();
          const changed = {
            ...context,
            callId: "mine",
            sessionID: "other",
            messageID: "m2",
            caller: "somebody",
            agent: "planner",
            extra: { n: 1 },
            permissions: ["*"],
            signal: own.signal,
            metadata: ({ title }: { title?: string }) => void (title && told.push(title)),
          };
          await dispatcher.executeWithContext("inner", {}, changed);
          own.abort();
          const stopped = await dispatcher.executeWithContext(
            "inner",
            {},
            { ...context, signal: own.signal },
          );
          await dispatcher.executeWithContext("inner", {}, { ...context });
          return stopped.error?.code;
        },
      }),
    );
    const result = await dispatcher.registry.execute("outer", {}, { callId: "p", sessionID: "s" });
    expect(result.content).toBe("cancelled");
    expect(seen[0]).toMatchObject({
      callId: "mine",
      sessionID: "other",
      messageID: "m2",
      caller: "somebody",
      agent: "planner",
      extra: { n: 1 },
    });
    expect(told).toContain("inner works");
    expect(seen[1]).toMatchObject({ sessionID: "s" });
    expect(seen[1]?.callId).not.toBe("p");
    expect(dispatcher.registry.getState("p")?.title).toBeUndefined();
    expect(dispatcher.registry.getCallHistory(10).map(({ parentCallId }) => parentCallId)).toEqual([
      "p",
      "p",
      "p",
      undefined,
    ]);
  });
});
