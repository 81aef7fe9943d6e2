import { describe, expect, it } from "vitest";
import { Tool, ToolRegistry } from "../../index.ts";

describe("a limit of the caller", () => {
  const rack = (calls?: readonly string[]) => {
    const registry = new ToolRegistry();
    registry.register(Tool.define({ name: "inner", parameters: {}, execute: async () => "reached" }));
    registry.register(
      Tool.define({
        name: "outer",
        parameters: {},
        ...(calls === undefined ? {} : { metadata: { calls } }),
        execute: async ({ call }) => (await call("inner")).content,
      }),
    );
    return registry;
  };
  const only = (name: string) => ({ allow: (tool: Tool.Info) => tool.name === name });

  it("keeps other tools out, and says so", async () => {
    const refused = await rack().execute("inner", {}, only("outer"));
    expect(refused.error?.code).toBe("permission_denied");
    expect(refused.content).toContain("not among those that this caller may use");
  });

  it("shows nothing of such a tool, whatever the arguments", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "picky",
        parameters: { type: "object", properties: { hidden: { type: "number" } }, required: ["hidden"] },
        execute: async () => "reached",
      }),
    );
    const refused = await registry.execute("picky", {}, only("outer"));
    expect(refused.error?.code).toBe("permission_denied");
    expect(refused.content).not.toContain("hidden");
  });

  it("holds for what a tool calls in turn", async () => {
    const refused = await rack().execute("outer", {}, only("outer"));
    expect(refused.type).toBe("error");
    expect(refused.content).toContain('"outer" wanted to call "inner"');
  });

  it("keeps other tools out of sight of the tools that run", async () => {
    const registry = rack();
    registry.register(
      Tool.define({
        name: "looks",
        parameters: {},
        execute: async ({ registry: seen }) => ({
          got: seen.get("inner")?.name ?? null,
          all: seen.getAll().map((info) => info.name),
          found: seen.search("inner").map((info) => info.name),
        }),
      }),
    );
    const limited = await registry.execute("looks", {}, only("looks"));
    expect(limited.structured).toEqual({ got: null, all: ["looks"], found: [] });
    const whole = await registry.execute("looks", {});
    expect(whole.structured).toMatchObject({ got: "inner", found: ["inner"] });
  });

  it("does not hold for what a tool says that it calls for everybody", async () => {
    expect((await rack(["inn*"]).execute("outer", {}, only("outer"))).content).toBe("reached");
    expect((await rack(["other"]).execute("outer", {}, only("outer"))).type).toBe("error");
  });

  it("still holds for a call that is made when the first has ended", async () => {
    const registry = rack();
    let late: Promise<Tool.Result> | undefined;
    registry.register(
      Tool.define({
        name: "later",
        parameters: {},
        execute: async (context) => {
          late = Promise.resolve().then(() => registry.executeDetached(context, "inner", {}));
          return "done";
        },
      }),
    );
    await registry.execute("later", {}, only("later"));
    expect((await late)?.error?.code).toBe("permission_denied");
    await registry.execute("later", {});
    expect((await late)?.content).toBe("reached");
  });
});
