import { Tool, type ToolInfo, ToolRegistry } from "@toolrack/core";
import { estimateTokens } from "@toolrack/core/internal";
import { describe, expect, it } from "vitest";
import { upstreamOrigin } from "../config/index.ts";
import { catalogueOf } from "./catalogue.ts";
import { pathCall, ToolPaths } from "./tool-paths.ts";

function toolOf(server: string | undefined, name: string, metadata = {}): ToolInfo {
  return Tool.define({
    name: server === undefined ? name : `mcp_${server.replace(/\W/g, "_")}_${name.replace(/\W/g, "_")}`,
    description: `Does ${name} for those who ask. And much more that nobody reads.`,
    parameters: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
    metadata: {
      ...metadata,
      ...(server !== undefined && { mcp: upstreamOrigin({ server, tool: name }) }),
    },
    execute: async () => "",
  });
}

function catalogue(tools: readonly ToolInfo[]): string {
  const registry = new ToolRegistry();
  for (const tool of tools) registry.register(tool);
  return catalogueOf(registry.list(), ToolPaths.of(registry.snapshot()));
}

const server = (name: string, count: number) =>
  Array.from({ length: count }, (_, at) => toolOf(name, `${name}_number_${at}`));

describe("the catalogue", () => {
  it("has all tools of a small rack, with what they take, and says that it is complete", () => {
    const text = catalogue([
      ...server("github", 3),
      toolOf(undefined, "clock"),
      toolOf("x", "own", { callers: ["model"] }),
    ]);
    expect(text).toContain("COMPLETE: these are all 4 tools.");
    expect(text).toContain("// tools.github\ngithub_number_0(args: { id: string }) // Does github_number_0");
    expect(text).toContain("// tools.rack\nclock(");
    expect(text).not.toContain("own");
  });

  it.each([150, 500, 5_000])(
    "of %i tools has at most 2,000 tokens, fairly shared by their servers",
    (count) => {
      const text = catalogue([...server("large", count - 30), ...server("small", 20), ...server("tiny", 10)]);
      expect(estimateTokens(text)).toBeLessThanOrEqual(2_000);
      const lines = (name: string) =>
        text.split("\n").filter((line) => line.startsWith(`${name}_number_`)).length;
      expect([lines("small"), lines("tiny")]).toEqual([20, 10]);
      expect(lines("large")).toBeGreaterThan(80);
      const isComplete = lines("large") === count - 30;
      expect(text).toContain(isComplete ? "COMPLETE" : `PARTIAL: ${lines("large") + 30} of ${count} tools.`);
    },
  );
});

describe("the path of a tool", () => {
  const registry = new ToolRegistry();
  const tools = [
    toolOf("my-server", "get.it"),
    toolOf("my-server", "get_it"),
    toolOf("网站", "搜索"),
    toolOf(undefined, "plain"),
  ];
  for (const tool of tools)
    registry.register({
      ...tool,
      name: tool === tools[1] ? "mcp_second" : tool === tools[2] ? "mcp_third" : tool.name,
    });
  const paths = ToolPaths.of(registry.snapshot());

  it("is an identifier, the same for each, and found by other spellings too", () => {
    expect(paths.find(["my_server", "get_it"])).toBe("mcp_my_server_get_it");
    expect(paths.find(["my-server", "get.it"])).toBe("mcp_my_server_get_it");
    expect(paths.find(["my_server", "mcp_second"])).toBe("mcp_second");
    expect(paths.find(["网站", "搜索"])).toBe("mcp_third");
    expect([paths.find(["rack", "plain"]), paths.find(["plain"])]).toEqual(["plain", "plain"]);
    expect(paths.find(["rack", "constructor"])).toBeUndefined();
    expect(paths.find(["__proto__", "plain"])).toBeUndefined();
  });

  it("is nobody's name on a rack without code", () => {
    expect(pathCall(registry, "tools.rack.plain")).toBeUndefined();
  });
});
