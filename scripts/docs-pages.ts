import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

export interface Page {
  /** From the root of the repo. */
  readonly path: string;
  readonly text: string;
}

/** A fenced block of a page. */
export interface Block {
  readonly language: string;
  readonly code: string;
  /** What a `text` block right after it says that it prints. */
  readonly output: string | undefined;
  readonly place: string;
}

/** Every page of the documentation, in both languages. */
export const pages: readonly Page[] = [
  "README.md",
  "README.zh-CN.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  ...markdownIn("docs"),
].map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));

const fence = /^```([^\n]*)\n([\s\S]*?)^```$/gm;

export function blocksOf({ path, text }: Page): Block[] {
  const matches = [...text.matchAll(fence)];
  return matches.map((match, index) => {
    const next = matches[index + 1];
    const between = next === undefined ? "" : text.slice(match.index + match[0].length, next.index);
    const isFollowed = next !== undefined && next[1] === "text" && between.trim() === "";
    return {
      language: match[1]!,
      code: match[2]!,
      output: isFollowed ? next[2]! : undefined,
      place: `${path}:${text.slice(0, match.index).split("\n").length}`,
    };
  });
}

export function withoutFences(text: string): string {
  return text.replaceAll(fence, "");
}

/** Where the Chinese of an English page lives; nothing for pages that have none. */
export function chinesePathOf(path: string): string | undefined {
  if (path.includes("zh-CN")) return undefined;
  if (path === "README.md") return "README.zh-CN.md";
  return path.startsWith("docs/") ? path.replace("docs/", "docs/zh-CN/") : undefined;
}

function markdownIn(folder: string): string[] {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return names
    .filter((name) => name.endsWith(".md"))
    .map((name) => `${folder}/${name.replaceAll("\\", "/")}`)
    .sort();
}
