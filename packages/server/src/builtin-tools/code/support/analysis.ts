import { basename, extname } from "node:path";
import type { ParseResult, ParserOptions } from "@babel/parser";
import { openRegularFile } from "../../file/support/file-reader.ts";
import type { Confinement } from "../../paths.ts";
import { type Outline, outline } from "./outline.ts";

export interface FileAnalysis {
  readonly path: string;
  readonly language: string;
  readonly counts: LineCounts;
  /** Of TypeScript and JavaScript only. */
  readonly outline?: Outline;
  readonly problems?: readonly SyntaxProblem[];
  /** Why there is no outline. */
  readonly note?: string;
}

const LARGEST_FILE = 20 * 1024 * 1024;
/** Larger scripts are not parsed, because nobody writes them by hand. */
const LARGEST_SCRIPT = 2 * 1024 * 1024;

/** Rejects when the file is not text or is larger than `LARGEST_FILE`. */
export async function analyzeFile(workspace: Confinement, path: string): Promise<FileAnalysis> {
  const { text, shown } = await readText(workspace, path);
  const language = languageOf(shown);
  const plain = { path: shown, language: language?.name ?? "unknown" };
  // When the file is not parsed, a regular expression finds the comments.
  const found = language?.comments === undefined ? [] : [...text.matchAll(language.comments)];
  const ranges = found.map(({ 0: { length }, index }) => ({ start: index, end: index + length }));
  const counted = { ...plain, counts: countLines(text, ranges) };
  if (language?.isScript !== true) {
    return { ...counted, note: `Only lines are counted: symbols are found in TypeScript and JavaScript.` };
  }
  if (text.length > LARGEST_SCRIPT)
    return { ...counted, note: "Only lines are counted: the file is over 2 MB." };
  const { file, problems } = await parseScript(shown, text);
  if (file === undefined) return { ...counted, problems, note: "The syntax is too broken for an outline." };
  const comments = (file.comments ?? []).map(({ start, end }) => ({ start: start ?? 0, end: end ?? 0 }));
  return { ...plain, counts: countLines(text, comments), outline: outline(file, text), problems };
}

async function readText(workspace: Confinement, path: string): Promise<{ text: string; shown: string }> {
  const { handle, stats, shown } = await openRegularFile(workspace, path);
  await using file = handle;
  if (stats.size > LARGEST_FILE) throw new Error(`${shown} is over 20 MB; it is not analysed.`);
  const bytes = await file.readFile();
  if (bytes.includes(0)) throw new Error(`${shown} is a binary file; there is no code to analyse.`);
  return { text: bytes.toString("utf8").replace(/^\uFEFF/, ""), shown };
}

export interface LineCounts {
  readonly lines: number;
  readonly code: number;
  readonly comments: number;
  readonly blank: number;
}

interface CommentRange {
  readonly start: number;
  readonly end: number;
}

/** Every line counts once: as code if it holds any, as a comment if it holds nothing else, or as blank. */
function countLines(text: string, comments: readonly CommentRange[]): LineCounts {
  let bare = "";
  let from = 0;
  for (const { start, end } of comments) {
    bare += text.slice(from, start) + text.slice(start, end).replace(/[^\n]+/g, "");
    from = end;
  }
  const withoutComments = splitLines(bare + text.slice(from));
  const lines = splitLines(text);
  const blank = lines.filter((line) => line.trim() === "").length;
  const code = lines.filter((_line, at) => (withoutComments[at]?.trim() ?? "") !== "").length;
  return { lines: lines.length, code, comments: lines.length - code - blank, blank };
}

