import { describe, expect, it } from "vitest";
import { type RackEvent, Tool, ToolRegistry } from "../../index.ts";

describe("run", () => {
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
