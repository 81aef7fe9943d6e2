import { expect, it } from "vitest";
import type { ToolSummary } from "../../api/types.ts";
import { toggled, toolsBetween, toolsOf } from "./tool-marks.ts";
import { treeRows } from "./tool-tree.ts";

const tool = (name: string, origin: string): ToolSummary => ({
  ...{ name, origin, displayName: name, status: "ok", dangerous: false, readOnly: false, createdAt: 0 },
});
const rack = {
  tools: [
    tool("a", "tools/one/a.ts"),
    tool("b", "tools/one/b.ts"),
    tool("c", "tools/two/c.ts"),
    tool("d", "mcp server git"),
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
