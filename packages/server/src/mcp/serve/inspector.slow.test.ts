import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { program } from "./testing/serve-workspace.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";

const VERSION = "2.12.0";
const LIMIT = 300_000;
/** Installed once, and used again by later runs. */
const folder = fileURLToPath(
  new URL(`../../../../../node_modules/.cache/toolrack-inspector-${VERSION}`, import.meta.url),
);

const installed = await install();
if (typeof installed === "object")
  console.warn(`SKIPPED: the MCP inspector could not be installed. ${installed.reason}`);

let rack: ServedRack;

describe.skipIf(typeof installed === "object")("the official inspector", () => {
  beforeAll(async () => {
    rack = await ServedRack.open({
      "tools/all.ts": toolFile(
        'name: "echo", parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] }, execute: async ({ input }) => "echo " + input.text',
        'name: "fails", execute: async () => { throw new Error("No."); }',
      ),
    });
  }, LIMIT);
  afterAll(() => rack?.[Symbol.asyncDispose](), LIMIT);

  const http = () => [
    `${rack.serving.url}/mcp`,
    "--transport",
    "http",
    "--header",
    `Authorization: Bearer ${rack.token}`,
  ];
  const stdio = () => [...program, "mcp", "--dir", rack.workspace.directory];

  test.each([
    ["legacy", "HTTP", http],
    ["modern", "HTTP", http],
    ["legacy", "stdio", stdio],
    ["modern", "stdio", stdio],
  ] as const)(
    "lists and calls in the %s era over %s",
    async (era, _, target) => {
      const options = ["--protocol-era", era, "--format", "json", "-q"];
      const listed = await inspect([...target(), ...options, "--method", "tools/list"]);
      expect(listed.code, listed.errors).toBe(0);
      expect(listed.output).toContain('"echo"');
      const call = ["--method", "tools/call", "--tool-name"];
      const called = await inspect([...target(), ...options, ...call, "echo", "--tool-arg", "text=hi"]);
      expect(called.code, called.errors).toBe(0);
      expect(called.output).toContain("echo hi");
      const failed = await inspect([...target(), ...options, ...call, "fails"]);
      expect(failed.code).toBe(5);
    },
    LIMIT,
  );

  test("finds no schema that a client could not use", { timeout: LIMIT }, async () => {
    const { code, errors } = await inspect([
      ...http(),
      "--protocol-era",
      "modern",
      "--method",
      "tools/list",
      "--strict",
    ]);
    expect(code, errors).toBe(0);
  });
});

/** The words of the program, or why there are none. In CI that is a failure. */
async function install(): Promise<string | { readonly reason: string }> {
  const manifest = join(folder, "node_modules/@modelcontextprotocol/inspector/package.json");
  try {
    const found = await readFile(manifest, "utf8").catch(() => undefined);
    if (found === undefined) {
      await mkdir(folder, { recursive: true });
      await writeFile(join(folder, "package.json"), '{ "private": true }');
      const pnpm = join(dirname(createRequire(import.meta.url).resolve("pnpm")), "bin/pnpm.mjs");
      const words = [pnpm, "add", "--ignore-scripts", `@modelcontextprotocol/inspector@${VERSION}`];
      const { code, output, errors } = await run([process.execPath, ...words], folder);
      if (code !== 0) throw new Error(`${output}\n${errors}`.trim().slice(-1_000));
    }
    const { bin } = JSON.parse(await readFile(manifest, "utf8"));
    return join(dirname(manifest), typeof bin === "string" ? bin : bin["mcp-inspector"]);
  } catch (thrown) {
    if (process.env.CI !== undefined) throw thrown;
    return { reason: thrown instanceof Error ? thrown.message : String(thrown) };
  }
}

function inspect(args: readonly string[]) {
  return run([process.execPath, installed as string, "--cli", ...args], folder);
}

async function run(words: readonly string[], cwd: string) {
  const [command, ...args] = words;
  const child = spawn(command!, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    errors += text;
  });
  const [code] = await once(child, "close");
  return { code: code as number | null, output, errors };
}
