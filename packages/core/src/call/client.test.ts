import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { Tool, ToolRegistry } from "../index.ts";
import type { CallClient } from "../tool/types.ts";

function person(answer: (params: Record<string, unknown>) => unknown): CallClient & { told: unknown[] } {
  const told: unknown[] = [];
  return {
    told,
    name: "person 1.0",
    can: (method) => method === "elicitation/create",
    request: async (_method, params) => answer(params as Record<string, unknown>),
    notify: (method, params) => void told.push({ method, params }),
  };
}

describe("ctx.elicit", () => {
  const asks = Tool.define({
    name: "asks",
    parameters: {},
    metadata: { timeout: 60 },
    execute: async ({ elicit }) => {
      const schema = { type: "object", properties: { name: { type: "string" } } };
      return await elicit({ message: "Who are you?", schema });
    },
  });

  it("asks whoever made the call, and waits without the time limit", async () => {
    const registry = new ToolRegistry();
    registry.register(asks);
    const client = person(async ({ message, requestedSchema }) => {
      await wait(150);
      return {
        action: "accept",
        content: { message, fields: Object.keys((requestedSchema as { properties: object }).properties) },
      };
    });
    const result = await registry.execute("asks", {}, { client });
    expect(result.structured).toEqual({
      action: "accept",
      content: { message: "Who are you?", fields: ["name"] },
    });
  });

  it("reaches the caller from a call deep in a chain", async () => {
    const registry = new ToolRegistry();
    registry.register(asks);
    registry.register(
      Tool.define({
        name: "outer",
        parameters: {},
        execute: async ({ call, client }) => {
          client?.notify("notifications/message", { level: "info", data: "asking" });
          return (await call("asks")).structured;
        },
      }),
    );
    const client = person(() => ({ action: "decline" }));
    expect((await registry.execute("outer", {}, { client })).structured).toEqual({ action: "decline" });
    expect(client.told).toEqual([
      { method: "notifications/message", params: { level: "info", data: "asking" } },
    ]);
  });

  it("can be asked with nothing but the name of the question, which ends with the call", async () => {
    const registry = new ToolRegistry();
    const given: unknown[] = [];
    const client: CallClient = {
      ...person(() => undefined),
      request: async (...asked) => {
        given.push(...asked);
        return { roots: [] };
      },
    };
    registry.register(
      Tool.define({
        name: "roots",
        parameters: {},
        execute: async ({ client: caller, signal }) => {
          given.push(signal);
          return await caller?.request("roots/list");
        },
      }),
    );
    expect((await registry.execute("roots", {}, { client })).structured).toEqual({ roots: [] });
    expect(given).toEqual([given[0], "roots/list", {}, given[0]]);
  });

  it("tells listeners of every call of the chain that waits, and of two questions at once only once", async () => {
    const registry = new ToolRegistry();
    const seen: unknown[] = [];
    registry.subscribe((event) => {
      if (event.type === "waiting") seen.push([event.toolName, event.isWaiting]);
    });
    registry.register(
      Tool.define({
        name: "twice",
        parameters: {},
        execute: async ({ elicit }) => (await Promise.all([elicit("One?"), elicit("Other?")])).length,
      }),
    );
    registry.register(
      Tool.define({
        name: "outer",
        parameters: {},
        execute: async ({ call }) => (await call("twice")).content,
      }),
    );
    const client = person(() => ({ action: "decline" }));
    expect((await registry.execute("outer", {}, { client })).content).toBe("2");
    expect(seen).toEqual([
      ["twice", true],
      ["outer", true],
      ["twice", false],
      ["outer", false],
    ]);
  });

  it("says what to do when the caller cannot be asked", async () => {
    const registry = new ToolRegistry();
    registry.register(asks);
    const result = await registry.execute("asks");
    expect(result.type).toBe("error");
    expect(result.content).toContain("this caller cannot be asked");
  });
});
