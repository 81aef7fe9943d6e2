import { describe, expect, it } from "vitest";
import { Tool, ToolRegistry } from "../../index.ts";

const tool = (name: string) => Tool.define({ name, parameters: {}, execute: async () => name });

describe("resolve", () => {
  it("finds by name, alias and case, and records the canonical name", async () => {
    const registry = new ToolRegistry();
    registry.register({ ...tool("read_file"), aliases: ["skill.read"] });
    for (const name of ["read_file", "Read_File", "skill.read"]) await registry.execute(name);
    expect(registry.getCallHistory(3).map((record) => record.toolName)).toEqual([
      "read_file",
      "read_file",
      "read_file",
    ]);
  });

  it("refuses an unknown name with the nearest ones, however long it is", async () => {
    const registry = new ToolRegistry();
    for (const name of ["read_file", "write_file"]) registry.register(tool(name));
    expect((await registry.execute("readFile")).content).toContain('"read_file"');
    const long = await registry.execute("x".repeat(100_000));
    expect(long.content.length).toBeLessThan(1_000);
    expect((await registry.execute("constructor")).error?.code).toBe("tool_not_found");
    expect((await registry.execute("__proto__")).error?.code).toBe("tool_not_found");
  });
});
