import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { describe, expect, it, vi } from "vitest";
import { cleanEnvironment, program } from "../cli/testing/spawn-cli.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { RegistryFollower } from "./registry-follower.ts";
import { serve } from "./serve.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const patience = { timeout: 30_000, interval: 50 };

describe("who follows the registry", () => {
  it("is asked to read once for each change, and again when it could not", async () => {
    let version = 1;
    const warn = vi.fn();
    const follower = new RegistryFollower({ read: async () => version }, { ...silent, warn });
    let isBroken = false;
    const broken = {
      refresh: vi.fn(async () => void (isBroken && (await Promise.reject(new Error("away"))))),
    };
    const steady = { refresh: vi.fn(async () => {}) };
    follower.follow(broken);
    follower.follow(steady);
    try {
      await vi.waitFor(() => expect(broken.refresh).toHaveBeenCalledTimes(1), patience);
      isBroken = true;
      version = 2;
      await vi.waitFor(() => expect(broken.refresh.mock.calls.length).toBeGreaterThan(2), patience);
      expect(steady.refresh).toHaveBeenCalledTimes(2);
      isBroken = false;
      const calls = broken.refresh.mock.calls.length;
      await vi.waitFor(() => expect(broken.refresh).toHaveBeenCalledTimes(calls + 1), patience);
      expect(warn).toHaveBeenCalledTimes(1);
    } finally {
      await follower.close();
    }
  });

  it("waits for nobody else, is not asked twice at a time, and is complained of by itself", async () => {
    let version = 1;
    const warn = vi.fn();
    const follower = new RegistryFollower({ read: async () => version }, { ...silent, warn });
    const gate = Promise.withResolvers<void>();
    const slow = { refresh: vi.fn(() => gate.promise) };
    const quick = { refresh: vi.fn(async () => {}) };
    const broken = ["one", "another"].map((reason) => ({
      refresh: vi.fn(() => Promise.reject(new Error(`${reason} is away`))),
    }));
    for (const part of [slow, quick, ...broken]) follower.follow(part);
    await vi.waitFor(() => expect(quick.refresh).toHaveBeenCalledTimes(1), patience);
    version = 2;
    await vi.waitFor(() => expect(quick.refresh).toHaveBeenCalledTimes(2), patience);
    await vi.waitFor(() => expect(broken[1]!.refresh.mock.calls.length).toBeGreaterThan(2), patience);
    expect(slow.refresh).toHaveBeenCalledTimes(1);
    expect(warn.mock.calls.map(([text]) => String(text).replace(/^.*: /, "")).sort()).toEqual([
      "another is away",
      "one is away",
    ]);
    let isClosed = false;
    const closing = follower.close().then(() => {
      isClosed = true;
    });
    await new Promise(setImmediate);
    expect(isClosed).toBe(false);
    gate.resolve();
    await closing;
  });
});

it("`toolrack mcp` follows what is done on the server beside it", { timeout: 120_000 }, async () => {
  const odd = fileURLToPath(new URL("../mcp/connect/testing/odd-server.fixture.mjs", import.meta.url));
  const entry = { command: process.execPath, args: [odd] };
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "mcp.json": JSON.stringify({ mcpServers: { q: entry } }),
  });
  const serving = await serve(workspace.directory, { logger: silent, port: 0 });
  const [command = "", ...words] = program;
  const client = new Client({ name: "test", version: "1" });
  const ask = async (path: string, method: string, body: object) => {
    const headers = { authorization: `Bearer ${serving.token}`, "content-type": "application/json" };
    const response = await fetch(new URL(path, serving.url), { method, headers, body: JSON.stringify(body) });
    expect(response.status).toBe(200);
  };
  const says = async (name: string, text: RegExp) => {
    const answer = await client.callTool({ name, arguments: { text: "hello" } }).catch(String);
    expect(JSON.stringify(answer)).toMatch(text);
  };
  try {
    await client.connect(
      new StdioClientTransport({
        command,
        args: [...words, "mcp"],
        cwd: workspace.directory,
        // All of its values are texts.
        env: cleanEnvironment() as Record<string, string>,
        stderr: "ignore",
      }),
    );
    await vi.waitFor(() => says("mcp_q_echo", /"hello"/), patience);
    await ask("/api/mcp-servers/q", "PATCH", { enabled: false });
    await vi.waitFor(() => says("mcp_q_echo", /switched off/), patience);
    await ask("/api/mcp-servers/q", "PATCH", { enabled: true });
    await vi.waitFor(() => says("mcp_q_echo", /"hello"/), patience);
    await ask("/api/mcp-servers", "POST", { key: "added", entry });
    await vi.waitFor(() => says("mcp_added_echo", /"hello"/), patience);
    await ask("/api/tools/mcp_q_echo", "PATCH", { enabled: false });
    await vi.waitFor(() => says("mcp_q_echo", /switched off/), patience);
  } finally {
    await client.close();
    await serving.close();
  }
});
