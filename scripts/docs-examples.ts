import { spawn } from "node:child_process";
import { chmodSync, closeSync, cpSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { type Block, blocksOf, type Page, root } from "./docs-pages.ts";

export interface Outcome {
  readonly exitCode: number | null;
  /** Standard output and standard error, in the order in which they were written. */
  readonly printed: string;
}

/** A file of a workspace begins with a comment that says where it lies. */
const fileName = /^\/\/ ((?:[\w-]+\/)*[\w.-]+\.[mc]?[jt]s)\n/;

/**
 * The examples of the documentation, run in a folder of their own. A `ts` block is a program. A `ts` or `js` block
 * that begins with a comment such as `// tools/a.ts` is a file, and an `sh` block that calls `toolrack` is run: both
 * in the page's own copy of the example workspace, in the order of the page.
 */
export class DocsExamples {
  readonly #folder: string;

  /** The folder must lie inside a package of the repo, so that imports resolve as they do for its own files. */
  constructor(folder: string) {
    this.#folder = folder;
    copyWorkspace(join(folder, "programs"));
    const main = join(root, "packages/server/src/main.ts");
    const program = join(folder, "bin/toolrack");
    mkdirSync(dirname(program));
    writeFileSync(
      program,
      `#!/bin/sh\nexec "${process.execPath}" --conditions=toolrack-source "${main}" "$@"\n`,
    );
    chmodSync(program, 0o755);
  }

  async runProgram(block: Block, index: number): Promise<Outcome> {
    const workspace = join(this.#folder, "programs");
    const file = join(workspace, `example-${index}.ts`);
    writeFileSync(file, block.code);
    return this.#run(process.execPath, ["--conditions=toolrack-source", file], workspace);
  }

  /** Writes the files of a page and runs its commands. */
  async runPage(page: Page): Promise<Map<Block, Outcome>> {
    const workspace = join(this.#folder, nameOf(page));
    copyWorkspace(workspace);
    const outcomes = new Map<Block, Outcome>();
    for (const block of blocksOf(page)) {
      if (isFile(block)) write(join(workspace, fileName.exec(block.code)![1]!), block.code);
      else if (isCommand(block)) outcomes.set(block, await this.#run("sh", ["-c", block.code], workspace));
    }
    return outcomes;
  }

  /** What the compiler says of everything that was written, line by line. */
  async typeErrors(): Promise<string[]> {
    const config = {
      extends: "../../../tsconfig.json",
      // Tool files are compiled, so they may use all of TypeScript.
      compilerOptions: { erasableSyntaxOnly: false },
      include: ["**/*.ts"],
      exclude: ["**/toolrack.d.ts"],
      // Declared once for all pages, as the guide tells people to.
      files: ["docs-guides-tool-files/toolrack.d.ts"],
    };
    writeFileSync(join(this.#folder, "tsconfig.json"), JSON.stringify(config));
    const compiler = join(root, "node_modules/typescript/bin/tsc");
    const { printed } = await this.#run(
      process.execPath,
      [compiler, "--noEmit", "--pretty", "false", "-p", this.#folder],
      root,
    );
    // What examples declare also reaches the sources of the repo, which are checked elsewhere.
    return printed.split("\n").filter((line) => line.startsWith(relative(root, this.#folder)));
  }

  #run(command: string, args: readonly string[], cwd: string): Promise<Outcome> {
    const { npm_lifecycle_event: _, ...inherited } = process.env;
    const env = {
      ...inherited,
      FORCE_COLOR: "0",
      NODE_COMPILE_CACHE: join(this.#folder, "cache"),
      PATH: `${join(this.#folder, "bin")}:${process.env.PATH}`,
    };
    const file = join(this.#folder, `printed-${++this.#runs}.txt`);
    const output = openSync(file, "w");
    const child = spawn(command, args, { cwd, env, stdio: ["ignore", output, output] });
    closeSync(output);
    return new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (exitCode) => resolve({ exitCode, printed: readFileSync(file, "utf8") }));
    });
  }

  #runs = 0;
}

export function isProgram(block: Block): boolean {
  return block.language === "ts" && !isFile(block);
}

export function isFile({ language, code }: Block): boolean {
  return (language === "ts" || language === "js") && fileName.test(code);
}

export function isCommand({ language, code }: Block): boolean {
  return language === "sh" && /^(?:.* )?toolrack /m.test(code) && !code.includes("npm ");
}

/** What was printed, with `…` wherever the documentation leaves open what stands there, such as a time. */
export function withWildcards(printed: string, expected: string): string {
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

function nameOf({ path }: Page): string {
  return path.replace(/\.md$/, "").replaceAll("/", "-");
}

function copyWorkspace(to: string): void {
  const from = join(root, "examples/workspace");
  const left = new Set(["log", ".toolrack", "node_modules"]);
  cpSync(from, to, { recursive: true, filter: (path) => !left.has(basename(path)) });
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
