import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { AuthorizationServer } from "../../mcp/connect/testing/authorization-server.fixture.ts";
import { ModernHttpServer } from "../../mcp/connect/testing/modern-http-server.fixture.ts";
import { type Serving, serve } from "../../rack/serve.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";
import { cleanEnvironment, program } from "../testing/spawn-cli.ts";

const examples = resolve(import.meta.dirname, "../../../../../examples/workspace");
const oddServer = resolve(import.meta.dirname, "../../mcp/connect/testing/odd-server.fixture.mjs");
const logger = { debug() {}, info() {}, warn() {}, error() {} };

let workspace: TemporaryWorkspace;
let serving: Serving;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
  });
  await cp(join(examples, "mcp-servers"), join(workspace.directory, "mcp-servers"), { recursive: true });
  await cp(join(examples, "mcp.json"), join(workspace.directory, "mcp.json"));
  serving = await serve(workspace.directory, { logger, port: 0, onReload() {} });
});
afterAll(async () => {
  await serving.close();
  await workspace[Symbol.asyncDispose]();
});

const mcpServers = (...words: string[]) => runCli(["mcp-servers", ...words], { cwd: workspace.directory });

describe("toolrack mcp-servers", { timeout: 180_000 }, () => {
  it("shows the servers of the example workspace, whose tools work", async () => {
    const restarted = await mcpServers("restart", "calendar", "--json");
    expect(JSON.parse(restarted.stdout).server).toMatchObject({ key: "calendar", state: "ready", tools: 2 });
    const { stdout } = await mcpServers();
    expect(stdout).toMatch(/calendar +ready +2 +\d+ +stdio legacy +calendar 1\.0\.0/);
    expect(stdout).toMatch(/files +disabled/);
    const shown = await mcpServers("show", "calendar");
    expect(shown.stdout).toMatch(/days_between +mcp_calendar_days_between +\d+ +approved/);
    const input = { from: "2026-07-01", to: "2026-07-28" };
    expect(await serving.app.registry.execute("mcp_calendar_days_between", input)).toMatchObject({
      structured: { days: 27 },
    });
  });

  it("tells what each server and each tool costs a context", async () => {
    await mcpServers("restart", "calendar");
    const { stdout } = await runCli(["list", "--tokens", "--json"], { cwd: workspace.directory });
    const { tokens, sources, tools } = JSON.parse(stdout);
    const [calendar] = sources.filter(({ source }: { source: string }) => source === "mcp server calendar");
    const { server } = JSON.parse((await mcpServers("show", "calendar", "--json")).stdout);
    expect(calendar).toEqual({ source: "mcp server calendar", tools: 2, tokens: server.tokens });
    expect(server.tokens).toBeGreaterThan(50);
    const costs = tools.map((tool: { tokens: number }) => tool.tokens);
    expect(costs).toEqual(costs.toSorted((one: number, other: number) => other - one));
    expect(costs.reduce((sum: number, cost: number) => sum + cost, 0)).toBe(tokens);
    expect(stdout).not.toContain("toolrack_search");
    const printed = await runCli(["list", "--tokens"], { cwd: workspace.directory });
    expect(printed.stdout).toMatch(/^TOKENS +TOOLS +FROM\n/);
    expect(printed.stdout).toMatch(/\d+ +mcp_calendar_days_between +mcp server calendar\n/);
    expect(printed.stderr).toBe(`${tools.length} tools, about ${tokens} tokens of definitions.\n`);
  });

  it("shows what a server says of itself, and approves what it says anew", async () => {
    const words = join(workspace.directory, "words.txt");
    await writeFile(words, "Call echo first.");
    await mcpServers("add", "talker", "--env", `ODD_WORDS_FILE=${words}`, "--", "node", oddServer);
    await mcpServers("restart", "talker");
    await writeFile(words, "Call crash first.");
    await mcpServers("restart", "talker");
    const { stdout } = await mcpServers("show", "talker");
    expect(stdout).toMatch(/^says +Call echo first\.$/m);
    expect(stdout).toContain('- "Call echo first."\n+ "Call crash first."');
    const [, hash = ""] = /approve talker '' (\w+)/.exec(stdout) ?? [];
    expect((await mcpServers("approve", "talker", "")).code).toBe(2);
    expect((await mcpServers("approve", "talker", "", "0123")).stderr).toContain("so nothing was approved");
    expect((await mcpServers("approve", "talker", "", hash)).stderr).toContain("are approved");
    expect((await mcpServers("show", "talker")).stdout).toMatch(/^says +Call crash first\.$/m);
    await mcpServers("remove", "talker");
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

  it("shows what a server that cannot start wrote last, and names what to do where a tool is not known", async () => {
    onTestFinished(async () => void (await mcpServers("remove", "keyless")));
    const script = 'console.error("boom: no key"); process.exit(3)';
    await mcpServers("add", "keyless", "--", "node", "-e", script);
    const restarted = await mcpServers("restart", "keyless");
    // By the time that it is looked at, the next attempt may have begun.
    const why = /keyless[: ]+(?:backoff|starting).*exit code 3.* It wrote: boom: no key/;
    expect(restarted.stderr).toMatch(why);
    expect((await mcpServers()).stdout).toMatch(why);
    const up = await mcpServers("approve", "calendar", "nothing");
    expect(up.stderr).toMatch(/has no tool "nothing"\. See: toolrack mcp-servers show calendar/);
    const off = await mcpServers("approve", "files", "read_file");
    expect(off.stderr).toMatch(/switched off\. Switch it on: toolrack mcp-servers enable files/);
  });

  it("counts the tools that are left out, and names what is not checked of the others", async () => {
    onTestFinished(async () => void (await mcpServers("remove", "odd")));
    const inputSchema = { type: "object", properties: { a: { type: "string", pattern: "(?i)abc" } } };
    const tools = [
      { name: "find", inputSchema },
      { name: "list", inputSchema: { type: "array" } },
    ];
    await workspace.write("odd-tools.json", JSON.stringify(tools));
    const file = join(workspace.directory, "odd-tools.json");
    await mcpServers("add", "odd", "--env", `ODD_TOOLS_FILE=${file}`, "--", "node", oddServer);
    await mcpServers("restart", "odd");
    expect((await mcpServers()).stdout).toMatch(/odd +ready +1 \(1 left out\)/);
    const { stdout } = await mcpServers("show", "odd");
    expect(stdout).toMatch(/find +mcp_odd_find +\d+ +approved/);
    expect(stdout).toMatch(/list +\(left out\) +- +-/);
    expect(stdout).toMatch(
      /find is offered, but its inputSchema\.properties\.a\.pattern is not checked here: It is not a regular/,
    );
    expect(stdout).toMatch(/list is left out: Its inputSchema is of the type "array"/);
  });

  it("signs in and out at one that asks for it", async () => {
    await using behind = await ModernHttpServer.start();
    await using authority = await AuthorizationServer.start({ behind: behind.url });
    onTestFinished(async () => void (await mcpServers("remove", "guarded")));
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
    expect(outcome.code).toBe(0);
    // Once more: everything is there, which is what was wanted.
    const again = await mcpServers("import", "client.json");
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining("Nothing was added.")]);
    await workspace.write("wrong.json", JSON.stringify({ mcpServers: { wrong: { comand: "x" }, odd: 5 } }));
    const wrong = await mcpServers("import", "wrong.json", "--json");
    expect([wrong.code, Object.keys(JSON.parse(wrong.stdout).skipped)]).toEqual([1, ["wrong", "odd"]]);
    await mcpServers("remove", "imported");
  });

  it("leaves out of another program's file nothing without a word, and keeps tools off that were off there", async () => {
    const calendar = { command: "node", args: ["mcp-servers/calendar.mjs"] };
    const first = { ...calendar, env: { PORT: 3000 }, disabledTools: ["weekday"], autoApprove: ["weekday"] };
    const file = { mcpServers: { one: first }, servers: { one: { command: "x" }, two: calendar } };
    const text = JSON.stringify(file).replace('"one"', '"__proto__":{"command":"x"},"one"');
    await workspace.write("both.json", text);
    onTestFinished(
      async () => void (await Promise.all(["one", "two"].map((key) => mcpServers("remove", key)))),
    );
    const { added, skipped } = JSON.parse((await mcpServers("import", "both.json", "--json")).stdout);
    expect(added).toEqual(["one", "two"]);
    expect(new Map(Object.entries(skipped))).toEqual(
      new Map([
        ["__proto__", expect.stringContaining("cannot be the key")],
        ["servers.one", 'It stands under "mcpServers" too, and that one counts.'],
      ]),
    );
    await mcpServers("restart", "one");
    const { server } = JSON.parse((await mcpServers("show", "one", "--json")).stdout);
    expect(server).toMatchObject({
      state: "ready",
      entry: { toolrack: { tools: { disable: ["weekday"] } } },
    });
    const isOff = (name: string) => serving.app.registry.get(name)?.disabled === true;
    expect(["mcp_one_weekday", "mcp_one_days_between"].map(isOff)).toEqual([true, false]);
  });

  it("refuses a package without a version at once", async () => {
    const { code, stderr } = await mcpServers("add", "versionless", "--install", "some-package");
    expect([code, stderr]).toEqual([1, expect.stringMatching(/name and version: "some-package@1\.2\.3"/)]);
    expect((await mcpServers()).stdout).not.toContain("versionless");
  });

  it("reads the files of Zed and the settings of VS Code, and says where it found no servers", async () => {
    const args = ["mcp-servers/calendar.mjs"];
    const zed = {
      "zed old": { command: { path: "node", args, env: { A: "b" } }, settings: {} },
      zed_new: { source: "custom", command: "node", args },
    };
    await workspace.write("zed.json", JSON.stringify({ theme: "One", context_servers: zed }));
    expect((await mcpServers("import", "zed.json")).stderr).toContain("Added: zed old, zed_new");
    const { server } = JSON.parse((await mcpServers("restart", "zed old", "--json")).stdout);
    expect(server).toMatchObject({
      key: "zed old",
      state: "ready",
      tools: 2,
      entry: { command: "node", args },
    });
    const settings = { mcp: { servers: { "io.github.owner/code": { command: "node", args } } } };
    await workspace.write("settings.json", JSON.stringify(settings));
    expect((await mcpServers("import", "settings.json")).code).toBe(0);
    expect((await mcpServers("restart", "io.github.owner/code")).stderr).toContain("code: ready");
    for (const key of ["zed old", "zed_new", "io.github.owner/code"]) {
      expect((await mcpServers("remove", key)).code).toBe(0);
    }
    for (const nothing of ["[]", '{"a":1}', '{"mcpServers":[]}']) {
      await workspace.write("nothing.json", nothing);
      const { code, stderr } = await mcpServers("import", "nothing.json");
      expect([code, stderr]).toEqual([1, expect.stringMatching(/names no MCP servers.*"mcpServers"/)]);
    }
  });

  it("takes over the servers of opencode, Codex and other gateways, which run then, and says what is left to do", async () => {
    const args = ["mcp-servers/calendar.mjs"];
    const local = { type: "local", command: ["node", ...args], enabled: true };
    await workspace.write("opencode.json", JSON.stringify({ mcp: { opencoded: local } }));
    await workspace.write("config.toml", `[mcp_servers.codexed]\ncommand = "node"\nargs = ["${args}"]\n`);
    const targets = `[{ name: gated, stdio: { cmd: node, args: ["${args}"] } }]`;
    await workspace.write(
      "gateway.yaml",
      `binds: [{ listeners: [{ routes: [{ backends: [{ mcp: { targets: ${targets} } }] }] }] }]`,
    );
    const forge = [{ name: "forged", url: "http://127.0.0.1:1/mcp", is_active: false, auth_type: "basic" }];
    await workspace.write("export.json", JSON.stringify({ entities: { gateways: forge } }));
    const keys = ["opencoded", "codexed", "gated", "forged"];
    onTestFinished(async () => void (await Promise.all(keys.map((key) => mcpServers("remove", key)))));
    const said = [];
    for (const file of ["opencode.json", "config.toml", "gateway.yaml", "export.json"])
      said.push((await mcpServers("import", file)).stderr);
    expect(said.join("")).toMatch(/Added: opencoded\n.*Added: codexed\n.*Added: gated\n.*Added: forged\n/s);
    expect(said.at(-1)).toContain("forged: Its credentials (basic) are encrypted");
    for (const key of keys.slice(0, 3))
      expect((await mcpServers("restart", key)).stderr).toContain(`${key}: ready`);
    await workspace.write("broken.toml", "[mcp_servers");
    const { code, stderr } = await mcpServers("import", "broken.toml");
    expect([code, stderr]).toEqual([1, expect.stringContaining("broken.toml is not valid TOML")]);
  });

  it("refuses words that it would ignore, and two ways to one server", async () => {
    const refused = [
      ["list", "extra"],
      ["show", "calendar", "extra"],
      ["restart", "calendar", "extra"],
      ["approve", "calendar", "weekday", "0123", "extra"],
      ["add", "x", "--url", "http://127.0.0.1:1/mcp", "--", "node", "y"],
      ["add", "x", "--url", "http://127.0.0.1:1/mcp", "--install", "x@1.0.0"],
    ];
    for (const words of refused) {
      const { code, stderr } = await mcpServers(...words);
      expect([words, code, stderr]).toEqual([words, 2, expect.stringMatching(/extra|keep either/)]);
    }
  });

  it("restarts nothing that is switched off, and says so", async () => {
    const { code, stderr } = await mcpServers("restart", "files");
    expect([code, stderr]).toEqual([1, expect.stringMatching(/"files" is switched off.*enable files/)]);
  });

  it("shows an entry of the file that became wrong, beside the server that goes on", async () => {
    const path = join(workspace.directory, "mcp.json");
    const before = await readFile(path, "utf8");
    const { mcpServers: entries } = JSON.parse(before);
    const { calendar, ...others } = entries;
    const wrong = { ...others, calendar: { ...calendar, timeout: "abc" } };
    await writeFile(path, JSON.stringify({ mcpServers: wrong }));
    try {
      await vi.waitFor(async () => expect((await mcpServers()).stdout).toMatch(/calendar +ready.*timeout/), {
        timeout: 30_000,
        interval: 200,
      });
      expect((await mcpServers("show", "calendar")).stdout).toMatch(/problem +The entry .*timeout/);
    } finally {
      await writeFile(path, before);
    }
  });
});
