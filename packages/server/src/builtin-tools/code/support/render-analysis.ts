import { amount } from "../../file/support/contents.ts";
import type { CodeSymbol, FileAnalysis, Import, LineCounts } from "./analysis.ts";

export interface FolderAnalysis {
  readonly path: string;
  readonly files: readonly FileAnalysis[];
  readonly skipped: readonly string[];
  readonly isCut: boolean;
}

const MOST_EXPORTS = 12;
const ownWords = new Set(["constructor", "getter", "setter"]);

/** An outline as a model reads it: one line per symbol, with the lines to read for it. */
export function renderFile(analysis: FileAnalysis): string {
  const { path, language, counts, outline, problems = [], note } = analysis;
  return [
    `${path}: ${language}, ${renderCounts(counts)}`,
    note,
    section(
      "Syntax errors",
      problems.map(({ line, column, message }) => `  ${line}:${column}  ${message}`),
    ),
    section("Imports", (outline?.imports ?? []).map(renderImport)),
    section(
      "Symbols",
      (outline?.symbols ?? []).flatMap((symbol) => renderSymbol(symbol, "  ")),
    ),
    outline === undefined || outline.exports.length === 0
      ? undefined
      : `Exports: ${outline.exports.join(", ")}`,
  ]
    .filter((part) => part !== undefined)
    .join("\n");
}

/** One line per file, and the sums. */
export function renderFolder({ path, files, skipped, isCut }: FolderAnalysis): string {
  const heading = path === "." ? "The workspace" : `${path}/`;
  if (files.length === 0) return `${heading} has no code to analyse.`;
  const number = amount(files.length, "file");
  return [
    `${heading}: ${number}, ${renderCounts(addCounts(files))}`,
    ...byLanguage(files),
    "",
    ...files.map(renderSummary),
    ...(isCut ? [`\n[Stopped at ${number}; there are more. Analyse a folder below, or raise limit.]`] : []),
    ...(skipped.length === 0 ? [] : [`\n[Left out: ${skipped.join(" ")}]`]),
  ].join("\n");
}

export function addCounts(files: readonly FileAnalysis[]): LineCounts {
  const sum = { lines: 0, code: 0, comments: 0, blank: 0 };
  for (const { counts } of files) {
    sum.lines += counts.lines;
    sum.code += counts.code;
    sum.comments += counts.comments;
    sum.blank += counts.blank;
  }
  return sum;
}

function renderCounts({ lines, code, comments, blank }: LineCounts): string {
  return `${amount(lines, "line")} (${code} code, ${comments} comments, ${blank} blank)`;
}

function section(title: string, lines: readonly string[]): string | undefined {
  return lines.length === 0 ? undefined : `${title}\n${lines.join("\n")}`;
}

function renderImport({ from, names, line }: Import): string {
  return `  ${line}  ${from}${names.length === 0 ? "" : `: ${names.join(", ")}`}`;
}

function renderSymbol(symbol: CodeSymbol, indent: string): string[] {
  const { kind, name, line, endLine, exported, signature, members = [] } = symbol;
  const range = line === endLine ? `${line}` : `${line}-${endLine}`;
  // Some signatures begin with their own kind.
  const isNamed = /^(async )?function\b/.test(signature ?? "") || ownWords.has(kind);
  const what = signature === undefined ? `${kind} ${name}` : isNamed ? signature : `${kind} ${signature}`;
  return [
    `${indent}${range}  ${exported ? "export " : ""}${what}`,
    ...members.flatMap((member) => renderSymbol(member, `${indent}  `)),
  ];
}

function byLanguage(files: readonly FileAnalysis[]): string[] {
  const groups = Map.groupBy(files, ({ language }) => language);
  if (groups.size < 2) return [];
  return [...groups]
    .map(([language, group]) => ({ language, group, code: addCounts(group).code }))
    .sort((a, b) => b.code - a.code)
    .map(
      ({ language, group, code }) =>
        `  ${language}: ${amount(group.length, "file")}, ${amount(code, "line")} of code`,
    );
}

function renderSummary({ path, counts, outline, problems = [] }: FileAnalysis): string {
  const names = outline?.exports ?? [];
  const more = names.length > MOST_EXPORTS ? `, and ${names.length - MOST_EXPORTS} more` : "";
  const exports = names.length === 0 ? "" : `; exports ${names.slice(0, MOST_EXPORTS).join(", ")}${more}`;
  const first = problems[0];
  const broken =
    first === undefined
      ? ""
      : `; ${amount(problems.length, "syntax error")}, first at line ${first.line}: ${first.message}`;
  return `${path}  ${amount(counts.lines, "line")}${exports}${broken}`;
}
