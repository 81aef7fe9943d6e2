import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, type TestContext } from "vitest";
import { cleanEnvironment } from "../packages/server/src/cli/testing/spawn-cli.ts";
import { root } from "./docs-pages.ts";

const packages = ["core", "words", "server"].map((name) => join(root, "packages", name));
const olderNode = `node-${process.platform}-${process.arch}`;

/** Where the built console is in the package of the server. */
const CONSOLE = "http/files/";

/** The package that is imported, when it is no file of our own. `__require` is how a bundle writes `require`. */
const imports = /(?:^(?:import|export|\}) ?.*?from |import\(|__require\()"((?:@[^/"]+\/)?[^./"][^/"]*)/gm;

/** Files of the server's package that are neither code nor types nor the console. */
const furtherFiles = ["package/dist/LICENSES.txt", "package/dist/esbuild/package.json"];

/** The programs of the server that are started by their path. */
const programs = [
  "main.js",
  "builtin-tools/database/support/sqlite-child.js",
  "mcp/connect/process/watchdog-main.js",
  "rack/watchdog-thread.js",
  "sandbox/single-file/worker/program.js",
  "store/sqlite-reader-thread.js",
];

/** What somebody has who installed the product: a folder with a config, a tool and a program of their own. */
const project = {
  "package.json": `{ "private": true, "type": "module" }`,
  "toolrack.config.ts": `import { defineConfig } from "toolrack";
export default defineConfig({ databases: { main: "sqlite:main.db" } });`,
  "tools/greet.ts": `import { Tool } from "@toolrack/core";
export default Tool.define({
  name: "greet",
  description: "Greets somebody.",
  parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
  execute: async ({ input }) => \`Hello, \${input.name}!\`,
});`,
  "tools/broken.ts": `import { Tool } from "@toolrack/core";
interface Reason { readonly text: string }
function fail(reason: Reason): never {
  throw new Error(reason.text);
}
export default Tool.define({
  name: "broken",
  description: "Fails.",
  parameters: { type: "object" },
  execute: async () => fail({ text: "no way" }),
});`,
  "tools/count.tool.js": `module.exports = {
  getMetadata: () => ({ id: "count", name: "Count", description: "Counts letters.", version: "1.0.0" }),
  getSchema: () => ({ parameters: { type: "object", properties: { text: { type: "string" } } } }),
  execute: async ({ text }) => text.length + " letters",
};`,
  "program.mjs": `import { Tool, ToolRegistry } from "@toolrack/core";
import { openWorkspace } from "toolrack";
import { closeWorkspaces, testTool } from "toolrack/testing";
console.log(typeof Tool.define, typeof ToolRegistry, typeof openWorkspace);
await testTool("greet", { arguments: { name: "Ada" }, expect: { equals: "Hello, Ada!" } });
await closeWorkspaces();
console.log("tested");`,
  "types.ts": `import { Tool } from "@toolrack/core";
import { type Config, defineConfig } from "toolrack";
import { type Expectation, testTool } from "toolrack/testing";
export const expected: Expectation = { contains: "Ada" };
export const tested: Promise<{ readonly content: string }> = testTool("greet", { expect: expected });
export const config: Config = defineConfig({});
export const tool = Tool.define({
  name: "shout",
  description: "Shouts.",
  parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  execute: async ({ input }) => input.text.toUpperCase(),
});
// @ts-expect-error: were the types lost, this would be no mistake.
export const wrong: number = config;`,
};

