import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startHeaderProxy } from "./testing/header-proxy.ts";
import { conformanceWorkspace, type ServedWorkspace, serveWorkspace } from "./testing/serve-workspace.ts";

const manifest = createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json");
const suite = join(dirname(manifest), "dist/index.js");
const LIMIT = 180_000;

let served: ServedWorkspace;
let proxy: Awaited<ReturnType<typeof startHeaderProxy>>;

beforeAll(async () => {
  served = await serveWorkspace(conformanceWorkspace);
  // The suite cannot be told to send a token.
  proxy = await startHeaderProxy(served.url, { authorization: `Bearer ${served.token}` });
}, LIMIT);

afterAll(async () => {
  proxy?.close();
  await served?.close();
}, LIMIT);

test.each(["2026-07-28", "2025-11-25"])(
  "all that %s requires of a server passes the official suite, and so do the extensions",
  async (revision) => {
    const { code, output } = await runSuite(["--requirements", revision]);
    // Counts of checks say nothing: they are counted where no server is, too.
    const marks = [...output.matchAll(/^([✓✗]) ([\w-]+): /gmu)].map(([, mark, name]) => ({ mark, name }));
    expect(marks.length).toBeGreaterThan(30);
    expect(marks.filter(({ mark }) => mark !== "✓").map(({ name }) => name)).toEqual([]);
    expect(code, output).toBe(0);
  },
  LIMIT,
);

async function runSuite(args: readonly string[]): Promise<{ code: number | null; output: string }> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-conformance-"));
  const all = [suite, "server", "--url", `${proxy.url}/mcp`, "-o", directory, ...args];
  const child = spawn(process.execPath, all, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  }
  const [code] = await once(child, "close");
  await rm(directory, { recursive: true, force: true });
  return { code, output };
}
