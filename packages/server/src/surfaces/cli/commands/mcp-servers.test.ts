import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Serving, serve } from "../../../serve.ts";
import { AuthorizationServer } from "../../../sources/mcp/testing/authorization-server.fixture.ts";
import { ModernHttpServer } from "../../../sources/mcp/testing/modern-http-server.fixture.ts";
import { TemporaryWorkspace } from "../../../testing/temporary-workspace.ts";
import { cleanEnvironment, program, spawnCli } from "../testing/spawn-cli.ts";

const examples = resolve(import.meta.dirname, "../../../../../../examples/workspace");
const logger = { debug() {}, info() {}, warn() {}, error() {} };

let workspace: TemporaryWorkspace;
let serving: Serving;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
  });
  await cp(join(examples, "mcp-servers"), join(workspace.directory, "mcp-servers"), { recursive: true });
  await cp(join(examples, "mcp.json"), join(workspace.directory, "mcp.json"));
  serving = await serve(workspace.directory, { logger, port: 0 });
});
afterAll(async () => {
  await serving.close();
  await workspace[Symbol.asyncDispose]();
});

const mcpServers = (...words: string[]) => spawnCli(["mcp-servers", ...words], { cwd: workspace.directory });

describe("toolrack mcp-servers", { timeout: 60_000 }, () => {
  it("shows the servers of the example workspace, whose tools work", async () => {
    const restarted = await mcpServers("restart", "calendar", "--json");
    expect(JSON.parse(restarted.stdout).server).toMatchObject({ key: "calendar", state: "ready", tools: 2 });
    const { stdout } = await mcpServers();
    expect(stdout).toMatch(/calendar +ready +2 +stdio legacy +calendar 1\.0\.0/);
    expect(stdout).toMatch(/files +disabled/);
    const shown = await mcpServers("show", "calendar");
    expect(shown.stdout).toMatch(/days_between +mcp_calendar_days_between +approved/);
    const input = { from: "2026-07-01", to: "2026-07-28" };
    expect(await serving.app.registry.execute("mcp_calendar_days_between", input)).toMatchObject({
      structured: { days: 27 },
    });
  });

  it("adds, switches, approves and removes one", async () => {
    const added = await mcpServers("add", "second", "--env", "A=b", "--", "node", "mcp-servers/calendar.mjs");
    expect([added.code, added.stderr]).toEqual([0, expect.stringMatching(/^second: (starting|ready)/)]);
    await mcpServers("restart", "second");
    expect((await mcpServers("approve", "second", "weekday")).stderr).toContain("weekday");
    expect((await mcpServers("approve", "second")).stderr).toContain("weekday, days_between");
    const { tools } = JSON.parse((await mcpServers("show", "second", "--json")).stdout);
    const looked = await mcpServers("approve", "second", "weekday", tools[0].hash);
    expect([looked.code, looked.stderr]).toEqual([0, expect.stringContaining("weekday")]);
    const changed = await mcpServers("approve", "second", "weekday", "0123456789");
    expect([changed.code, changed.stderr]).toEqual([
      1,
      expect.stringContaining("changed after it was looked at"),
    ]);
    expect((await mcpServers("disable", "second")).stderr).toContain("second: disabled");
    expect((await mcpServers("remove", "second")).code).toBe(0);
    expect((await mcpServers("remove", "second")).stderr).toContain('There is no MCP server "second"');
    expect((await mcpServers("add", "third")).code).toBe(2);
  });

  it("signs in and out at one that asks for it", async () => {
    await using behind = await ModernHttpServer.start();
    await using authority = await AuthorizationServer.start({ behind: behind.url });
    await mcpServers("add", "guarded", "--url", authority.url);
    await mcpServers("restart", "guarded");
    expect((await mcpServers()).stdout).toMatch(/guarded +needs-auth/);
    const begun = JSON.parse((await mcpServers("login", "guarded", "--json")).stdout);
    const redirect = new URL(begun.url).searchParams.get("redirect_uri");
    expect(redirect).toBe(`${serving.url}/oauth/callback/guarded`);

    const [node = "", ...words] = program;
    const { directory: cwd } = workspace;
    const child = spawn(node, [...words, "mcp-servers", "login", "guarded"], {
      cwd,
      env: cleanEnvironment(),
    });
    const said = text(child.stderr);
    const [page] = await once(createInterface(child.stdout), "line");
    expect(await (await authority.agree(page)).text()).toContain("<h1>Signed in</h1>");
    expect(await said).toContain("Signed in. guarded: ready");
    for (const token of authority.given) expect((await said) + page).not.toContain(token);
    expect((await mcpServers("logout", "guarded")).stderr).toContain("The tokens were taken back.");
    expect((await mcpServers("login", "calendar")).stderr).toContain("it is a process");
    await mcpServers("remove", "guarded");
  });

  it("takes over the servers of another program's file, and says which it could not", async () => {
    const servers = {
      imported: { command: "node", args: ["mcp-servers/calendar.mjs"] },
      calendar: { command: "x" },
    };
    await workspace.write("client.json", `${JSON.stringify({ mcpServers: servers })} // from a client`);
    const outcome = await mcpServers("import", "client.json");
    expect(outcome.stderr).toContain("Added: imported");
    expect(outcome.stderr).toContain('calendar is left out: There is an MCP server "calendar" already.');
  });
});
