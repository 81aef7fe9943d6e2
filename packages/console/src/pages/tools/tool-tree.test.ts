import { describe, expect, it } from "vitest";
import type { FileReport, ToolSummary } from "../../api/index.ts";
import {
  type Activity,
  bestHit,
  groupRows,
  isShown,
  type Source,
  tagsOf,
  toggled,
  toolsBetween,
  toolsOf,
  treeRows,
} from "./tool-tree.ts";

describe("the rows of the list", () => {
  const tools = [
    tool("greeting", { source: "files", displayName: "Greeting/问候", tags: ["text"] }),
    tool("slugify", { source: "files", group: "text", status: "disabled" }),
    tool("internal_file_read", { source: "builtin", group: "file", description: "读取文件内容" }),
    tool("internal_file_delete", { source: "builtin", group: "file", dangerous: true }),
    tool("schedule_tool", { group: "toolbox" }),
  ];
  const broken: FileReport = {
    file: "tools/text/broken.ts",
    status: "failed",
    tools: [],
    warnings: [],
    failure: { file: "tools/text/broken.ts", line: 3, reason: "Unexpected end", remedy: "Close it." },
  };
  const rack = { tools, troubled: [broken] };
  const everything = { q: "", show: "all" as const, tag: "" };

  it("of a large rack are its groups, with the tools of the open ones", () => {
    const groups = [
      { source: "files" as const, group: "", count: 1 },
      { source: "files" as const, group: "text", count: 40_000 },
      { source: "builtin" as const, group: "file", count: 2 },
    ];
    const rows = groupRows(
      { tools, troubled: [broken], groups },
      new Set(["builtin/file"]),
      "Without a group",
    );
    expect(rows.map((row) => [row.id, row.kind === "branch" ? row.count : undefined])).toEqual([
      ["files", 40_001],
      ["file tools/text/broken.ts", undefined],
      ["files/", 1],
      ["files/text", 40_000],
      ["builtin", 2],
      ["builtin/file", 2],
      ["tool internal_file_read", undefined],
      ["tool internal_file_delete", undefined],
    ]);
    expect(rows[2]).toMatchObject({ label: "Without a group", isOpen: false });
  });

  it("sorts tools and files in trouble by source and group", () => {
    expect(treeRows(rack, everything, new Set()).map(({ id }) => id)).toEqual([
      "files",
      "tool greeting",
      "files/text",
      "file tools/text/broken.ts",
      "tool slugify",
      "builtin",
      "builtin/file",
      "tool internal_file_delete",
      "tool internal_file_read",
      "other",
      "other/toolbox",
      "tool schedule_tool",
    ]);
  });

  it("adds up what the enabled tools of a group cost a context", () => {
    const costs = treeRows(rack, everything, new Set()).flatMap((row) =>
      "tokens" in row ? [[row.id, row.tokens]] : [],
    );
    expect(Object.fromEntries(costs)).toMatchObject({ files: 10, "files/text": 0, "builtin/file": 20 });
  });

  it("counts tools, and no files that do not load", () => {
    const counts = treeRows(rack, everything, new Set()).flatMap((row) =>
      "count" in row ? [[row.id, row.count]] : [],
    );
    expect(counts).toEqual([
      ["files", 2],
      ["files/text", 1],
      ["builtin", 2],
      ["builtin/file", 2],
      ["other", 1],
      ["other/toolbox", 1],
    ]);
  });

  it.each([
    ["slugify", "slugify"],
    ["internal_file_r", "internal_file_read"],
    ["Delete", "internal_file_delete"],
    ["schedule_tool", "schedule_tool"],
    ["读取", "internal_file_read"],
    ["nowhere", undefined],
  ])("finds the tool that a search most likely means: %s", (q, name) => {
    const rows = treeRows(rack, { ...everything, q }, new Set());
    expect(bestHit(rows, q)?.tool.name).toBe(name);
  });

  it("sorts tools of upstream servers and skills under their names", () => {
    const others = [
      tool("mcp_maps_geocode", { source: "mcp", group: "maps" }),
      tool("t1", { source: "skills", group: "SearXNG Search" }),
    ];
    const ids = treeRows({ tools: others, troubled: [] }, everything, new Set()).map(({ id }) => id);
    expect(ids).toEqual([
      "skills",
      "skills/SearXNG Search",
      "tool t1",
      "mcp",
      "mcp/maps",
      "tool mcp_maps_geocode",
    ]);
  });

  it("leaves out what is folded", () => {
    const ids = treeRows(rack, everything, new Set(["files/text", "builtin"])).map(({ id }) => id);
    expect(ids).toEqual([
      "files",
      "tool greeting",
      "files/text",
      "builtin",
      "other",
      "other/toolbox",
      "tool schedule_tool",
    ]);
  });

  it("finds words anywhere in what a tool says of itself, in Chinese too", () => {
    const found = (q: string) => leaves({ ...everything, q });
    expect(found("文件")).toEqual(["tool internal_file_read"]);
    expect(found("问候")).toEqual(["tool greeting"]);
    expect(found("FILE delete")).toEqual(["tool internal_file_delete"]);
    expect(found("unexpected")).toEqual(["file tools/text/broken.ts"]);
  });

  it("filters by state and tag", () => {
    expect(leaves({ ...everything, show: "failed" })).toEqual(["file tools/text/broken.ts"]);
    expect(leaves({ ...everything, show: "disabled" })).toEqual(["tool slugify"]);
    expect(leaves({ ...everything, show: "dangerous" })).toEqual(["tool internal_file_delete"]);
    expect(leaves({ ...everything, tag: "text" })).toEqual(["tool greeting"]);
    expect(tagsOf(tools)).toEqual([{ name: "text", count: 1 }]);
  });

  it("filters by source, and by whether anybody calls it", () => {
    expect(leaves({ ...everything, source: "builtin" })).toEqual([
      "tool internal_file_delete",
      "tool internal_file_read",
    ]);
    const called = new Map(tools.slice(1).map(({ name }) => [name, { calls: 2, errors: 1 }]));
    expect(leaves({ ...everything, show: "quiet" }, called)).toEqual(["tool greeting"]);
    expect(isShown(tools[0]!, { ...everything, show: "quiet" }, called)).toBe(true);
    expect(isShown(tools[1]!, { ...everything, show: "quiet" }, called)).toBe(false);
  });

  function leaves(filter: Parameters<typeof treeRows>[1], activity?: Activity): string[] {
    return treeRows(rack, filter, new Set(), activity)
      .filter(({ kind }) => kind === "tool" || kind === "file")
      .map(({ id }) => id);
  }

  function tool(name: string, more: Partial<ToolSummary>): ToolSummary {
    return {
      name,
      displayName: name,
      status: "ok",
      dangerous: false,
      readOnly: false,
      tokens: 10,
      source: "other",
      group: "",
      createdAt: 0,
      ...more,
    };
  }
});

