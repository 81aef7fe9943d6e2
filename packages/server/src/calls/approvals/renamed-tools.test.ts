import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import { serve } from "../../rack/serve.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";

const odd = fileURLToPath(new URL("../../mcp/connect/testing/odd-server.fixture.mjs", import.meta.url));
const logger = { debug() {}, info() {}, warn() {}, error() {} };

it("a tool that is denied stays so when another server takes its name from it", {
  timeout: 120_000,
}, async () => {
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
  });
  const serving = await serve(workspace.directory, { logger, port: 0 });
  const ask = async (method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${serving.token}`, "content-type": "application/json" };
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(new URL(path, serving.url), { method, headers, ...init });
    return JSON.parse(await response.text());
  };
  const add = async (key: string, name: string) => {
    const file = join(workspace.directory, `${key}.json`);
    await writeFile(file, JSON.stringify([{ name, inputSchema: { type: "object" } }]));
    const entry = { command: process.execPath, args: [odd], env: { ODD_TOOLS_FILE: file } };
    await ask("POST", "/api/mcp-servers", { key, entry });
  };
  const nameOf = async (key: string) =>
    (await ask("GET", `/api/mcp-servers/${key}/tools`)).items[0]?.rackName;
  try {
    await add("a_b", "echo");
    await vi.waitFor(async () => expect(await nameOf("a_b")).toBe("mcp_a_b_echo"), { timeout: 30_000 });
    await ask("POST", "/api/approval-rules", { tool: "mcp_a_b_echo", decision: "deny" });
    await add("a", "b_echo");
    const name = await vi.waitFor(
      async () => {
        const found = await nameOf("a_b");
        expect(found).toMatch(/^mcp_a_b_echo_/);
        return found;
      },
      { timeout: 30_000 },
    );
    const answer = await ask("POST", `/api/tools/${name}/calls`, { arguments: { text: "x" } });
    expect(JSON.stringify(answer)).toMatch(/approval rule \S+ denies mcp_a_b_echo/);
  } finally {
    await serving.close();
  }
});
