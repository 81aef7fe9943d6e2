import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type CallClient, Tool, ToolRegistry } from "../index.ts";

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

  it("says what to do when the caller cannot be asked", async () => {
    const registry = new ToolRegistry();
    registry.register(asks);
    const result = await registry.execute("asks");
    expect(result.type).toBe("error");
    expect(result.content).toContain("this caller cannot be asked");
  });
});
