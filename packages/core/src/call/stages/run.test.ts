import { describe, expect, it } from "vitest";
import { type RackEvent, Tool, ToolRegistry } from "../../index.ts";

describe("run", () => {
  it("gives a context that can be spread: every member is in the copy, and works there", async () => {
    const registry = new ToolRegistry();
    const copies: Tool.Context[] = [];
    registry.register(Tool.define({ name: "add", parameters: {}, execute: async () => "3" }));
    registry.register(
      Tool.define({
        name: "t",
        parameters: { type: "object", properties: { a: { type: "number" } } },
        execute: async (context) => {
          const { callId: _, ...rest } = context;
          copies.push({ ...context }, Object.assign({ callId: "" }, rest));
          copies[0]!.metadata({ title: "from the copy" });
          return (await copies[0]!.call("add", {})).content + copies[0]!.registry.list().length;
        },
      }),
    );
    const options = { callId: "c", sessionID: "s", messageID: "m", caller: "me" };
    expect((await registry.execute("t", { a: 1 }, options)).content).toBe("32");
    expect(copies[0]).toMatchObject({ ...options, input: { a: 1 }, tool: { name: "t" }, callID: "c" });
    expect(copies[0]?.signal).toBe(copies[0]?.abort);
    expect(copies[1]).toMatchObject({ callId: "", sessionID: "s", input: { a: 1 } });
    expect(registry.getState("c")?.title).toBe("from the copy");
  });

  it("keeps in the copy what the tool wrote into its context", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "t",
        parameters: {},
        execute: (context) => ({ ...Object.assign(context, { input: { a: 2 }, note: "mine" }) }),
      }),
    );
    const { structured } = await registry.execute("t", {}, { sessionID: "s" });
    expect(structured).toMatchObject({ input: { a: 2 }, note: "mine", sessionID: "s" });
  });

  it("spreads the rest of a context whose other members were taken out in the parameter", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "t",
        parameters: {},
        execute: async ({ input, ...rest }) => [input, rest.sessionID, typeof rest.call],
      }),
    );
    const { structured } = await registry.execute("t", {}, { sessionID: "s" });
    expect(structured).toEqual([{}, "s", "function"]);
  });

  it.each<[string, Tool.Config["execute"]]>([
    ["an arrow function", (ctx) => ({ ...ctx })],
    // biome-ignore format: a parameter without brackets is the case.
    ["an arrow function without brackets", ctx => ({ ...ctx })],
    ["a function that reads members too", async (context) => (context.input.a ? "" : { ...context })],
    ["arguments", new Function("return { ...arguments[0] }") as () => unknown],
    ["a bound function", ((ctx: Tool.Context) => ({ ...ctx })).bind(undefined)],
    ["another function", (ctx) => [ctx].map((one) => ({ ...one }))[0]],
    ["a parameter with a sign", ($ctx) => ({ ...$ctx })],
  ])("gives a context that can be spread to %s, with and without settings", async (_, execute) => {
    for (const environment of [undefined, async () => ({ KEY: "value" })]) {
      const registry = new ToolRegistry({ environment });
      registry.register(Tool.define({ name: "t", parameters: {}, execute }));
      const { structured } = await registry.execute("t", {}, { sessionID: "s" });
      expect(structured).toMatchObject({ sessionID: "s", env: (await environment?.()) ?? {} });
    }
  });

  it("notes a tool that ended after its limit, because nothing could stop it", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "busy",
        parameters: {},
        metadata: { timeout: 20 },
        execute: () => {
          const end = performance.now() + 60;
          while (performance.now() < end);
          return "done";
        },
      }),
    );
    const result = await registry.execute("busy");
    expect(result).toMatchObject({ content: "done", metadata: { overran: { limit: 20 } } });
    expect(registry.getCallHistory(1)[0]?.flags).toMatchObject({ overran: { limit: 20 } });
  });

  it("gives the tool everything that the context promises, destructured or not", async () => {
    const registry = new ToolRegistry();
    const seen: Record<string, unknown> = {};
    registry.register(
      Tool.define({
        name: "t",
        parameters: { type: "object", properties: { a: { type: "number" } } },
        execute: async (context) => {
          const {
            callId,
            input,
            sessionID,
            messageID,
            signal,
            tool,
            caller,
            env,
            idempotencyKey,
            agent,
            directory,
            worktree,
            extra,
          } = context;
          Object.assign(seen, {
            callId,
            input,
            sessionID,
            messageID,
            caller,
            env,
            agent,
            directory,
            worktree,
            extra,
            tool: tool.name,
          });
          Object.assign(seen, {
            aborted: signal.aborted,
            same: context.abort === signal,
            id: context.callID,
            key: idempotencyKey.length,
          });
          Object.assign(seen, { messages: context.messages });
          context.logger.info("hello");
          return "";
        },
      }),
    );
    const lines: unknown[] = [];
    const say = (...values: unknown[]) => void lines.push(values);
    await registry.execute(
      "t",
      { a: 1 },
      {
        callId: "c",
        sessionID: "s",
        messageID: "m",
        caller: "me",
        env: { K: "v" },
        agent: "build",
        directory: "/d",
        messages: [1],
        extra: { x: 1 },
        logger: { debug: say, info: say, warn: say, error: say },
      },
    );
    expect(seen).toEqual({
      callId: "c",
      input: { a: 1 },
      sessionID: "s",
      messageID: "m",
      caller: "me",
      env: { K: "v" },
      agent: "build",
      directory: "/d",
      worktree: "/d",
      extra: { x: 1 },
      tool: "t",
      aborted: false,
      same: true,
      id: "c",
      key: 16,
      messages: [1],
    });
    expect(lines).toEqual([["hello"]]);
  });

  it("the idempotency key is the same for the same call and differs for another", async () => {
    const keys: string[] = [];
    for (const [callId, a] of [
      ["c", 1],
      ["c", 1],
      ["d", 1],
      ["c", 2],
    ] as const) {
      const registry = new ToolRegistry();
      registry.register(
        Tool.define({
          name: "t",
          parameters: { properties: { a: {} } },
          execute: async ({ idempotencyKey }) => void keys.push(idempotencyKey),
        }),
      );
      await registry.execute("t", { a }, { callId });
    }
    expect(keys[0]).toBe(keys[1]);
    expect(new Set(keys).size).toBe(3);
  });

  it("reports progress to listeners", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "t",
        parameters: {},
        execute: async ({ progress }) => {
          progress(1, 3, "one");
          progress({ progress: 3 });
          return "";
        },
      }),
    );
    const seen: RackEvent[] = [];
    registry.subscribe((event) => seen.push(event));
    await registry.execute("t", {}, { callId: "c" });
    const updates = seen.flatMap((event) => (event.type === "progress" ? [event.update] : []));
    expect(updates).toEqual([{ progress: 1, total: 3, message: "one" }, { progress: 3 }]);
  });

  it("takes a thenable for a promise", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "t",
        parameters: {},
        // biome-ignore lint/suspicious/noThenProperty: that is what is tested.
        execute: () => ({ then: (resolve: (value: string) => void) => resolve("then") }),
      }),
    );
    expect((await registry.execute("t", {})).content).toBe("then");
  });
});
