import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";
import type { Check } from "./doctor-state.ts";

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "tools/readme.txt": "",
  });
});
afterAll(() => workspace[Symbol.asyncDispose]());

async function checks(env: Record<string, string> = {}): Promise<Map<string, Check>> {
  const { stdout } = await runCli(["doctor", "--json"], {
    cwd: workspace.directory,
    env: { TOOLRACK_KEYRING: "off", ...env },
  });
  const { checks: all } = JSON.parse(stdout) as { checks: Check[] };
  return new Map(all.map((check) => [check.name, check]));
}

describe("toolrack doctor", { timeout: 180_000 }, () => {
  it("says where the server's own things are before there are any", async () => {
    const found = await checks();
    expect(found.get("store")).toMatchObject({ status: "ok", message: expect.stringContaining("SQLite; ") });
    expect(found.get("key")?.message).toMatch(/^none yet; .* in a file/);
    expect(found.get("token")?.message).toMatch(/^none yet/);
    expect(found.get("sandbox")?.message).toMatch(/^level \d/);
    expect(found.get("node")?.message).toBe(process.versions.node);
    expect(found.get("approvals")).toMatchObject({
      status: "ok",
      message: expect.stringContaining("(mcp.approvals: client); all others wait in the inbox"),
    });
    expect(found.has("mcp-servers")).toBe(false);
  });

  it.skipIf(process.platform === "win32")("says what the reduced sandbox does not stop", async () => {
    const { status, message } = (await checks({ PATH: "/nowhere" })).get("sandbox")!;
    expect([status, message]).toEqual([
      "warn",
      expect.stringMatching(/^level 2: bubblewrap is not installed/),
    ]);
    expect(message).toContain("does not stop one that uses an error in Node");
    if (process.getuid?.() !== 0) expect(message).toContain("by signals it can stop the server");
  });

  it.skipIf(process.platform === "win32")("warns of a token that others can read", async () => {
    const file = join(workspace.directory, ".toolrack", "token");
    await mkdir(join(workspace.directory, ".toolrack"), { recursive: true });
    await writeFile(file, "a-token-of-some-length\n");
    await chmod(file, 0o644);
    expect((await checks()).get("token")).toMatchObject({
      status: "warn",
      message: expect.stringContaining("644"),
      remedy: expect.stringContaining("chmod 600"),
    });
  });

  it("says who may approve calls, and which MCP server is the rack itself", async () => {
    const options = { cwd: workspace.directory };
    await runCli(["tokens", "create", "on-call", "--approve", "internal_*"], options);
    const own = { command: "toolrack", args: ["mcp", "--dir", workspace.directory] };
    await workspace.write("mcp.json", JSON.stringify({ mcpServers: { own } }));
    const found = await checks({ TOOLRACK_MCP_APPROVALS: "stdio" });
    expect(found.get("approvals")?.message).toMatch(/over stdio only.*May approve: on-call/);
    expect(found.get("mcp-servers")).toMatchObject({
      status: "fail",
      message: expect.stringContaining('"own": It is this rack itself'),
    });
    await workspace.remove("mcp.json");
  });

  it("warns of a config that is not read", async () => {
    await workspace.write("toolrack.config.json", "{}");
    expect((await checks()).get("config")).toMatchObject({
      status: "warn",
      message: expect.stringContaining("toolrack.config.json is not read"),
      remedy: expect.stringContaining("toolrack.config.ts"),
    });
    await workspace.remove("toolrack.config.json");
    expect((await checks()).get("config")?.status).toBe("ok");
  });

  it("fails for a database that does not answer, without showing its password", async () => {
    const found = await checks({ DATABASE_URL: "postgres://ann:pass-of-ann@127.0.0.1:1/db" });
    expect(found.get("store")).toMatchObject({
      status: "fail",
      message: expect.stringContaining("postgres://127.0.0.1:1/db"),
      remedy: expect.stringContaining("DATABASE_URL"),
    });
    expect(JSON.stringify([...found])).not.toContain("pass-of-ann");
  });
});