describe("the tools that are marked", () => {
  const tool = (name: string, source: Source, group: string): ToolSummary => ({
    ...{
      name,
      source,
      group,
      displayName: name,
      status: "ok",
      dangerous: false,
      readOnly: false,
      tokens: 0,
      createdAt: 0,
    },
  });
  const rack = {
    tools: [
      tool("a", "files", "one"),
      tool("b", "files", "one"),
      tool("c", "files", "two"),
      tool("d", "mcp", "git"),
    ],
    troubled: [],
  };
  const filter = { q: "", show: "all", tag: "" } as const;
  const all = treeRows(rack, filter, new Set());
  const rowOf = (id: string) => all.find((row) => row.id === id)!;

  it("takes a group for its tools, and a source for those of all its groups, also when it is folded", () => {
    expect(toolsOf(all, rowOf("tool a"))).toEqual(["a"]);
    expect(toolsOf(all, rowOf("files/one"))).toEqual(["a", "b"]);
    expect(toolsOf(all, rowOf("files"))).toEqual(["a", "b", "c"]);
    expect(toolsOf(all, rowOf("mcp"))).toEqual(["d"]);
    const folded = treeRows(rack, filter, new Set(["files"]))[0]!;
    expect(toolsOf(all, folded)).toEqual(["a", "b", "c"]);
  });

  it("takes what lies between two rows, in either direction", () => {
    const at = (id: string) => all.findIndex((row) => row.id === id);
    expect(toolsBetween(all, at("tool b"), at("tool d"))).toEqual(["b", "c", "d"]);
    expect(toolsBetween(all, at("tool d"), at("tool b"))).toEqual(["b", "c", "d"]);
  });

  it("marks what is not marked yet, and takes the marks away when everything is", () => {
    expect(toggled(new Set(["a"]), ["a", "b"])).toEqual(new Set(["a", "b"]));
    expect(toggled(new Set(["a", "b", "c"]), ["a", "b"])).toEqual(new Set(["c"]));
  });
});
