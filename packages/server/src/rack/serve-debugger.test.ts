import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cleanEnvironment } from "../cli/testing/spawn-cli.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

const root = join(import.meta.dirname, "../../../..");
const main = join(import.meta.dirname, "../main.ts");
const bin = join(import.meta.dirname, "../../bin/toolrack.js");
const starts: readonly [string, readonly string[]][] = [
  ["itself", ["--conditions=toolrack-source", main]],
  ["the command", [bin]],
  ["npm start", [join(root, "scripts/run.mjs"), main]],
];

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  const silent = { command: process.execPath, args: ["--disable-sigusr1", "-e", "process.stdin.resume()"] };
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    // For a server that is a process, there is another one of our own that watches over it.
    "mcp.json": JSON.stringify({ mcpServers: { silent } }),
    "tools/t.tool.js": `module.exports = { getMetadata: () => ({ id: "t" }), getSchema: () => ({ type: "object", properties: {} }), execute: () => "ran" };`,
  });
});
afterAll(() => workspace[Symbol.asyncDispose]());

/** All processes that came from this one, itself first. */
function processesOf(pid: number): { readonly pid: number; readonly words: string }[] {
  const all = execFileSync("ps", ["-A", "-ww", "-o", "pid=,ppid=,args="], { encoding: "utf8" })
    .trim()
    .split("\n")
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [])
    .map(([, id, parent, words = ""]) => ({ pid: Number(id), parent: Number(parent), words }));
  const found = all.filter((entry) => entry.pid === pid);
  for (const entry of found) found.push(...all.filter(({ parent }) => parent === entry.pid));
  return found;
}

describe.skipIf(process.platform === "win32")("a signal", { timeout: 120_000 }, () => {
  it.each(starts)("does not open the debugger of a server that was started by %s", async (_, words) => {
    const child = spawn(
      process.execPath,
      [...words, "serve", "--dir", workspace.directory, "--port", "0", "--json"],
      { cwd: root, env: cleanEnvironment({ TOOLRACK_KEYRING: "off" }) },
    );
    let said = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => {
        said += text;
      });
    const closed = once(child, "close");
    await expect.poll(() => /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0], { timeout: 60_000 }).toBeDefined();
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0] ?? "";
    const isWatched = () =>
      processesOf(child.pid ?? 0).some((entry) => entry.words.includes("watchdog-main"));
    await expect.poll(isWatched, { timeout: 60_000 }).toBe(true);

    const ours = processesOf(child.pid ?? 0).filter((entry) => entry.words.startsWith(process.execPath));
    for (const { pid } of ours) process.kill(pid, "SIGUSR1");
    for (let request = 0; request < 5; request++) expect((await fetch(`${url}/healthz`)).status).toBe(200);
    child.kill("SIGTERM");
    await closed;
    // What these two print is heard here; of all others, the words that started them say that they do not listen.
    expect(said).not.toMatch(/Debugger listening|inspector/);
    const heard = [main, bin];
    const others = ours.filter((entry) => !heard.some((file) => entry.words.includes(file)));
    expect(others.length).toBeGreaterThan(0);
    for (const entry of others) expect(entry.words).toContain("--disable-sigusr1");
  });
});