describe("the packed product", () => {
  let folder = "";
  let app = "";
  const tarballs: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "toolrack-pack-"));
    for (const directory of packages) tarballs.push(await pack(directory, folder));
    app = join(folder, "app");
    mkdirSync(join(app, "tools"), { recursive: true });
    for (const [file, text] of Object.entries(project)) writeFileSync(join(app, file), text);
    await install(app, tarballs);
  }, 120_000);

  afterAll(() => {
    for (const directory of [folder, ...packages.map((path) => join(path, "dist"))])
      rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
  }, 120_000);

  it("is built JavaScript and types, without sources and without anything made for tests", async () => {
    for (const tarball of tarballs) {
      const files = (await run("tar", ["-tzf", tarball], folder)).trim().split("\n");
      expect(files).toContain("package/dist/index.js");
      expect(files).toContain("package/dist/index.d.ts");
      expect(files.filter((file) => /\.tsx?$/.test(file) && !file.endsWith(".d.ts"))).toEqual([]);
      // The room of saved calls is part of the product, and so is `toolrack/testing`.
      const own = /^package\/dist\/(?:testing\.(?:js|d\.ts)|tests\/[\w-]+\.d\.ts)$/;
      const made = /\b(test|tests|testing|fixture|test-servers?)\b[./]/;
      expect(files.filter((file) => made.test(file) && !own.test(file))).toEqual([]);
      expect(
        files
          .filter((file) => !/^package\/(dist|bin)\/.*\.(js|d\.ts)$/.test(file))
          .filter((file) => !file.startsWith(`package/dist/${CONSOLE}`) && !furtherFiles.includes(file))
          .filter(
            (file) =>
              !/^package\/(data\/(en|zh)\.(words\.txt|rows\.i8|scales\.f32)|NOTICE|LICENSE\.[\w.-]+)$/.test(
                file,
              ),
          )
          .filter(isNotPaper),
      ).toEqual([]);
    }
  });

  it("is bundled into few files that keep the names of functions, with the programs that are started by path", async () => {
    const dist = join(app, "node_modules/toolrack/dist");
    const files = readdirSync(dist, { recursive: true, encoding: "utf8" });
    const scripts = files.filter((file) => file.endsWith(".js") && !file.startsWith(CONSOLE));
    expect(scripts.length).toBeLessThan(200);
    expect(scripts).toEqual(expect.arrayContaining(programs));
    const code = scripts.map((file) => readFileSync(join(dist, file), "utf8")).join("\n");
    expect(code).toMatch(/^async function openRack\(root, options, opened\) \{$/m);
    expect(readFileSync(join(dist, "LICENSES.txt"), "utf8")).toMatch(
      /^commander [\d.]+ \(MIT\)\n\n[\s\S]+?Copyright/m,
    );
  });

  it("brings no install script, and esbuild for all the systems that it has programs for", () => {
    const { packages: installed } = JSON.parse(readFileSync(join(app, "package-lock.json"), "utf8"));
    const scripted = Object.entries<{ hasInstallScript?: boolean }>(installed);
    expect(scripted.flatMap(([name, { hasInstallScript }]) => (hasInstallScript ? [name] : []))).toEqual([]);
    const original = JSON.parse(readFileSync(join(root, "node_modules/esbuild/package.json"), "utf8"));
    expect(installed["node_modules/toolrack"].optionalDependencies).toMatchObject(
      original.optionalDependencies,
    );
  });

  it("takes no more than 80 MB, without Node", async () => {
    const kilobytes = Number.parseInt(await run("du", ["-sk", "node_modules"], app), 10);
    expect(kilobytes).toBeLessThan(80 * 1024);
  });

  it("has a README whose examples work, without addresses of hosts", async () => {
    const [core, server] = ["@toolrack/core", "toolrack"].map((name) =>
      readFileSync(join(app, "node_modules", name, "README.md"), "utf8"),
    );
    for (const text of [core!, server!]) expect(text).not.toMatch(/https?:|\]\(|\bwww\./);
    const [program] = blocksIn(core!, "js");
    const [printed] = blocksIn(core!, "text");
    writeFileSync(join(app, "readme.mjs"), program!);
    expect(await run("node", ["readme.mjs"], app)).toBe(printed);
    const own = join(folder, "readme");
    mkdirSync(join(own, "tools"), { recursive: true });
    writeFileSync(join(own, "package.json"), `{ "private": true, "type": "module" }`);
    const [file] = blocksIn(server!, "js");
    writeFileSync(join(own, /^\/\/ (\S+)/.exec(file!)![1]!), file!);
    symlinkSync(join(app, "node_modules"), join(own, "node_modules"), "dir");
    const commands = blocksIn(server!, "sh")[1]!.trim().split("\n");
    expect(commands.map((line) => line.replace("npx toolrack ", ""))).toEqual([
      "list",
      "call greet name=Ada",
      "serve",
    ]);
    expect(await run("npx", ["toolrack", "list"], own)).toContain("greet");
    expect(await run("npx", ["toolrack", "call", "greet", "name=Ada"], own)).toBe("Hello, Ada!\n");
  }, 30_000);

  it("imports nothing that its own manifest does not bring", async () => {
    for (const name of ["@toolrack/core", "@toolrack/words", "toolrack"]) {
      const directory = join(app, "node_modules", name);
      const { dependencies, optionalDependencies, peerDependencies } = JSON.parse(
        readFileSync(join(directory, "package.json"), "utf8"),
      );
      const brought = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
      const scripts = readdirSync(join(directory, "dist"), { recursive: true, encoding: "utf8" })
        // The console is bundled: it imports nothing, but has texts about imports.
        .filter((file) => /\.(js|d\.ts)$/.test(file) && !file.startsWith(CONSOLE))
        .map((file) => readFileSync(join(directory, "dist", file), "utf8"));
      const names = scripts.flatMap((text) => [...text.matchAll(imports)].map(([, imported]) => imported!));
      // Core has all that it needs in its bundle.
      if (name === "toolrack") expect(names).toContain("@toolrack/core");
      // BullMQ looks for these and goes on without them.
      const optional = ["supports-color", "msgpackr-extract", "@valkey/valkey-glide"];
      const known = [...brought, "#esbuild", ...optional];
      const strangers = names.filter((imported) => !isBuiltin(imported) && !known.includes(imported));
      expect([...new Set(strangers)]).toEqual([]);
    }
  });

  it("gives TypeScript its types", async () => {
    const compiler = join(root, "node_modules/typescript/bin/tsc");
    const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "esnext", "--types", "node"];
    await run(process.execPath, [compiler, ...options, "types.ts"], app);
  });

  describe("on the Node that runs the tests", () => worksWith(() => dirname(process.execPath)));

  describe("on Node 24", () => {
    let bin = "";
    beforeAll(async () => {
      const own = join(folder, "node-24");
      mkdirSync(own);
      writeFileSync(join(own, "package.json"), `{ "private": true }`);
      // Node comes as a package for some systems only; the tests say "skipped" on the others.
      await install(own, [`${olderNode}@24`]).catch(() => undefined);
      bin = join(own, "node_modules", olderNode, "bin");
    }, 60_000);

    worksWith((context) => {
      if (!existsSync(bin)) context.skip(`There is no package ${olderNode}@24 to be had.`);
      return bin;
    });
  });

  function worksWith(nodeFor: (context: TestContext) => string): void {
    it("is imported as a library", async (context) => {
      expect(await run("node", ["program.mjs"], app, nodeFor(context))).toBe(
        "function function function\ntested\n",
      );
    });

    it("calls a tool of the project, and one that runs a process of its own", async (context) => {
      const bin = nodeFor(context);
      expect(await run("npx", ["toolrack", "call", "greet", "name=Ann"], app, bin)).toBe("Hello, Ann!\n");
      const create = ["database=main", "sql=CREATE TABLE IF NOT EXISTS things (id INTEGER)"];
      await run("npx", ["toolrack", "call", "--yes", "internal_database_update", ...create], app, bin);
      const read = ["database=main", "sql=SELECT count(*) AS things FROM things"];
      const rows = await run("npx", ["toolrack", "call", "internal_database_query", ...read], app, bin);
      expect(rows).toContain('1 row from "main"');
    }, 30_000);

    it("runs a tool in the sandbox, and says where a tool has failed", async (context) => {
      const bin = nodeFor(context);
      expect(await run("npx", ["toolrack", "call", "count", "text=abc"], app, bin)).toContain("3 letters");
      await expect(run("npx", ["toolrack", "call", "broken"], app, bin)).rejects.toThrow("no way");
      expect(readFileSync(join(app, "log/ToolBox.log"), "utf8")).toMatch(/fail \([^)]*tools\/broken\.ts:4:/);
    }, 60_000);

    it("lists its tools to a client on stdio, and keeps its compiled code for the next start", async (context) => {
      const tools = await firstList(app, nodeFor(context));
      expect(tools).toEqual(expect.arrayContaining(["greet", "count", "internal_file_read"]));
      expect(readdirSync(join(app, "node_modules/toolrack/.cache"))).not.toEqual([]);
    }, 30_000);

    it("serves the project until SIGTERM", async (context) => {
      const outcome = await serveOnce(app, nodeFor(context));
      expect(outcome.answer).toMatchObject({ status: 200, body: expect.stringContaining("Hello, Bo!") });
      expect(outcome.page).toContain("<title>Toolrack</title>");
      expect(outcome.talk).toContain("Stopped.");
    }, 30_000);
  }
});

