import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serve } from "../rack/serve.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { cleanEnvironment, program } from "./testing/spawn-cli.ts";

/** Adds a line to a file when the program ends, or starts another in its place: which files it has loaded. */
const tellLoaded = `
  import { appendFileSync } from "node:fs";
  import { registerHooks } from "node:module";
  const loaded = [];
  const tell = () => appendFileSync(process.env.LOADED_FILES, JSON.stringify(loaded) + "\\n");
  registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
  process.on("exit", tell);
  const { execve } = process;
  if (execve) process.execve = (...args) => { tell(); execve(...args); };`;

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "tools/.keep": "",
    "toolrack.config.mjs": "export default { builtins: false };",
  });
  // Compiled once, so that the programs below find the config in the cache.
  await (await workspace.open()).close();
});
afterAll(() => workspace[Symbol.asyncDispose]());

/** The names of the files that a program loaded, without the parts of Node. */
const ownFiles = (loaded: readonly string[]) =>
  loaded.filter((url) => url.startsWith("file:")).map((url) => url.slice(url.lastIndexOf("/") + 1));

describe("a command loads only what it needs", { timeout: 180_000 }, () => {
  it.each([["--version"], ["--help"], ["lst"]])("%s: nothing of core", async (word) => {
    const [loaded] = await filesLoadedBy(word);
    expect(loaded).toContainEqual(expect.stringContaining("/commander/"));
    expect(loaded!.filter(isOfCore)).toEqual([]);
  });

  it("mcp: a rack without what its workspace does not use, and before it at most a file to restart itself", async () => {
    const programs = await filesLoadedBy("mcp", "--no-watch");
    // Where the program cannot move its streams out of the way of tools, it starts itself again with streams that are.
    const last = programs.pop()!;
    for (const loaded of programs) expect(ownFiles(loaded)).toEqual(["main.ts", "restart.ts"]);
    expect(last.filter(isOfCore)).not.toEqual([]);
    expect(last).toContainEqual(expect.stringContaining("/sandbox/dependencies.ts"));
    const needless =
      /\/node_modules\/(?:yaml|ajv|esbuild\/lib|chokidar|zod|@modelcontextprotocol|pg|mysql2)\//;
    expect(last.filter((url) => needless.test(url))).toEqual([]);
    expect(last.filter((url) => /\/server\/src\/(?:http|chat|builtin-tools)\/(?!wire)/.test(url))).toEqual(
      [],
    );
  });

  it("mcp beside a running server: the bridge to it, and nothing of the rack", async () => {
    const silent = { debug() {}, info() {}, warn() {}, error() {} };
    const server = await serve(workspace.directory, { logger: silent, port: 0 });
    try {
      const [loaded, ...others] = await filesLoadedBy("mcp");
      expect(others).toEqual([]);
      // Of core, only the file with `isRecord`, which messages of MCP are read with.
      const own = loaded!.filter(
        (url) => url.includes("/packages/") && !url.endsWith("/core/src/schema/visit.ts"),
      );
      expect(own).toContainEqual(expect.stringContaining("/cli/stdio-bridge.ts"));
      expect(
        own.filter((url) => isOfCore(url) || /\/(rack|mcp\/serve|store|access|config)\//.test(url)),
      ).toEqual([]);
      expect(own.length).toBeLessThan(30);
    } finally {
      await server.close();
    }
  });
});

function isOfCore(url: string): boolean {
  return /packages\/core\/|@toolrack\/core\//.test(url);
}

async function filesLoadedBy(...words: readonly string[]): Promise<string[][]> {
  const [node, ...rest] = program;
  const hook = `--import=data:text/javascript,${encodeURIComponent(tellLoaded)}`;
  const file = join(workspace.directory, `loaded-by-${words.join("")}`);
  const child = spawn(node!, [hook, ...rest, ...words], {
    cwd: workspace.directory,
    env: cleanEnvironment({ LOADED_FILES: file }),
    stdio: ["pipe", "ignore", "ignore"],
  });
  // For mcp this is a client that goes away at once.
  child.stdin.end();
  await once(child, "close");
  const lines = (await readFile(file, "utf8")).trim().split("\n");
  return lines.map((line) => JSON.parse(line));
}
