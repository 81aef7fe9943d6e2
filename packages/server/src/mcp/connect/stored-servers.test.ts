import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { runCli } from "../../cli/testing/run-cli.ts";
import { serve } from "../../rack/serve.ts";
import { openStore } from "../../store/store.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));
const good = { command: process.execPath, args: [odd] };
const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** A rack whose store holds these entries, whoever wrote them. */
async function holding(entries: Readonly<Record<string, unknown>>): Promise<UpstreamRack> {
  const rack = await UpstreamRack.create();
  for (const [key, entry] of Object.entries(entries)) {
    // What another version wrote need not be what the type says.
    await rack.store.mcpServers.put(key, { entry: entry as object });
  }
  await rack.open({});
  return rack;
}

describe("an entry of the store that is not valid", () => {
  it("has failed, says why, and keeps no other from its work", async () => {
    await using rack = await holding({ old: { url: "ftp://example.com/mcp" }, odd: good });
    expect(rack.servers.list()).toMatchObject([
      { key: "odd" },
      {
        key: "old",
        state: "failed",
        circuit: "open",
        place: "store",
        enabled: true,
        transport: "http",
        entry: { url: "ftp://example.com/mcp" },
        reason: expect.stringMatching(
          /not valid\. url: .*http.*Remove it \(.* old\) or give it another entry\.$/,
        ),
      },
    ]);
    expect(rack.messages.filter((text) => text.includes('"old"'))).toHaveLength(1);
    await rack.until("odd", "ready");
    expect((await rack.servers.restart("old")).state).toBe("failed");
    expect(() => rack.servers.login("old", "http://127.0.0.1/callback")).toThrow(/not valid/);
  });

  it("can be switched off and on, replaced and removed", async () => {
    await using rack = await holding({ old: { url: "ftp://example.com/mcp" } });
    const { servers } = rack;
    expect(await servers.update("old", { enabled: false })).toMatchObject({
      state: "disabled",
      enabled: false,
    });
    expect(await servers.update("old", { enabled: true })).toMatchObject({ state: "failed", enabled: true });
    await expect(servers.add("old", good)).rejects.toMatchObject({ code: "mcp_server_exists" });
    await expect(servers.update("old", { entry: { url: "gopher://a" } })).rejects.toThrow(/not valid/);
    await servers.update("old", { entry: good });
    await rack.until("old", "ready");
    expect(await rack.call("mcp_old_echo", { text: "a" })).toMatchObject({ content: "a" });
    await servers.remove("old");
    expect(servers.list()).toEqual([]);
    expect(await rack.store.mcpServers.list()).toEqual([]);
  });

  it("that says of itself that it is switched off is", async () => {
    await using rack = await holding({ one: { enabled: false }, other: { disabled: true, url: "ftp://a" } });
    expect(rack.servers.list().map(({ state }) => state)).toEqual(["disabled", "disabled"]);
  });

  it("may be of any form, and shows no secret", async () => {
    await using rack = await holding({
      both: { command: "a", url: "http://127.0.0.1/mcp", env: { A: "very-secret", B: ["very-secret"] } },
      headers: { url: "http://127.0.0.1/mcp", headers: "Authorization: very-secret" },
      line: { command: "a", args: "--password very-secret" },
      list: ["very-secret"],
      numbers: { command: 5, args: [1, "--password", { a: "very-secret" }] },
      oauth: { url: "http://127.0.0.1/mcp", toolrack: { oauth: { clientSecret: { a: "very-secret" } } } },
      text: "very-secret",
      toolrack: { command: "a", toolrack: 5 },
    });
    const all = rack.servers.list();
    expect(all.map(({ key, state }) => [key, state])).toEqual(
      ["both", "headers", "line", "list", "numbers", "oauth", "text", "toolrack"].map((key) => [
        key,
        "failed",
      ]),
    );
    expect(JSON.stringify([all, rack.messages])).not.toContain("very-secret");
    for (const { key } of all) await rack.servers.remove(key);
    expect(rack.servers.list()).toEqual([]);
  });

  it("takes the sign-in of its key with it when it is removed", async () => {
    await using rack = await holding({ old: { url: "ftp://example.com/mcp" } });
    await rack.secrets.set("mcp-oauth.old", '{"of":"old"}');
    await rack.servers.remove("old");
    expect(await rack.secrets.get("mcp-oauth.old")).toBeUndefined();
  });

  it("is reached over HTTP and from the command line like any other", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
    });
    const store = await openStore({ directory: join(workspace.directory, ".toolrack") });
    await store.mcpServers.put("old", { entry: { url: "ftp://example.com/mcp" } });
    await store.mcpServers.put("other", { entry: { url: "ftp://example.com/mcp" } });
    await store.close();
    const serving = await serve(workspace.directory, { logger: silent, port: 0 });
    const cli = (...words: string[]) => runCli(["mcp-servers", ...words], { cwd: workspace.directory });
    const ask = async (path: string, method = "GET", body?: object) => {
      const headers = { authorization: `Bearer ${serving.token}`, "content-type": "application/json" };
      const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      const response = await fetch(new URL(`/api/mcp-servers${path}`, serving.url), init);
      // What comes back is what the test is about.
      return { status: response.status, body: (await response.json()) as { readonly items?: unknown } };
    };
    try {
      expect((await ask("")).body.items).toMatchObject([{ state: "failed" }, { state: "failed" }]);
      expect((await ask("/old", "PATCH", { enabled: false })).body).toMatchObject({ state: "disabled" });
      expect((await ask("/old", "PATCH", { entry: good, enabled: true })).status).toBe(200);
      expect((await ask("/old/restart", "POST")).body).toMatchObject({ state: "ready" });
      expect((await ask("/old", "DELETE")).body).toEqual({ key: "old" });
      expect((await cli()).stdout).toMatch(/other +failed.*not valid/);
      expect((await cli("show", "other")).stdout).toMatch(/state +failed: .*not valid/);
      expect((await cli("disable", "other")).stderr).toContain("other: disabled");
      expect((await cli("remove", "other")).code).toBe(0);
      expect((await ask("")).body.items).toEqual([]);
    } finally {
      await serving.close();
    }
  });
});

