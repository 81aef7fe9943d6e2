import { describe, expect, it } from "vitest";
import { shellQuote } from "../helpers/values.ts";
import {
  clipDisplay,
  displayWidth,
  formatDuration,
  oneLine,
  padDisplay,
  parseDuration,
  printable,
  renderTable,
} from "./text.ts";

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

const long = "x".repeat(700);
const wideRows = [
  ["a", "short", "tools/a.ts"],
  ["b", long, "tools/b.ts"],
];

it("off a terminal keeps every cell whole, and what follows a short one near", () => {
  const [first, second] = renderTable(wideRows, { flexible: 1 });
  expect(first).toMatch(/^a {2}short {70,80}tools\/a\.ts$/);
  expect(second).toBe(`b  ${long}  tools/b.ts`);
});

it("on a terminal clips the cell that has no room", () => {
  const lines = renderTable(wideRows, { flexible: 1, columns: 60 });
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(60);
});

it("shows what a terminal would obey, and leaves lines and tabs", () => {
  expect(printable("a\u001b[2Jb\tc\r\nd\u202ee\u009b1m")).toBe("a\\u001b[2Jb\tc\nd\\u202ee\\u009b1m");
  expect(oneLine("  two\n lines\t")).toBe("two lines");
});

it("quotes words for a shell only where they need it", () => {
  expect(shellQuote("path=src/a.ts")).toBe("path=src/a.ts");
  expect(shellQuote("it's $HOME")).toBe("'it'\\''s $HOME'");
});

it("reads durations with a unit and refuses those without", () => {
  expect(["500ms", "30s", "1.5m", "2h", "7d"].map((text) => parseDuration(text, "--timeout"))).toEqual([
    500, 30_000, 90_000, 7_200_000, 604_800_000,
  ]);
  expect(() => parseDuration("30", "--timeout")).toThrow('--timeout "30" is no duration');
  expect([3.15159, 250.4, 1500, 61_000].map(formatDuration)).toEqual([
    "3.2 ms",
    "250 ms",
    "1.5 s",
    "1 min 1 s",
  ]);
});
