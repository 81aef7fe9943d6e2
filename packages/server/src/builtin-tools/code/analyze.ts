import type { InternalToolContext } from "../../calls/index.ts";
import * as s from "../../helpers/schema.ts";
import { walk } from "../file/support/walk.ts";
import { locateExisting, showPath } from "../paths.ts";
import { amount, answer, defineTool } from "../tool-definition.ts";
import { analyzeFile, type FileAnalysis, type LineCounts, languageOf } from "./support/analysis.ts";
import type { CodeSymbol } from "./support/outline.ts";

const symbol = s.object({
  kind: s.text(),
  name: s.text(),
  line: s.integer(),
  endLine: s.integer(),
  exported: s.boolean(),
  "signature?": s.text(),
  "members?": s.anything({ type: "array" }),
});

export default defineTool({
  name: "analyze",
  description:
    "Shows what code consists of without reading it whole. Of a TypeScript or JavaScript file: functions, classes with " +
    "methods, interfaces, types, enums and variables with line ranges and whether they are exported, imports, exports " +
    "and syntax errors. Of other languages: lines of code, comments and blanks. Of a folder: a summary per file.",
  input: {
    path: s.text("The file or folder: relative to the workspace, or absolute inside it."),
    limit: s.integer("Of a folder, the most files.", { minimum: 1, maximum: 2000, default: 200 }),
  },
  output: {
    path: s.text(),
    "language?": s.text("Of a file."),
    counts: s.object({ lines: s.integer(), code: s.integer(), comments: s.integer(), blank: s.integer() }),
    "symbols?": s.list(symbol),
    "imports?": s.anything({ type: "array" }),
    "exports?": s.list(s.text()),
    "problems?": s.anything({ type: "array", description: "Syntax errors: line, column, message." }),
    "note?": s.text(),
    "files?": s.anything({
      type: "array",
      description: "Of a folder: path, language, counts, symbols, exports, problems of each.",
    }),
    "truncated?": s.boolean("The folder has more files than the limit."),
  },
  async handler(args, context) {
    const { real, stats } = await locateExisting(context.workspace, args.path);
    if (stats.isDirectory()) return analyzeFolder(real, args.limit, context);
    const analysis = await analyzeFile(context.workspace, real);
    const { outline, ...rest } = analysis;
    return answer(renderFile(analysis), { ...rest, ...outline });
  },
  metadata: { category: "code", readOnly: true, idempotent: true, tags: ["outline", "symbols"] },
});

async function analyzeFolder(
  real: string,
  limit: number,
  { workspace, signal, progress }: InternalToolContext,
) {
  const path = await showPath(workspace, real);
  const files: FileAnalysis[] = [];
  const skipped: string[] = [];
  const found = walk(workspace, real, {
    signal,
    onUnreadable: (relative, reason) => skipped.push(`${relative} (${reason})`),
  });
  let truncated = false;
  for await (const entry of found) {
    if (entry.type !== "file" || languageOf(entry.name) === undefined) continue;
    truncated = files.length === limit;
    if (truncated) break;
    signal.throwIfAborted();
    const analysis = await analyzeFile(workspace, entry.path).catch((error: Error) => error.message);
    if (typeof analysis === "string") skipped.push(analysis);
    else files.push(analysis);
    if (files.length % 50 === 0) progress(files.length, undefined, `${files.length} files analysed`);
  }
  const counts = addCounts(files);
  const number = amount(files.length, "file");
  const heading = path === "." ? "The workspace" : `${path}/`;
  const lines = [
    `${heading}: ${number}, ${renderCounts(counts)}`,
    ...byLanguage(files),
    "",
    ...files.map(renderSummary),
    ...(truncated
      ? [`\n[Stopped at ${number}; there are more. Analyse a folder below, or raise limit.]`]
      : []),
    ...(skipped.length === 0 ? [] : [`\n[Left out: ${skipped.join(" ")}]`]),
  ];
  return answer(files.length === 0 ? `${heading} has no code to analyse.` : lines.join("\n"), {
    path,
    counts,
    files: files.map(({ path, language, counts, outline, problems }) => ({
      path,
      language,
      counts,
      ...(outline && { symbols: outline.symbols.length, exports: outline.exports }),
      ...(problems && { problems: problems.length }),
    })),
    truncated,
    ...(skipped.length > 0 && { note: `Left out: ${skipped.join(" ")}` }),
  });
}

const MOST_EXPORTS = 12;
const ownWords = new Set(["constructor", "getter", "setter"]);

/** The outline as text: one line per symbol, with its line range. */
function renderFile({ path, language, counts, outline, problems = [], note }: FileAnalysis): string {
  const { imports = [], symbols = [], exports = [] } = outline ?? {};
  const sections = {
    "Syntax errors": problems.map(({ line, column, message }) => `  ${line}:${column}  ${message}`),
    Imports: imports.map(({ from, names, line }) => {
      return `  ${line}  ${from}${names.length === 0 ? "" : `: ${names.join(", ")}`}`;
    }),
    Symbols: symbols.flatMap((symbol) => renderSymbol(symbol, "  ")),
  };
  return [
    `${path}: ${language}, ${renderCounts(counts)}`,
    ...(note === undefined ? [] : [note]),
    ...Object.entries(sections).flatMap(([title, lines]) => (lines.length === 0 ? [] : [title, ...lines])),
    ...(exports.length === 0 ? [] : [`Exports: ${exports.join(", ")}`]),
  ].join("\n");
}

function addCounts(files: readonly FileAnalysis[]): LineCounts {
  const sum = (key: keyof LineCounts) => files.reduce((total, { counts }) => total + counts[key], 0);
  return { lines: sum("lines"), code: sum("code"), comments: sum("comments"), blank: sum("blank") };
}

function renderCounts({ lines, code, comments, blank }: LineCounts): string {
  return `${amount(lines, "line")} (${code} code, ${comments} comments, ${blank} blank)`;
}

function renderSymbol(symbol: CodeSymbol, indent: string): string[] {
  const { kind, name, line, endLine, exported, signature, members = [] } = symbol;
  const range = line === endLine ? `${line}` : `${line}-${endLine}`;
  // Some signatures already begin with their kind.
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
    .map(([language, group]) => ({ language, count: group.length, code: addCounts(group).code }))
    .sort((a, b) => b.code - a.code)
    .map(({ language, count, code }) => {
      return `  ${language}: ${amount(count, "file")}, ${amount(code, "line")} of code`;
    });
}

function renderSummary({ path, counts, outline, problems = [] }: FileAnalysis): string {
  const names = outline?.exports ?? [];
  const more = names.length > MOST_EXPORTS ? `, and ${names.length - MOST_EXPORTS} more` : "";
  const exports = names.length === 0 ? "" : `; exports ${names.slice(0, MOST_EXPORTS).join(", ")}${more}`;
  const [first] = problems;
  const errors = amount(problems.length, "syntax error");
  const broken = first === undefined ? "" : `; ${errors}, first at line ${first.line}: ${first.message}`;
  return `${path}  ${amount(counts.lines, "line")}${exports}${broken}`;
}
