import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { chinesePathOf, type Page, pages, root } from "./docs-pages.ts";

/** One statement of a document, as its table has it. */
interface Row {
  readonly number: string;
  readonly cells: readonly string[];
  readonly result: string;
  /** `file › title`, one or several with `<br>` between them, or `–`. */
  readonly test: string;
}

const tables = pages.filter(({ path }) => /^docs\/reference\/seeds\/\d.*\.md$/.test(path));

/** How a result begins, in both languages. What differs or is refused goes on with the reason. */
const results = [
  { kind: "otherwise", begins: /^(?:works otherwise|方式不同|可用，但方式不同)[:：] ?./ },
  { kind: "refused", begins: /^(?:refused|拒绝)[:：] ?./ },
  { kind: "works", begins: /^(?:works|可用|有效)(?:$|[,;:：；，]| ?[(（])/ },
];

describe("the tables of the five documents", () => {
  it("are linked from their page", () => {
    const index = pages.find(({ path }) => path === "docs/reference/seeds.md")!.text;
    const names = tables.map(({ path }) => path.replace("docs/reference/", ""));
    expect(names.filter((name) => !index.includes(`(${name})`))).toEqual([]);
  });

  it.each(tables)("have whole rows, and tests that exist: $path", (page) => {
    const rows = rowsOf(page);
    expect(rows.length).toBeGreaterThan(0);
    expect([...repeated(rows), ...rows.flatMap(problemsOf)]).toEqual([]);
  });

  it.each(tables)("say the same in Chinese: $path", (page) => {
    const chinese = rowsOf(pages.find(({ path }) => path === chinesePathOf(page.path))!);
    expect(chinese.flatMap(problemsOf)).toEqual([]);
    expect(chinese.map(compared)).toEqual(rowsOf(page).map(compared));
  });
});

describe("a table that does not hold", () => {
  const row = (...cells: string[]) => ({ path: "t.md", text: `| ${cells.join(" | ")} |` });
  const self = "`scripts/seeds.test.ts` › are linked from their page";

  it.each([
    [row("1.1", "it says", "try", "works", self), []],
    [row("1.1", "a \\| b", "try", "works otherwise: by a file", `${self}<br>${self}`), []],
    [row("1.1", "it says", "try", "refused: a reason", "–"), []],
    [row("1.1", "it says", "", "works", self), ["1.1 has an empty cell"]],
    [row("1.1", "it says", "try", "works"), ["1.1 has 4 cells, not 5"]],
    [row("1.1", "it says", "try", "broken", self), [expect.stringMatching(/^1\.1 has the result "broken"/)]],
    [row("1.1", "it says", "try", "works", "–"), ["1.1 names no test and gives no reason"]],
    [
      row("1.1", "it says", "try", "works", "`no.test.ts` › x"),
      ["1.1 names no.test.ts, which does not exist"],
    ],
    [
      row("1.1", "it says", "try", "works", "`scripts/docs.test.ts` › no such"),
      ['1.1 names a test that scripts/docs.test.ts does not hold: "no such"'],
    ],
    [row("1.1", "it says", "try", "works", "a.test.ts"), ['1.1 has a test that cannot be read: "a.test.ts"']],
  ])("is told of by its rows: %j", (page, problems) => {
    expect(rowsOf(page).flatMap(problemsOf)).toEqual(problems);
  });

  it("is told of by numbers that repeat", () => {
    const page = row("1.1", "a", "b", "works", "–");
    expect(repeated([...rowsOf(page), ...rowsOf(page)])).toEqual(["1.1 is there twice"]);
  });
});

/** The rows whose first cell is a number. */
function rowsOf({ text }: Page): Row[] {
  return text.split("\n").flatMap((line) => {
    if (!/^\| *\d/.test(line)) return [];
    const cells = line
      .trim()
      .replace(/^\||\|$/g, "")
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll("\\|", "|"));
    const [number = "", , , result = "", test = ""] = cells;
    return [{ number, cells, result, test }];
  });
}

function repeated(rows: readonly Row[]): string[] {
  const numbers = rows.map(({ number }) => number);
  const twice = numbers.filter((number, index) => numbers.indexOf(number) < index);
  return twice.map((number) => `${number} is there twice`);
}

function problemsOf({ number, cells, result, test }: Row): string[] {
  if (cells.length !== 5) return [`${number} has ${cells.length} cells, not 5`];
  if (cells.includes("")) return [`${number} has an empty cell`];
  if (kindOf(result) === undefined)
    return [
      `${number} has the result "${result}"; write "works", "works otherwise: …" or "refused: …", in Chinese 可用, 方式不同：… or 拒绝：…`,
    ];
  if (test !== "–") return test.split("<br>").flatMap((named) => testProblems(number, named.trim()));
  return /^(?:works|可用|有效)$/.test(result) ? [`${number} names no test and gives no reason`] : [];
}

function testProblems(number: string, named: string): string[] {
  const [, file = "", title = ""] = /^`([^`]+)` › (.+)$/.exec(named) ?? [];
  if (file === "") return [`${number} has a test that cannot be read: "${named}"`];
  if (!existsSync(join(root, file))) return [`${number} names ${file}, which does not exist`];
  const text = readFileSync(join(root, file), "utf8");
  const isThere = ['"', "'", "`"].some((quote) => {
    return text.includes(quote + title.replaceAll(quote, `\\${quote}`) + quote);
  });
  return isThere ? [] : [`${number} names a test that ${file} does not hold: "${title}"`];
}

function kindOf(result: string): string | undefined {
  return results.find(({ begins }) => begins.test(result))?.kind;
}

function compared({ number, result, test }: Row): string {
  return `${number} ${kindOf(result)} ${test}`;
}
