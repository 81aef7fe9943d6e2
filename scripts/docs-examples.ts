import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, closeSync, cpSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { runCli } from "../packages/server/src/cli/testing/run-cli.ts";
import { splitCommand } from "../packages/server/src/skills/script-command.ts";
import { type Block, blocksOf, type Page, root } from "./docs-pages.ts";

export interface Outcome {
  readonly exitCode: number | null;
  /** Standard output and standard error, in the order in which they were written. */
  readonly printed: string;
}

/** A line in which a shell has nothing to do but to divide it into words. */
const plainCommand = /^toolrack [^|<>&;$`()]+$/;

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
    mkdirSync(join(folder, "home"));
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

  /**
   * Writes the files of a page and runs its commands. A server that the page starts runs until the page ends, and an MCP
   * client that the page connects makes a call.
   */
  async runPage(page: Page): Promise<Map<Block, Outcome>> {
    const workspace = join(this.#folder, nameOf(page));
    if (page.path === fromNothing) mkdirSync(workspace);
    else {
      copyWorkspace(workspace);
      // A workspace that was used before: nothing is explained that is made at the first call.
      mkdirSync(join(workspace, ".toolrack"), { mode: 0o700 });
      write(join(workspace, "log/ToolBox.log"), "");
    }
    const outcomes = new Map<Block, Outcome>();
    await using ending = new AsyncDisposableStack();
    for (const block of blocksOf(page)) {
      if (isFile(block)) write(join(workspace, fileName.exec(block.code)![1]!), block.code);
      else if (/^toolrack serve$/m.test(block.code))
        outcomes.set(block, await this.#serve(workspace, (end) => ending.defer(end)));
      else if (isCommand(block)) outcomes.set(block, await this.#runCommands(block.code, workspace));
      if (page.path === fromNothing && block.code.startsWith("toolrack install ")) await this.#callAsClient();
    }
    return outcomes;
  }

  /**
   * Runs the commands of a block one after another: in this process, which takes a fraction of the time, where nothing but
   * `toolrack` is called, and otherwise in a shell.
   */
  async #runCommands(code: string, cwd: string): Promise<Outcome> {
    const lines = code.trimEnd().replaceAll("\\\n", " ").split("\n");
    if (!lines.every((line) => plainCommand.test(line))) return this.#run("sh", ["-c", code], cwd);
    let outcome: Outcome = { exitCode: 0, printed: "" };
    for (const line of lines) {
      const env = { HOME: this.#home, FORCE_COLOR: "0" };
      const { code: exitCode, printed } = await runCli(splitCommand(line).slice(1), { cwd, env });
      outcome = { exitCode, printed: outcome.printed + printed };
    }
    return outcome;
  }

  /** Starts `toolrack serve` on a port that is free, and shows the port that a page speaks of. */
  async #serve(cwd: string, defer: (end: () => Promise<void>) => void): Promise<Outcome> {
    const program = join(this.#folder, "bin/toolrack");
    const child = spawn(program, ["serve", "--port", "0"], { cwd, env: this.#environment() });
    const closed = once(child, "close");
    defer(async () => {
      child.kill("SIGTERM");
      await closed;
    });
    let printed = "";
    const ready = Promise.withResolvers<void>();
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        printed += text;
        if (printed.includes("Ctrl-C stops the server.")) ready.resolve();
      });
    }
    await Promise.race([ready.promise, closed]);
    // A server that is ready has not failed, and goes on.
    return {
      exitCode: child.exitCode ?? 0,
      printed: printed.replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:7300"),
    };
  }

  /** Does what an agent does: starts the entry that `toolrack install claude-code` wrote, and calls the tool. */
  async #callAsClient(): Promise<void> {
    const { mcpServers } = JSON.parse(readFileSync(join(this.#home, ".claude.json"), "utf8"));
    const { command, args } = mcpServers.toolrack;
    const client = new Client({ name: "claude-code", version: "2.1.0" });
    // Every value of this environment is a text.
    const env = this.#environment() as Record<string, string>;
    await client.connect(new StdioClientTransport({ command, args, env, stderr: "ignore" }));
    await client.callTool({ name: "tip", arguments: { bill: 80 } });
    await client.close();
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
    const env = this.#environment();
    const file = join(this.#folder, `printed-${++this.#runs}.txt`);
    const output = openSync(file, "w");
    const child = spawn(command, args, { cwd, env, stdio: ["ignore", output, output] });
    closeSync(output);
    return new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (exitCode) => resolve({ exitCode, printed: readFileSync(file, "utf8") }));
    });
  }

  #environment(): NodeJS.ProcessEnv {
    const { npm_lifecycle_event: _, ...inherited } = process.env;
    return {
      ...inherited,
      FORCE_COLOR: "0",
      HOME: this.#home,
      // `npm test` has one for all that starts the program.
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(this.#folder, "cache"),
      PATH: `${join(this.#folder, "bin")}:${process.env.PATH}`,
    };
  }

  /** The clients that a page connects have their files here. */
  get #home(): string {
    return join(this.#folder, "home");
  }

  #runs = 0;
}

/** The page that begins in an empty folder. All others begin in a copy of the example workspace. */
const fromNothing = "docs/guides/five-minutes.md";

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