/** Starts `npx toolrack serve`, calls a tool over HTTP, and stops everything that was started. */
async function serveOnce(directory: string, bin: string) {
  // A process group of its own: npx starts a shell that does not hand signals on to the program.
  const child = spawn("npx", ["toolrack", "serve", "--port", "0", "--json"], {
    cwd: directory,
    env: environmentWith(bin),
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let talk = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    talk += text;
  });
  const closed = once(child, "close");
  try {
    const lines = createInterface({ input: child.stdout });
    const [line] = await Promise.race([once(lines, "line"), closed.then(() => [undefined])]);
    if (line === undefined) throw new Error(`The server ended before it was ready: ${talk}`);
    const token = readFileSync(join(directory, ".toolrack/token"), "utf8").trim();
    const response = await fetch(`${JSON.parse(line).url}/api/tools/greet/calls`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ arguments: { name: "Bo" } }),
    });
    const answer = { status: response.status, body: await response.text() };
    const page = await (await fetch(JSON.parse(line).url, { headers: { accept: "text/html" } })).text();
    return { answer, page, ...(await stop()) };
  } finally {
    await stop();
  }

  async function stop() {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, "SIGTERM");
    // Closed is not the end of npx but of all that could still write to its outputs: the program as well.
    await closed;
    return { talk };
  }
}

