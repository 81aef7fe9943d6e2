import { describe, expect, it } from "vitest";
import { Tool, ToolRegistry } from "../../index.ts";
import { toMcpResult } from "../../tool/mcp-result.ts";

async function run(value: unknown, settings = {}) {
  const registry = new ToolRegistry({ maxContent: 1_000, ...settings });
  registry.register(Tool.define({ name: "t", parameters: {}, execute: async () => value }));
  return { registry, result: await registry.execute("t", {}, { callId: "c" }) };
}

describe("bound", () => {
  it("leaves what fits alone", async () => {
    expect((await run("x".repeat(1_000))).result.content).toHaveLength(1_000);
  });

  it("shows both ends, says what is missing and where to read on", async () => {
    const text = `${"a".repeat(5_000)}${"z".repeat(5_000)}`;
    const { result, registry } = await run(text);
    expect(result.content).toMatch(
      /^a{700}\n… 9000 characters left out here: .*kept as call c; read on from offset 700 …\nz{300}$/,
    );
    expect(result.metadata?.truncated).toEqual({ total: 10_000, head: 700, tail: 9_700, callId: "c" });
    const pages: string[] = [];
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const page: { text: string; nextOffset?: number } | undefined = registry.readResult("c", {
        offset,
        limit: 3_000,
      });
      pages.push(page!.text);
      offset = page!.nextOffset;
    }
    expect(pages.join("")).toBe(text);
    expect(registry.getCallHistory(1)[0]?.flags).toMatchObject({ truncated: true });
  });

  it("never cuts a character in half", async () => {
    const { result } = await run("😀".repeat(2_000), { maxContent: 1_001 });
    expect(result.content.isWellFormed()).toBe(true);
  });

  it("cuts MCP text blocks as well and keeps the others", async () => {
    const link = { type: "resource_link", uri: "file:///x", name: "x" };
    const { result } = await run({
      content: [{ type: "text", text: "y".repeat(5_000), annotations: { priority: 1 } }, link],
    });
    const sizes = result.blocks?.map((block) => String(block.text ?? "").length) ?? [];
    expect(Math.max(...sizes)).toBeLessThan(1_500);
    expect(result.blocks).toContainEqual(link);
  });

  it("counts a call id that is used again once", async () => {
    const registry = new ToolRegistry({ maxContent: 100, keptResults: 2_500, historyLimit: 1 });
    registry.register(Tool.define({ name: "t", parameters: {}, execute: async () => "k".repeat(1_000) }));
    registry.register(Tool.define({ name: "other", parameters: {}, execute: async () => "" }));
    for (let turn = 0; turn < 4; turn++) {
      await registry.execute("t", {}, { callId: "same" });
      await registry.execute("other", {});
    }
    expect(registry.readResult("same")?.total).toBe(1_000);
  });

  it("is not undone by the structured form when the result goes out as MCP", async () => {
    const { result } = await run({ rows: Array.from({ length: 1_000 }, (_, index) => ({ index })) });
    expect(result.structured).toBeDefined();
    expect(JSON.stringify(toMcpResult(result)).length).toBeLessThan(3_000);
  });

  describe("of a structured value that is too large", () => {
    const rows = Array.from({ length: 300 }, (_, index) => ({ index }));
    const json = JSON.stringify({ rows });

    it("leaves it out, and keeps it to be read in pages", async () => {
      const { result, registry } = await run({ rows }, { maxStructured: 2_000 });
      expect(result.structured).toBeUndefined();
      expect(result.content.length).toBeLessThan(1_500);
      expect(registry.readResult("c", { limit: 1e6 })?.text).toBe(json);
    });

    it("puts it behind a text that is something else, which stays whole", async () => {
      const value = { content: [{ type: "text", text: "300 rows" }], structuredContent: { rows } };
      const { result, registry } = await run(value, { maxStructured: 2_000, maxContent: 50_000 });
      expect(result).toMatchObject({
        content: expect.stringMatching(
          /^300 rows\n… \d+ characters left out here: .*kept as call c; read on from offset 8 …\n$/,
        ),
        metadata: { truncated: { head: 8, total: json.length + 10, callId: "c" } },
      });
      expect(result.structured).toBeUndefined();
      expect(registry.readResult("c", { offset: 10, limit: 1e6 })?.text).toBe(json);
      expect(toMcpResult(result).structuredContent).toBeUndefined();
      expect(registry.getCallHistory(1)[0]?.flags).toEqual({ truncated: true });
    });

    it("does so for an error that the tool returned", async () => {
      const { result } = await run({ success: false, error: "half done", rows }, { maxStructured: 2_000 });
      expect(result.type).toBe("error");
      expect(JSON.stringify(result).length).toBeLessThan(1_500);
    });

    it("gives a tool all of it, and the record a part", async () => {
      const registry = new ToolRegistry({ maxStructured: 2_000, maxContent: 50_000 });
      registry.register(Tool.define({ name: "rows", parameters: {}, execute: async () => ({ rows }) }));
      registry.register(
        Tool.define({
          name: "counts",
          parameters: {},
          execute: async ({ call }) => {
            const { structured } = await call("rows", {});
            return String((structured as { rows: unknown[] }).rows.length);
          },
        }),
      );
      const recorded = new Map<string, unknown>();
      registry.subscribe((event) => {
        if (event.type === "record") recorded.set(event.record.toolName, event.result.structured);
      });
      expect((await registry.execute("counts", {})).content).toBe("300");
      expect(recorded.get("rows")).toBeUndefined();
      const [record] = registry.getCallHistory(2);
      expect(registry.readResult(record!.callId, { limit: 1e6 })?.text).toBe(json);
    });

    it("hides the secrets of its arguments in what is kept", async () => {
      const registry = new ToolRegistry({ maxStructured: 2_000, maxContent: 50_000 });
      registry.register(
        Tool.define({
          name: "t",
          parameters: { type: "object", properties: { password: { type: "string" } } },
          execute: async ({ input }) => ({
            content: [{ type: "text", text: "ok" }],
            structuredContent: { rows, said: input.password },
          }),
        }),
      );
      await registry.execute("t", { password: 'quoted "hunter2" value' }, { callId: "c" });
      const text = registry.readResult("c", { limit: 1e6 })?.text;
      expect(text).toContain("[redacted]");
      expect(text).not.toContain("hunter2");
    });
  });

  it("keeps whole results only as far as there is room, the newest first", async () => {
    const registry = new ToolRegistry({ maxContent: 100, keptResults: 2_500, historyLimit: 1 });
    registry.register(Tool.define({ name: "t", parameters: {}, execute: async () => "k".repeat(1_000) }));
    for (const callId of ["a", "b", "c"]) await registry.execute("t", {}, { callId });
    expect(registry.readResult("a")).toBeUndefined();
    expect(registry.readResult("c")?.total).toBe(1_000);
    const huge = new ToolRegistry({ maxContent: 100, keptResults: 500 });
    huge.register(Tool.define({ name: "t", parameters: {}, execute: async () => "k".repeat(1_000) }));
    expect((await huge.execute("t", {})).content).toContain("too large to keep");
  });
});
