import { cp } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serve } from "../../rack/serve.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";
import { cleanEnvironment, program } from "../testing/spawn-cli.ts";

const examples = resolve(import.meta.dirname, "../../../../../examples/workspace");
const logger = { debug() {}, info() {}, warn() {}, error() {} };

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "tools/wipe.js": `import { Tool } from "@toolrack/core";
export default Tool.define({ name: "wipe", description: "Wipes. ".repeat(60), metadata: { dangerous: true },
  parameters: { type: "object", properties: {} }, execute: async () => "wiped" });`,
  });
  await cp(join(examples, "mcp-servers"), join(workspace.directory, "mcp-servers"), { recursive: true });
  await cp(join(examples, "mcp.json"), join(workspace.directory, "mcp.json"));
});
afterAll(() => workspace[Symbol.asyncDispose]());

const cli = (...words: string[]) => runCli(words, { cwd: workspace.directory });
const counted = async () => JSON.parse((await cli("list", "--json")).stdout).tools.length;

describe("tools that only a server has", { timeout: 180_000 }, () => {
  it("are as many in the list, with and without a server, as the server says and its API counts", async () => {
    const alone = await counted();
    const serving = await serve(workspace.directory, { logger, port: 0 });
    try {
      const headers = { authorization: `Bearer ${serving.token}` };
      const response = await fetch(`${serving.url}/api/tools`, { headers });
      const { total } = (await response.json()) as { total: number }; // The API answers in this form.
      expect(await counted()).toBe(total);
      expect(alone).toBe(total);
      expect((await cli("call", "mcp_calendar_weekday", "date=2026-11-18")).stdout).toMatch(/Wednesday/);
      const unknown = await cli("call", "no_such_tool");
      expect([unknown.code, unknown.stderr]).toEqual([4, expect.stringContaining("There is no tool named")]);
      expect((await cli("show", "mcp_calendar_weekday")).stdout).toContain("mcp server calendar");
      expect((await cli("search", "which", "weekday")).stdout).toContain("mcp_calendar_weekday");
    } finally {
      await serving.close();
    }
  });

  it("are brought by MCP servers that the command starts, and says so, when no server runs", async () => {
    const { stdout, stderr } = await cli("call", "mcp_calendar_weekday", "date=2026-11-18");
    expect(stdout).toMatch(/Wednesday/);
    expect(stderr).toMatch(/^Starting 1 MCP server for this command: calendar\./);
  });

  it("stand below the workspace's own, with descriptions cut though nobody sees a terminal", async () => {
    const [, first = "", ...others] = (await cli("list")).stdout.trimEnd().split("\n");
    expect(first).toMatch(/^wipe +Wipes\. .{60,75}… +tools\/wipe\.js$/);
    expect(others.at(-1)).toContain("built-in");
  });
});

it("answers the question of a rack that an MCP client started, which says where the question waits", {
  timeout: 180_000,
}, async () => {
  const [command = "", ...words] = program;
  const transport = new StdioClientTransport({
    command,
    args: [...words, "mcp", "--dir", workspace.directory],
    env: cleanEnvironment() as Record<string, string>,
    stderr: "ignore",
  });
  // This client cannot be asked.
  const client = new Client({ name: "mute", version: "1" });
  const told = Promise.withResolvers<string>();
  await client.connect(transport);
  try {
    const calling = client.callTool({ name: "wipe", arguments: {} }, undefined, {
      onprogress: ({ message = "" }) => told.resolve(message),
    });
    const id = /toolrack approvals approve (\w+)/.exec(await told.promise)?.[1] ?? "";
    expect((await cli("approvals")).stdout).toContain(id);
    expect((await cli("approvals", "approve", id)).stderr).toMatch(/^allowed: wipe/);
    expect(await calling).toMatchObject({ content: [{ text: "wiped" }] });
    const { callId } = JSON.parse((await cli("logs", "--json")).stdout.trim().split("\n").at(-1) ?? "");
    // The log has the call a moment before the store has its end.
    let { stdout } = await cli("calls", "show", callId);
    while (/ running /.test(stdout)) ({ stdout } = await cli("calls", "show", callId));
    expect(stdout).toMatch(/completed .* mute 1\n/);
    const late = await cli("approvals", "deny", id);
    expect([late.code, late.stderr]).toEqual([1, expect.stringContaining("was decided already")]);
  } finally {
    await client.close();
  }
});