it("a server whose address cannot be known any more can be removed", async () => {
  await using rack = await UpstreamRack.create();
  await rack.open({});
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of the entry.
  await rack.servers.add("lost", { url: "${NOT_SET_ANYWHERE}" });
  await rack.until("lost", "failed");
  await rack.servers.remove("lost");
  expect(rack.servers.list()).toEqual([]);
});

it("a row that is no JSON has failed, and can be removed", async () => {
  await using rack = await UpstreamRack.create();
  await rack.store.mcpServers.put("torn", { entry: good });
  await rack.store.mcpServers.putTool("torn", "echo", {
    approved: { definition: { name: "echo" }, at: 1, by: "ada" },
  });
  const database = new DatabaseSync(join(rack.directory, ".toolrack", "toolrack.db"));
  database.exec(`update mcp_servers set entry = '{"command": "very-secret', catalogue = '{'`);
  database.exec(`update mcp_tools set approved = '{"name'`);
  database.close();
  await rack.open({ odd: good });
  await rack.until("odd", "ready");
  expect(rack.servers.get("torn")).toMatchObject({
    state: "failed",
    reason: expect.stringContaining("not valid"),
  });
  expect(JSON.stringify([rack.servers.list(), rack.messages])).not.toContain("very-secret");
  // Nobody knows any more what was agreed to.
  await rack.servers.update("torn", { entry: good });
  await rack.until("torn", "ready");
  expect(rack.servers.tools("torn").find(({ name }) => name === "echo")?.pin).toBe("quarantined");
  await rack.servers.remove("torn");
  expect(rack.servers.list().map(({ key }) => key)).toEqual(["odd"]);
});

it("of an approval that is no JSON nothing is the same, not even the barest tool", async () => {
  await using rack = await UpstreamRack.create();
  const file = join(rack.directory, "tools.json");
  await writeFile(file, JSON.stringify([{ name: "bare", inputSchema: { type: "object" } }]));
  const approved = { definition: { name: "bare" }, at: 1, by: "ada" };
  await rack.store.mcpServers.putTool("odd", "bare", { approved });
  const database = new DatabaseSync(join(rack.directory, ".toolrack", "toolrack.db"));
  database.exec(`update mcp_tools set approved = '{"name'`);
  database.close();
  await rack.open({ odd: { ...good, env: { ODD_TOOLS_FILE: file } } });
  await rack.until("odd", "ready");
  expect(rack.servers.tools("odd")).toMatchObject([
    { pin: "quarantined", changes: [{ path: "approved", before: "It cannot be read any more." }] },
  ]);
  expect(rack.registry.require("mcp_odd_bare").disabled).toBe(true);
});
