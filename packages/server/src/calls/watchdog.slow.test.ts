import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { cleanEnvironment, program } from "../cli/testing/spawn-cli.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

/** Three ways to keep the event loop from turning: code, a pattern of the tool's own, and promises that wait for nothing. */
const tools = `
import { writeFileSync } from "node:fs";
import { Tool } from "@toolrack/core";
const none = { type: "object", properties: {} };
const begun = (name) => writeFileSync(name + ".begun", "");
export const spin = Tool.define({ name: "spin", description: "Spins.", parameters: none,
  execute: async () => { begun("spin"); (function spinsForEver() { for (;;); })(); } });
export const match = Tool.define({ name: "match", description: "Matches.", parameters: none,
  execute: async () => { begun("match"); (function matchesForEver() { /^((\\w|\\w)+)+!/.test("a".repeat(80)); })(); } });
export const promise = Tool.define({ name: "promise", description: "Promises.", parameters: none,
  execute: async () => { begun("promise"); for (;;) await null; } });
`;

describe("the watchdog of a server", { timeout: 180_000 }, () => {
  let workspace: TemporaryWorkspace;
  const started: ChildProcess[] = [];

  beforeAll(async () => {
    workspace = await TemporaryWorkspace.create({ "tools/blocking.ts": tools });
  });

  afterAll(async () => {
    for (const child of started) child.kill("SIGKILL");
    await workspace[Symbol.asyncDispose]();
  });

  function start(...words: string[]): ChildProcess {
    const [file, ...before] = program;
    const child = spawn(file!, [...before, ...words], { cwd: workspace.directory, env: cleanEnvironment() });
    started.push(child);
    return child;
  }

  /** The tool itself runs, so that from now on the loop stands still. */
  async function begun(tool: string): Promise<void> {
    const file = join(workspace.directory, `${tool}.begun`);
    await vi.waitFor(() => expect(existsSync(file)).toBe(true), { timeout: 120_000 });
    await workspace.remove(`${tool}.begun`);
  }

  /** Sends the signal until it is heard: the thread takes a moment to start, which on a busy machine is a long one. */
  async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<unknown[]> {
    const closed = once(child, "close");
    const timer = setInterval(() => child.kill(signal), 500);
    return closed.finally(() => clearInterval(timer));
  }

  const requests = [
    { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } } },
    { jsonrpc: "2.0", method: "notifications/initialized" },
    { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "spin", arguments: {} } },
  ]; // biome-ignore format: one message a line

  it("ends one that speaks MCP over stdio and cannot hear the signal", async () => {
    const child = start("mcp", "--no-watch");
    const told = text(child.stderr!);
    child.stdout!.resume();
    child
      .stdin!.on("error", () => {})
      .write(requests.map((request) => `${JSON.stringify(request)}\n`).join(""));
    await begun("spin");
    expect(await ended(child, "SIGTERM")).toEqual([null, "SIGTERM"]);
    expect(await told).toContain("spinsForEver");
  });

  it("ends one that speaks MCP over stdio when whoever started it has gone", async () => {
    await workspace.write("requests.txt", requests.map((request) => `${JSON.stringify(request)}\n`).join(""));
    // A shell with the server in the background. It stays until it is killed, and the server's input until this test ends.
    const script = 'cat requests.txt - <&3 2>/dev/null | "$@" & read line <&3';
    const shell = spawn("sh", ["-c", script, "sh", ...program, "mcp", "--no-watch"], {
      cwd: workspace.directory,
      env: cleanEnvironment(),
      stdio: ["ignore", "pipe", "pipe", "pipe"],
    });
    started.push(shell);
    const told = text(shell.stderr!);
    shell.stdout!.resume();
    await begun("spin");
    shell.kill("SIGKILL");
    expect(await told).toContain(
      "The process that started it is gone, so it is ended here. Calls under way: spin (",
    );
  });

  it.each([
    ["spin", "SIGTERM", "spinsForEver"],
    ["match", "SIGINT", "matchesForEver"],
    ["promise", "SIGTERM", ""],
  ] as const)(
    "ends one that %s keeps from hearing %s, and says what it was doing",
    async (tool, signal, place) => {
      const child = start("serve", "--port", "0", "--json", "--no-watch");
      const [line] = await once(createInterface(child.stdout!), "line");
      child.stdout!.resume();
      const told = text(child.stderr!);
      const { url } = JSON.parse(line);
      const token = readFileSync(join(workspace.directory, ".toolrack/token"), "utf8").trim();
      const call = fetch(`${url}/api/tools/${tool}/calls`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ arguments: {} }),
      }).catch(() => undefined);
      await begun(tool);

      expect(await ended(child, signal)).toEqual([null, signal]);
      await call;
      const words = await told;
      expect(words).toContain(`It was sent ${signal}, so it is ended here. Calls under way: ${tool} (`);
      expect(words).toContain(place);
      const log = readFileSync(join(workspace.directory, "log/ToolBox.log"), "utf8");
      expect(log).toContain(`It was sent ${signal}`);
    },
  );
});
