import { describe, expect, it } from "vitest";
import { type CallMock, Tool, ToolRegistry } from "../../index.ts";

const ran: string[] = [];

const inner = Tool.define({
  name: "inner",
  parameters: { type: "object", properties: { n: { type: "integer", default: 1 } } },
  execute: ({ input }) => {
    ran.push("inner");
    return { n: input.n };
  },
});
const outer = Tool.define({
  name: "outer",
  parameters: { type: "object" },
  execute: async ({ call }) => (await call("inner", {})).content,
});
const deadly = Tool.define({
  name: "deadly",
  parameters: { type: "object" },
  metadata: { dangerous: true },
  execute: () => "done",
});

function registryWith(...tools: Parameters<ToolRegistry["register"]>[0][]): ToolRegistry {
  const registry = new ToolRegistry();
  for (const tool of tools) registry.register(tool);
  return registry;
}

describe("a mock", () => {
  it("answers calls of the whole chain in place of their tools, with validated arguments", async () => {
    const registry = registryWith(inner, outer);
    const asked: unknown[] = [];
    const mock: CallMock = {
      answer({ tool, input, depth }) {
        asked.push([tool.name, input, depth]);
        return depth === 0 ? undefined : () => "recorded";
      },
    };
    ran.length = 0;
    expect((await registry.execute("outer", {}, { mock })).content).toBe("recorded");
    expect(ran).toEqual([]);
    expect(asked).toEqual([
      ["outer", {}, 0],
      ["inner", { n: 1 }, 1],
    ]);
    const [child, parent] = registry.getCallHistory();
    expect(child?.flags).toEqual({ mocked: true });
    expect(parent?.flags).toBeUndefined();
  });

  it("stands in for every call of a registry that was made with it", async () => {
    const registry = new ToolRegistry({ mock: { answer: () => () => ({ n: 7 }) } });
    registry.register(inner);
    expect((await registry.execute("inner", {})).structured).toEqual({ n: 7 });
  });

  it("does not stand in for the checks around the tool", async () => {
    const registry = registryWith(inner);
    const mock: CallMock = { answer: () => () => "recorded" };
    const refused = await registry.execute("inner", { n: "many" }, { mock });
    expect(refused.error?.code).toBe("invalid_arguments");
    registry.update("inner", { outputSchema: { type: "object", required: ["n"] } });
    const misfit = await registry.execute("inner", {}, { mock });
    expect(misfit.error?.code).toBe("execution_failed");
    expect((await registry.execute("inner", {}, { mock, allow: () => false })).error?.code).toBe(
      "permission_denied",
    );
  });

  it("fails the call as the tool would, or refuses it", async () => {
    const registry = registryWith(inner);
    const failing: CallMock = {
      answer: () => () => {
        throw new Error("no rate");
      },
    };
    expect((await registry.execute("inner", {}, { mock: failing })).content).toContain("no rate");
    const refusing: CallMock = {
      answer() {
        throw new Error("not recorded");
      },
    };
    ran.length = 0;
    const refused = await registry.execute("inner", {}, { mock: refusing });
    expect(refused.content).toContain("not recorded");
    expect(ran).toEqual([]);
  });

  it("has a word of its own on approvals", async () => {
    const registry = registryWith(deadly);
    expect((await registry.execute("deadly", {})).error?.code).toBe("approval_denied");
    const mock: CallMock = { answer: () => undefined, approval: { decide: () => "allow" } };
    expect((await registry.execute("deadly", {}, { mock })).content).toBe("done");
  });
});
