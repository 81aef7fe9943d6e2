import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, it, vi } from "vitest";
import { cleanEnvironment, program } from "../cli/testing/spawn-cli.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { serve } from "./serve.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const patience = { timeout: 30_000, interval: 50 };

it("`toolrack mcp --no-join` follows what is done on the server beside it", {
  timeout: 120_000,
}, async () => {
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
        args: [...words, "mcp", "--no-join"],
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
