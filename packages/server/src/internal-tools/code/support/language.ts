import { extname } from "node:path";

/** What is known of a language by its file ending. */
export interface Language {
  readonly name: string;
  /** Every comment of a text; `undefined` when the language has none, or they cannot be told by their form. */
  readonly comments?: RegExp;
  /** Symbols can be found: the file is parsed. */
  readonly isScript?: true;
}

const slashes = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;
const blocks = /\/\*[\s\S]*?(?:\*\/|$)/g;
const hashes = /#[^\n]*/g;
const dashes = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;
const markup = /<!--[\s\S]*?(?:-->|$)/g;

const families: readonly (readonly [Language, string])[] = [
  [{ name: "TypeScript", comments: slashes, isScript: true }, ".ts .mts .cts"],
  [{ name: "TSX", comments: slashes, isScript: true }, ".tsx"],
  [{ name: "JavaScript", comments: slashes, isScript: true }, ".js .mjs .cjs"],
  [{ name: "JSX", comments: slashes, isScript: true }, ".jsx"],
  [{ name: "Python", comments: hashes }, ".py .pyi"],
  [{ name: "Ruby", comments: hashes }, ".rb"],
  [{ name: "Shell", comments: hashes }, ".sh .bash .zsh"],
  [{ name: "YAML", comments: hashes }, ".yml .yaml"],
  [{ name: "TOML", comments: hashes }, ".toml"],
  [{ name: "Go", comments: slashes }, ".go"],
  [{ name: "Rust", comments: slashes }, ".rs"],
  [{ name: "Java", comments: slashes }, ".java"],
  [{ name: "Kotlin", comments: slashes }, ".kt .kts"],
  [{ name: "Swift", comments: slashes }, ".swift"],
  [{ name: "C", comments: slashes }, ".c .h"],
  [{ name: "C++", comments: slashes }, ".cc .cpp .cxx .hpp .hh"],
  [{ name: "C#", comments: slashes }, ".cs"],
  [{ name: "PHP", comments: slashes }, ".php"],
  [{ name: "Dart", comments: slashes }, ".dart"],
  [{ name: "CSS", comments: blocks }, ".css"],
  [{ name: "Sass", comments: slashes }, ".scss .less"],
  [{ name: "SQL", comments: dashes }, ".sql"],
  [{ name: "Lua", comments: dashes }, ".lua"],
  [{ name: "HTML", comments: markup }, ".html .htm"],
  [{ name: "XML", comments: markup }, ".xml .svg"],
  [{ name: "Vue", comments: markup }, ".vue"],
  [{ name: "Svelte", comments: markup }, ".svelte"],
  [{ name: "Markdown" }, ".md .mdx"],
  [{ name: "JSON" }, ".json"],
];

const byEnding = new Map(
  families.flatMap(([language, endings]) => endings.split(" ").map((ending) => [ending, language] as const)),
);

export function languageOf(path: string): Language | undefined {
  return byEnding.get(extname(path).toLowerCase());
}