/** A newline at the end does not begin another line. */
function splitLines(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

export interface SyntaxProblem {
  readonly line: number;
  /** From 1. */
  readonly column: number;
  readonly message: string;
}

const MOST_PROBLEMS = 50;

/**
 * Parses TypeScript or JavaScript, continuing after errors where it can. Never rejects for broken code:
 * `file` is absent when the code is too broken to be parsed.
 */
async function parseScript(
  path: string,
  text: string,
): Promise<{ file?: ParseResult; problems: SyntaxProblem[] }> {
  // Loaded on first use: most racks never analyse code.
  const { parse } = await import("@babel/parser");
  try {
    const file = parse(text, optionsFor(path, text));
    return { file, problems: (file.errors ?? []).slice(0, MOST_PROBLEMS).map(toProblem) };
  } catch (error) {
    return { problems: [toProblem(error)] };
  }
}

function optionsFor(path: string, text: string): ParserOptions {
  const ending = extname(path).toLowerCase();
  const isTyped = /^\.[mc]?tsx?$/.test(ending);
  const isFlow = !isTyped && /@flow\b/.test(text.slice(0, 1000));
  const dialect: NonNullable<ParserOptions["plugins"]> = isTyped
    ? [["typescript", { dts: /\.d\.[mc]?ts$/.test(basename(path)) }]]
    : isFlow
      ? ["flow"]
      : [];
  // In .ts files `<T>x` is a cast, so JSX cannot be read there.
  const jsx: typeof dialect = isTyped && ending !== ".tsx" ? [] : ["jsx"];
  return {
    sourceType: /^\.m/.test(ending) ? "module" : /^\.c/.test(ending) ? "commonjs" : "unambiguous",
    errorRecovery: true,
    allowUndeclaredExports: true,
    plugins: [...dialect, ...jsx, "decorators"],
  };
}

function toProblem(error: unknown): SyntaxProblem {
  const { message, loc } = error as { message: string; loc?: { line: number; column: number } }; // Babel's own form.
  return {
    line: loc?.line ?? 1,
    column: (loc?.column ?? 0) + 1,
    message: message.replace(/ \(\d+:\d+\)$/, ""),
  };
}

interface Language {
  readonly name: string;
  /** Matches every comment. `undefined` when the language has none, or they cannot be matched. */
  readonly comments: RegExp | undefined;
  /** TypeScript or JavaScript, which are parsed. */
  readonly isScript: boolean;
}

const slashes = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;
const blocks = /\/\*[\s\S]*?(?:\*\/|$)/g;
const hashes = /#[^\n]*/g;
const dashes = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;
const markup = /<!--[\s\S]*?(?:-->|$)/g;

/** Languages grouped by how they write comments, each with the endings of its files. */
const families: readonly (readonly [comments: RegExp | undefined, languages: string])[] = [
  [
    slashes,
    "TypeScript .ts .mts .cts, TSX .tsx, JavaScript .js .mjs .cjs, JSX .jsx, Go .go, Rust .rs, Java .java",
  ],
  [
    slashes,
    "Kotlin .kt .kts, Swift .swift, C .c .h, C++ .cc .cpp .cxx .hpp .hh, C# .cs, PHP .php, Dart .dart",
  ],
  [slashes, "Sass .scss .less"],
  [hashes, "Python .py .pyi, Ruby .rb, Shell .sh .bash .zsh, YAML .yml .yaml, TOML .toml"],
  [blocks, "CSS .css"],
  [dashes, "SQL .sql, Lua .lua"],
  [markup, "HTML .html .htm, XML .xml .svg, Vue .vue, Svelte .svelte"],
  [undefined, "Markdown .md .mdx, JSON .json"],
];
const scripts = new Set(["TypeScript", "TSX", "JavaScript", "JSX"]);

const byEnding = new Map<string, Language>(
  families.flatMap(([comments, languages]) =>
    languages.split(", ").flatMap((written) => {
      const [name = "", ...endings] = written.split(" ");
      const language = { name, comments, isScript: scripts.has(name) };
      return endings.map((ending) => [ending, language] as const);
    }),
  ),
);

export function languageOf(path: string): Language | undefined {
  return byEnding.get(extname(path).toLowerCase());
}
