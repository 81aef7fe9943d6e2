import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ToolRegistry } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defaultSettings } from "../packages/core/src/call/settings.ts";
import { errorPages } from "./write-error-reference.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const pages = ["README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md", ...markdownIn("docs")].map(
  (path) => ({ path, text: readFileSync(join(root, path), "utf8") }),
);

const fence = /^```([^\n]*)\n([\s\S]*?)^```$/gm;

interface Block {
  readonly language: string;
  readonly code: string;
  /** What a `text` block right after it says that it prints. */
  readonly output: string | undefined;
  readonly place: string;
}

interface Outcome {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** By what they are and print, each once: the two languages show the same. */
const examples = new Map<string, Block>();
for (const block of pages.flatMap((page) => blocksOf(page.path, page.text))) {
  const key = `${block.code}${block.output}`;
  if (block.language === "ts" && !examples.has(key)) examples.set(key, block);
}

describe("every example in the documentation", () => {
  /** Inside a package of the repo, so that imports resolve as they do for its own files. */
  let folder = "";
  const outcomes = new Map<Block, Outcome>();

  beforeAll(async () => {
    folder = mkdtempSync(join(root, "packages/server/.docs-tmp-"));
    const waiting = [...examples.values()].map((block, index) => {
      const file = join(folder, `example-${index}.ts`);
      writeFileSync(file, block.code);
      return { block, file };
    });
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        outcomes.set(next.block, await runNode(["--conditions=toolrack-source", next.file], folder));
      }
    };
    await Promise.all([work(), work()]);
  }, 120_000);

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each([...examples.values()])("runs and prints what it says: $place", (block) => {
    const { output } = block;
    const outcome = outcomes.get(block);
    expect(outcome?.exitCode, outcome?.stderr).toBe(0);
    if (output !== undefined) expect(withWildcards(outcome?.stdout ?? "", output)).toBe(output);
  });

  it("has right types", async () => {
    writeFileSync(
      join(folder, "tsconfig.json"),
      '{ "extends": "../../../tsconfig.json", "include": ["*.ts"] }',
    );
    const compiler = join(root, "node_modules/typescript/bin/tsc");
    const { exitCode, stdout } = await runNode([compiler, "--noEmit", "-p", folder], folder);
    expect(stdout).toBe("");
    expect(exitCode).toBe(0);
  }, 60_000);
});

it("marks every block as what it is, so that no example goes unrun", () => {
  const known = ["ts", "text", "sh", "mermaid"];
  const blocks = pages.flatMap((page) => blocksOf(page.path, page.text));
  expect(blocks.filter(({ language }) => !known.includes(language)).map(({ place }) => place)).toEqual([]);
});

describe("the Chinese documentation", () => {
  const translated = pages.filter(({ path }) => chinesePathOf(path) !== undefined);

  it.each(translated)("says the same as $path", ({ path, text }) => {
    const chinese = pages.find((page) => page.path === chinesePathOf(path));
    expect(chinese, `${chinesePathOf(path)} is missing`).toBeDefined();
    expect(headingLevels(chinese!.text)).toEqual(headingLevels(text));
    expect(fences(chinese!.path, chinese!.text)).toEqual(fences(path, text));
  });

  it("translates no page that does not exist", () => {
    const expected = translated.map(({ path }) => chinesePathOf(path)).sort();
    const actual = pages.map(({ path }) => path).filter((path) => path.includes("zh-CN"));
    expect(actual.sort()).toEqual(expected);
  });
});

describe("the reference", () => {
  it.each(Object.entries(errorPages))("of errors is what the generator writes: %s", (path, write) => {
    expect(readFileSync(join(root, path), "utf8"), "Run npm run docs:errors").toBe(write());
  });

  it("names every method and every setting of the registry", () => {
    const text = readFileSync(join(root, "docs/reference/registry.md"), "utf8");
    const methods = Object.getOwnPropertyNames(ToolRegistry.prototype).filter(
      (name) => name !== "constructor",
    );
    const unnamed = [
      ...methods.filter((name) => !text.includes(`\`${name}(`)),
      ...Object.keys(defaultSettings).filter((name) => !text.includes(`| \`${name}\` |`)),
    ];
    expect(unnamed).toEqual([]);
  });
});

describe("links", () => {
  it.each(pages)("of $path lead to files that exist", ({ path, text }) => {
    const links = [...withoutFences(text).matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1]!);
    const relative = links.filter((link) => !/^(?:[a-z]+:|#)/.test(link));
    const broken = relative.filter((link) => !existsSync(join(root, dirname(path), link.split("#")[0]!)));
    expect(broken).toEqual([]);
  });
});

function markdownIn(folder: string): string[] {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return names
    .filter((name) => name.endsWith(".md"))
    .map((name) => `${folder}/${name.replaceAll("\\", "/")}`)
    .sort();
}

function chinesePathOf(path: string): string | undefined {
  if (path.includes("zh-CN")) return undefined;
  if (path === "README.md") return "README.zh-CN.md";
  return path.startsWith("docs/") ? path.replace("docs/", "docs/zh-CN/") : undefined;
}

function blocksOf(path: string, text: string): Block[] {
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

function fences(path: string, text: string): string[] {
  return blocksOf(path, text).map(({ language, code }) => `${language}\n${code}`);
}

function withoutFences(text: string): string {
  return text.replaceAll(fence, "");
}

function headingLevels(text: string): number[] {
  return [...withoutFences(text).matchAll(/^(#+) /gm)].map((match) => match[1]!.length);
}

/** What was printed, with `…` wherever the documentation leaves open what stands there, such as a time. */
function withWildcards(printed: string, expected: string): string {
  const lines = expected.split("\n");
  return printed
    .split("\n")
    .map((line, index) => {
      const pattern = lines[index] ?? "";
      if (!pattern.includes("…")) return line;
      const parts = pattern.split("…").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
      return new RegExp(`^${parts.join(".*")}$`).test(line) ? pattern : line;
    })
    .join("\n");
}

function runNode(args: readonly string[], folder: string): Promise<Outcome> {
  const env = { ...process.env, FORCE_COLOR: "0", NODE_COMPILE_CACHE: join(folder, "cache") };
  const child = spawn(process.execPath, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (exitCode) => resolve({ exitCode, stdout, stderr }));
  });
}
