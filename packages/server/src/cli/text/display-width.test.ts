import { describe, expect, it } from "vitest";
import { clipDisplay, displayWidth, padDisplay } from "./display-width.ts";
import { renderTable } from "./render-table.ts";

describe("displayWidth", () => {
  it.each([
    ["plain", 5],
    ["", 0],
    ["工具", 4],
    ["网页搜索/Search", 15],
    ["ｆｕｌｌ", 8],
    ["한국어", 6],
    ["かな", 4],
    ["e\u0301", 1],
    ["👍🏽", 2],
    ["👩‍👩‍👧", 2],
    ["🇨🇳", 2],
    ["❤️", 2],
    ["—…“”", 4],
    ["𠮷野家", 6],
    ["a\u200bb", 2],
    ["\u001b[31m红\u001b[39m", 2],
  ])("%j takes %i columns", (text, width) => {
    expect(displayWidth(text)).toBe(width);
  });

  it("pads and clips by columns, never inside a character", () => {
    expect(padDisplay("工具", 6)).toBe("工具  ");
    expect(padDisplay("7 ms", 6, "start")).toBe("  7 ms");
    expect(clipDisplay("读取文件内容", 7)).toBe("读取文…");
    expect(clipDisplay("读取文件内容", 8)).toBe("读取文…");
    expect(clipDisplay("👍🏽👍🏽👍🏽", 5)).toBe("👍🏽👍🏽…");
    expect(clipDisplay("short", 5)).toBe("short");
  });
});

describe("renderTable", () => {
  const rows = [
    ["file_read", "读取文件内容", "tools/文件.ts"],
    ["x", "Reads a file and says what is in it", "b"],
  ];

  it("aligns Chinese with Latin text", () => {
    const lines = renderTable(rows, { head: ["NAME", "ABOUT", "FROM"] });
    const columnOf = (line: string, word: string) => displayWidth(line.slice(0, line.indexOf(word)));
    expect(columnOf(lines[0]!, "FROM")).toBe(columnOf(lines[1]!, "tools"));
    expect(columnOf(lines[1]!, "读取")).toBe(columnOf(lines[2]!, "Reads"));
    expect(displayWidth(lines[2]!)).toBe(columnOf(lines[1]!, "tools") + 1);
  });

  it("lets the flexible column give way so that every line fits the terminal", () => {
    const lines = renderTable(rows, { columns: 45, flexible: 1 });
    expect(lines.every((line) => displayWidth(line) <= 45)).toBe(true);
    expect(lines[1]).toContain("…");
    expect(lines[0]).toContain("读取文件内容");
  });

  it("clips nothing when there is no terminal", () => {
    expect(renderTable(rows, { flexible: 1 })[1]).toContain("says what is in it");
  });
});
