import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { program } from "../cli/testing/spawn-cli.ts";
import { spawnLines } from "../mcp/serve/testing/spawn-lines.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { type Serving, serve } from "./serve.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** An MCP server that says nothing before there is a file "go" in the workspace. */
const slow = `import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
const result = ({ method }) =>
  method === "initialize"
    ? { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "slow", version: "1" } }
    : { tools: [{ name: "late", inputSchema: { type: "object" } }] };
for await (const line of createInterface(process.stdin)) {
  const message = JSON.parse(line);
  while (!existsSync("go")) await wait(20);
  if (message.id !== undefined)
    console.log(JSON.stringify({ jsonrpc: "2.0", id: message.id, result: result(message) }));
}`;

const files = (listWait: number) => ({
  "toolrack.config.js": `export default ${JSON.stringify({ builtins: false, mcp: { listWait } })};`,
  "slow.mjs": slow,
  "mcp.json": JSON.stringify({ mcpServers: { s: { command: process.execPath, args: ["slow.mjs"] } } }),
});

const _meta = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};
const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta } };

async function namesOn({ url, token }: Serving): Promise<string[]> {
  const response = await fetch(`${url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/list",
    },
    body: JSON.stringify(list),
  });
  const { result } = (await response.json()) as { result: { tools: { name: string }[] } }; // As the protocol says.
  return result.tools.map(({ name }) => name);
}

it("the first list waits for an MCP server that nobody has listed yet", { timeout: 60_000 }, async () => {
  await using workspace = await TemporaryWorkspace.create(files(60_000));
  const serving = await serve(workspace.directory, { logger: silent, port: 0 });
  try {
    const isAnswered = vi.fn();
    const listed = namesOn(serving).finally(isAnswered);
    // A request that the wait does not concern is answered meanwhile.
    await fetch(`${serving.url}/healthz`);
    expect(isAnswered).not.toHaveBeenCalled();
    await writeFile(join(workspace.directory, "go"), "");
    expect(await listed).toContain("mcp_s_late");
  } finally {
    await serving.close();
  }
});

it("a list does not wait for a server whose tools are known, and by itself at most as long as it may", {
  timeout: 60_000,
}, async () => {
  await using workspace = await TemporaryWorkspace.create({ ...files(60_000), go: "" });
  const before = await serve(workspace.directory, { logger: silent, port: 0 });
  expect(await namesOn(before)).toContain("mcp_s_late");
  await before.close();
  await rm(join(workspace.directory, "go"));
  const known = await serve(workspace.directory, { logger: silent, port: 0 });
  expect(await namesOn(known)).toContain("mcp_s_late");
  await known.close();

  await using other = await TemporaryWorkspace.create(files(200));
  const limited = await serve(other.directory, { logger: silent, port: 0 });
  expect(await namesOn(limited)).not.toContain("mcp_s_late");
  await limited.close();
});

it("`toolrack mcp` waits in the same way", {
  timeout: 60_000,
}, async () => {
  await using workspace = await TemporaryWorkspace.create(files(60_000));
  setTimeout(() => void writeFile(join(workspace.directory, "go"), ""), 1_000);
  const words = [...program, "mcp", "--dir", workspace.directory];
  const { lines } = await spawnLines(words, [list], ({ length }) => length > 0);
  expect(lines[0]).toContain("mcp_s_late");
});
