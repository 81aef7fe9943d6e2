import { describe, expect, it, vi } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

describe("toolrack.config", () => {
  it("is optional", async () => {
    await using workspace = await TemporaryWorkspace.create();
    expect((await workspace.open()).config).toEqual({});
  });

  it("that is no module is not passed over without a word", async () => {
    await using workspace = await TemporaryWorkspace.create({ "toolrack.config.json": '{ "timeout": 5 }' });
    expect((await workspace.open()).config).toEqual({});
    expect(workspace.messages.join("\n")).toMatch(
      /toolrack\.config\.json is not read\. Write it as toolrack\.config\.ts/,
    );
  });

  it("says which key is wrong and what is near it", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": "export default { toools: ['x'], timeout: 'soon' };",
    });
    await expect(workspace.open()).rejects.toThrow(/toools.*tools[\s\S]*timeout|timeout[\s\S]*toools/);
  });

  it("says where a key belongs that stands outside its group", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": "export default { port: 8080, hosts: ['example.com'] };",
    });
    await expect(workspace.open()).rejects.toThrow(
      /`port` is written as `server\.port`\..*`hosts` is written as `sandbox\.grants\.NAME\.hosts`/,
    );
  });

  it("says which grant of a host grants nothing, and what to write", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.mjs": `export default { sandbox: { grants: { rates: { hosts: ["api.example.com", "https://other.example.com/v1"] } } } };`,
    });
    await expect(workspace.open()).rejects.toThrow(
      /sandbox\.grants\.rates\.hosts\[1\].*Write "other\.example\.com"/,
    );
  });

  it("says which pattern of tools could fit none, and what to write", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.mjs": `export default { mcp: { alwaysListed: ["mcp:git", "mcp:"] }, sandbox: { grants: { rates: { tools: ["mcp:*"] } } } };`,
    });
    await expect(workspace.open()).rejects.toThrow(
      /mcp\.alwaysListed\[1\]: .*Write mcp:KEY.*sandbox\.grants\.rates\.tools\[0\]: .*Write mcp_\*/,
    );
  });

  it("says which variable has such a pattern", async () => {
    await using workspace = await TemporaryWorkspace.create();
    vi.stubEnv("TOOLRACK_MCP_ALWAYS_LISTED", "web_*,mcp:git/");
    try {
      await expect(workspace.open()).rejects.toThrow(/TOOLRACK_MCP_ALWAYS_LISTED.*Write mcp:git/);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it("refuses a password in a provider's address, and does not show it", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.mjs": `export default { providers: { far: { baseURL: "https://user:PASSWORDX@models.example/v1" } } };`,
    });
    const error: Error = await workspace.open().then(
      () => expect.fail("it opened"),
      (thrown) => thrown,
    );
    expect(error.message).toMatch(/providers\.far\.baseURL has a user name or a password.*headers: \{/);
    expect(error.message).not.toContain("PASSWORDX");
  });

  it("that does not compile or throws is named with its line", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": "export default {\n  tools: [\n",
    });
    await expect(workspace.open()).rejects.toMatchObject({ name: "LoadError", line: 3 });
  });

  it("takes other folders, roots and a log file, and can leave the built-ins out", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.mjs": `export default { tools: ["a", "b"], roots: ["../elsewhere"], builtins: false, log: { file: "calls.jsonl" } };`,
      "a/x.ts":
        "export default { name: 'x', description: '', inputSchema: { type: 'object' }, handler: () => 'x' };",
      "b/y.ts":
        "export default { name: 'y', description: '', inputSchema: { type: 'object' }, handler: () => 'y' };",
    });
    const app = await workspace.open();
    expect(
      app.registry
        .list()
        .map((info) => info.name)
        .sort(),
    ).toEqual(["buildReload_tool", "internal_x", "internal_y", "log_tool"]);
    expect(app.workspace.roots).toHaveLength(2);
    expect(app.log.file.endsWith("calls.jsonl")).toBe(true);
  });
});