/** The names of the tools that a client of `toolrack mcp` is told of. */
async function firstList(directory: string, bin: string): Promise<string[]> {
  const program = join(directory, "node_modules/toolrack/bin/toolrack.js");
  const child = spawn(join(bin, "node"), [program, "mcp"], { cwd: directory, env: environmentWith(bin) });
  const closed = once(child, "close");
  const clientInfo = { name: "test", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  for (const message of [
    { id: 1, method: "initialize", params },
    { method: "notifications/initialized" },
    { id: 2, method: "tools/list", params: {} },
  ])
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  try {
    for await (const line of createInterface(child.stdout)) {
      const { id, result } = JSON.parse(line);
      if (id === 2) return result.tools.map(({ name }: { name: string }) => name);
    }
    throw new Error("The program ended before it listed its tools.");
  } finally {
    child.stdin.end();
    child.stdout.resume();
    await closed;
  }
}

async function pack(directory: string, destination: string): Promise<string> {
  const args = ["pack", "--silent", "--pack-destination", destination];
  const output = await run("npm", args, directory);
  return join(destination, output.trim().split("\n").at(-1)!);
}

async function install(directory: string, what: readonly string[]): Promise<void> {
  const quick = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
  await run("npm", ["install", ...quick, ...what], directory);
}

/** Gives what the program printed; rejects with what it complained of when it fails. */
async function run(program: string, args: readonly string[], cwd: string, bin = dirname(process.execPath)) {
  const env = environmentWith(bin);
  const { stdout } = await promisify(execFile)(program, args, { cwd, env, maxBuffer: 16 << 20 }).catch(
    (error) => {
      throw new Error(`${error.message}\n${error.stdout}`);
    },
  );
  return stdout;
}

/** The user's environment with this Node first; nothing of the npm that may have started the tests. */
function environmentWith(bin: string): NodeJS.ProcessEnv {
  const environment = cleanEnvironment({ PATH: `${bin}${delimiter}${process.env.PATH}` });
  const ours = ["npm_config_local_prefix", "npm_package_json", "INIT_CWD", "NODE_OPTIONS", "NODE_PATH"];
  // The test command has a cache of its own for what it starts.
  for (const name of [...ours, "NODE_COMPILE_CACHE"]) delete environment[name];
  return environment;
}

function blocksIn(text: string, language: string): string[] {
  const fences = text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm);
  return [...fences].filter(([, found]) => found === language).map(([, , code]) => code!);
}

function isNotPaper(file: string): boolean {
  return !/^package\/(package\.json|README(\.[\w-]+)?\.md|LICENSE)$/.test(file);
}
