import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { type Serving, serve } from "../../rack/serve.ts";
import { temporaryFolder } from "../../testing/temporary-folder.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { type CliOutcome, runCli } from "../testing/run-cli.ts";
import { openTomlDocument } from "./client-document.ts";
import type { ClientId } from "./clients.ts";

const logger = { debug() {}, info() {}, warn() {}, error() {} };
const tool = (name: string) => `export const ${name} = Tool.define({ name: "${name}", description: "x",
  parameters: { type: "object", properties: {} }, execute: () => "${name}" });`;
const userFiles: Readonly<Record<ClientId, string>> = {
  "claude-desktop": ".config/Claude/claude_desktop_config.json",
  "claude-code": ".claude.json",
  cursor: ".cursor/mcp.json",
  vscode: ".config/Code/User/mcp.json",
  codex: ".codex/config.toml",
  opencode: ".config/opencode/opencode.json",
  zed: ".config/zed/settings.json",
};

/** Beside what every rack has. */
const all = expect.arrayContaining(["first", "second"]);

let workspace: TemporaryWorkspace;
let home = "";
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "tools/all.ts": `import { Tool } from "@toolrack/core";\n${tool("first")}\n${tool("second")}`,
  });
  const made = await toolrack("experts", "create", "Writer", "--tools", "second");
  expect(made.code, made.stderr).toBe(0);
}, 60_000);
afterAll(() => workspace[Symbol.asyncDispose]());
beforeEach(() => {
  home = temporaryFolder();
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
});

/** With a home of its own, where nothing of the one who runs the tests is. */
function toolrack(...args: string[]): Promise<CliOutcome> {
  return runCli(args, { cwd: workspace.directory, env: environment() });
}

function environment(): Record<string, string> {
  const nothing = { XDG_CONFIG_HOME: "", APPDATA: "", CLAUDE_CONFIG_DIR: "", CODEX_HOME: "" };
  return { ...nothing, HOME: home, USERPROFILE: home };
}

function put(file: string, text: string): string {
  const path = join(home, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

const read = (file: string) => readFileSync(join(home, file), "utf8");

/** What a client of the older or the newer protocol is shown, over whatever leads to the rack. */
async function toolsOver(transport: StdioClientTransport | StreamableHTTPClientTransport): Promise<string[]> {
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(transport);
  try {
    return (await client.listTools()).tools.map(({ name }) => name);
  } finally {
    await client.close();
  }
}

/** As a program with a window starts it: elsewhere, and without the PATH of a shell. */
function started(command: string, args: readonly string[]): StdioClientTransport {
  return new StdioClientTransport({
    command,
    args: [...args],
    cwd: tmpdir(),
    env: { HOME: home, PATH: "" },
    stderr: "ignore",
  });
}

describe("toolrack install", { timeout: 180_000 }, () => {
  it("lists the clients with their files, which are there and which are connected", async () => {
    put(".cursor/mcp.json", "{}");
    put(".codex/config.toml", "= nonsense");
    put(".claude.json", '{"mcpServers":{"toolrack":{"command":"other"}}}');
    const before = JSON.parse((await toolrack("install", "--json")).stdout).clients;
    const seen = before.map(({ client, installed, connected }: Record<string, unknown>) => [
      client,
      installed,
      connected,
    ]);
    expect(seen).toEqual([
      ["claude-desktop", false, false],
      ["claude-code", true, false],
      ["cursor", true, false],
      ["vscode", false, false],
      ["codex", true, false],
      ["opencode", false, false],
      ["zed", false, false],
    ]);
    expect((await toolrack("install", "cursor")).code).toBe(0);
    const { stdout, stderr, code } = await toolrack("install");
    expect(code).toBe(0);
    expect(stdout).toContain(
      `cursor          yes        stdio ${workspace.directory}  ${join(home, ".cursor/mcp.json")}`,
    );
    expect(stderr).toMatch(/config\.toml was left as it is.*line 1/);
    expect(stderr).toContain('.claude.json has another server under the name "toolrack".');
  });

  it("writes words with which the client starts the rack, in each client's own shape", async () => {
    await Promise.all(
      Object.entries(userFiles).map(async ([id, file]) => {
        const { code, stderr } = await toolrack("install", id);
        expect(code, stderr).toBe(0);
        expect(stderr).toContain(`Written: "toolrack" in ${join(home, file)}.`);
        expect(stderr).toContain("does not seem to be installed");
        expect(stderr).toContain(`Undo: toolrack uninstall ${id}`);
        expect(statSync(join(home, file)).mode & 0o777).toBe(0o600);
      }),
    );
    const desktop = JSON.parse(read(userFiles["claude-desktop"])).mcpServers.toolrack;
    expect(Object.keys(desktop)).toEqual(["command", "args"]);
    expect(await toolsOver(started(desktop.command, desktop.args))).toEqual(all);
    const same = { command: desktop.command, args: desktop.args };
    expect(JSON.parse(read(userFiles["claude-code"]))).toEqual({
      mcpServers: { toolrack: { type: "stdio", ...same } },
    });
    expect(JSON.parse(read(userFiles.cursor))).toEqual({ mcpServers: { toolrack: same } });
    expect(JSON.parse(read(userFiles.vscode))).toEqual({ servers: { toolrack: { type: "stdio", ...same } } });
    expect(JSON.parse(read(userFiles.opencode))).toEqual({
      mcp: { toolrack: { type: "local", command: [same.command, ...same.args], enabled: true } },
    });
    expect(JSON.parse(read(userFiles.zed))).toEqual({
      context_servers: { toolrack: { source: "custom", ...same } },
    });
    expect(openTomlDocument(read(userFiles.codex), "mcp_servers", "toolrack").entry).toEqual(same);
  });

  it("leaves the rest of the file as it is, keeps a copy, and takes only its own out again", async () => {
    const text =
      '{\r\n\t// mine\r\n\t"mcpServers": {\r\n\t\t"a": { "command": "x" }, // keep\r\n\t},\r\n}\r\n';
    const path = put(".cursor/mcp.json", text);
    const { stderr } = await toolrack("install", "cursor");
    expect(stderr).toContain(`${path}.toolrack-backup`);
    expect(read(".cursor/mcp.json.toolrack-backup")).toBe(text);
    const written = read(".cursor/mcp.json");
    expect(written.startsWith(text.slice(0, text.indexOf("// keep") + 7))).toBe(true);
    const again = await toolrack("install", "cursor", "--json");
    expect(JSON.parse(again.stdout)).toEqual({
      client: "cursor",
      file: path,
      key: "toolrack",
      transport: "stdio",
      changed: false,
    });
    expect(read(".cursor/mcp.json")).toBe(written);
    const shown = await toolrack("uninstall", "cursor", "--dry-run");
    expect(shown.stdout).toMatch(/^@@ line 5 @@\n- \(\d+ lines\)\n$/);
    expect(read(".cursor/mcp.json")).toBe(written);
    expect((await toolrack("uninstall", "cursor")).code).toBe(0);
    expect(read(".cursor/mcp.json")).toBe(text);
    const none = await toolrack("uninstall", "cursor");
    expect([none.code, none.stderr]).toEqual([0, expect.stringContaining("is not connected")]);
  });

  it("goes on with its own entry, and replaces no other unless it is told to", async () => {
    const file = put(
      ".cursor/mcp.json",
      JSON.stringify({
        mcpServers: {
          toolrack: { command: "old", args: ["mcp", "--dir", workspace.directory], env: { A: "b" } },
          elsewhere: { command: "old", args: ["mcp", "--dir", "/another"] },
          other: { command: "npx", args: ["server"] },
        },
      }),
    );
    const entries = () => JSON.parse(readFileSync(file, "utf8")).mcpServers;
    expect((await toolrack("install", "cursor")).code).toBe(0);
    expect(entries().toolrack).toMatchObject({ command: process.execPath, env: { A: "b" } });
    const elsewhere = await toolrack("install", "cursor", "--name", "elsewhere");
    expect([elsewhere.code, elsewhere.stderr]).toEqual([
      1,
      expect.stringMatching(/leads to the workspace \/another.*--name.*--force/),
    ]);
    const other = await toolrack("install", "cursor", "--name", "other", "--json");
    expect(JSON.parse(other.stdout).error.code).toBe("entry_exists");
    expect((await toolrack("uninstall", "cursor", "--name", "other")).stderr).toContain("is not Toolrack's");
    expect(entries().other).toEqual({ command: "npx", args: ["server"] });
    expect((await toolrack("install", "cursor", "--name", "other", "--force")).code).toBe(0);
    expect(entries().other.args).toContain(workspace.directory);
    expect(entries().elsewhere.args).toEqual(["mcp", "--dir", "/another"]);
  });

  it("connects one expert, which has to be there", async () => {
    expect((await toolrack("install", "cursor", "--expert", "writer")).code).toBe(0);
    const { command, args } = JSON.parse(read(".cursor/mcp.json")).mcpServers.toolrack;
    expect(args.slice(-2)).toEqual(["--expert", "Writer"]);
    expect(await toolsOver(started(command, args))).toEqual(["second"]);
    const { code, stderr } = await toolrack("install", "cursor", "--expert", "nobody");
    expect([code, stderr]).toEqual([1, expect.stringContaining('There is no expert "nobody"')]);
  });

  it("prints, or shows the difference, and writes nothing", async () => {
    const printed = await toolrack("install", "codex", "--print");
    expect(printed.stdout).toMatch(/^\[mcp_servers\.toolrack\]\ncommand = "/);
    expect(existsSync(join(home, ".codex"))).toBe(false);
    put(".cursor/mcp.json", '{"mcpServers":{"a":{"env":{"KEY":"of somebody else"}}}}');
    const { stdout } = await toolrack("install", "cursor", "--dry-run");
    expect(stdout).toMatch(/^@@ line 1 @@\n\+ , "toolrack": \{/);
    expect(stdout).not.toContain("of somebody else");
    expect(read(".cursor/mcp.json")).not.toContain("toolrack");
  });

  it("shows nothing of what the user set beside an entry that it replaces", async () => {
    const args = ["mcp", "--dir", workspace.directory];
    const entry = { command: "old", args, env: { KEY: 'my "secret"' } };
    put(".cursor/mcp.json", JSON.stringify({ mcpServers: { toolrack: entry } }, undefined, 2));
    const { stdout } = await toolrack("install", "cursor", "--dry-run");
    expect(stdout).toMatch(/^- \(\d+ lines\)$/m);
    expect(stdout).toMatch(/^\+ +"KEY": "…"$/m);
    expect(stdout).not.toContain("secret");
    expect((await toolrack("install", "cursor")).code).toBe(0);
    expect(JSON.parse(read(".cursor/mcp.json")).mcpServers.toolrack.env).toEqual(entry.env);
  });

  it("says of each of several at once whether it was written, and it was", async () => {
    const names = ["a", "b", "c", "d"];
    const outcomes = await Promise.all(names.map((name) => toolrack("install", "cursor", "--name", name)));
    const written = names.filter((_, at) => outcomes[at]?.code === 0);
    expect(Object.keys(JSON.parse(read(".cursor/mcp.json")).mcpServers).sort()).toEqual(written);
    for (const { code, stderr } of outcomes) if (code !== 0) expect(stderr).toMatch(/was left as it is/);
  });

  it("names the file that is too deep to read, and lists the others all the same", async () => {
    put(".cursor/mcp.json", `{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}`);
    const { code, stderr } = await toolrack("install", "cursor");
    expect([code, stderr]).toEqual([1, expect.stringMatching(/\.cursor\/mcp\.json.*nested too deeply/)]);
    const listed = await toolrack("install");
    expect(listed.stdout).toContain("claude-desktop");
    expect(listed.stderr).toMatch(/\.cursor\/mcp\.json.*nested too deeply/);
  });

  it("lets no text of a file be a command to the terminal", async () => {
    const url = "https://a.example/\u001b[2J\nWritten/mcp";
    const entry = { url, headers: { Authorization: "Bearer trk_a" } };
    put(".cursor/mcp.json", JSON.stringify({ mcpServers: { toolrack: entry } }));
    const { stderr } = await toolrack("install", "cursor");
    expect(stderr).toContain("leads to https://a.example/\\u001b[2J Written/mcp, so");
    expect((await toolrack("install")).stdout).not.toContain("\u001b");
  });

  it("takes the file that opencode reads last, and those of the project", async () => {
    put(".config/opencode/opencode.jsonc", "// settings\n{}\n");
    expect((await toolrack("install", "opencode")).stderr).toContain("opencode.jsonc");
    expect(read(".config/opencode/opencode.jsonc")).toMatch(/^\/\/ settings\n\{\n {2}"mcp": \{/);
    for (const [id, file] of [
      ["claude-code", ".mcp.json"],
      ["cursor", ".cursor/mcp.json"],
      ["vscode", ".vscode/mcp.json"],
      ["opencode", "opencode.json"],
    ] as const) {
      const { stderr } = await toolrack("install", id, "--project");
      expect(stderr).toContain(`"toolrack" in ${join(workspace.directory, file)}.`);
      expect(stderr.match(/does not seem to be installed/g) ?? []).toHaveLength(id === "opencode" ? 0 : 1);
      await workspace.remove(file.split("/")[0] ?? "");
    }
  });

  it.each<[number, RegExp, string[]]>([
    [2, /"emacs" is not known here\. Say one of: claude-desktop/, ["install", "emacs"]],
    [2, /not used.*Leave --http out/, ["install", "claude-desktop", "--http"]],
    [2, /not for a project/, ["install", "claude-desktop", "--project"]],
    [2, /Say which client/, ["install", "--force"]],
    [2, /keep either/, ["install", "cursor", "--print", "--dry-run"]],
    [2, /add --http/, ["install", "cursor", "--url", "http://127.0.0.1:1"]],
    [2, /--url takes the address/, ["install", "cursor", "--http", "--url", "http://a:b@c"]],
    [2, /--url takes the address/, ["install", "cursor", "--http", "--url", "http://:b@c"]],
    [2, /--name takes letters/, ["install", "cursor", "--name", "a.b"]],
    [1, /No server runs on/, ["install", "cursor", "--http"]],
  ])("ends with %i and says %s", async (code, reason, words) => {
    const outcome = await toolrack(...words);
    expect([outcome.code, outcome.stderr]).toEqual([code, expect.stringMatching(reason)]);
    expect(existsSync(join(home, ".cursor"))).toBe(false);
  });

  it("needs no server for an address that is given", async () => {
    const words = ["install", "cursor", "--http", "--url", "https://rack.example.com"];
    expect((await toolrack(...words)).code).toBe(0);
    const { url, headers } = JSON.parse(read(".cursor/mcp.json")).mcpServers.toolrack;
    expect([url, headers.Authorization]).toEqual([
      "https://rack.example.com/mcp",
      expect.stringMatching(/^Bearer trk_[\w-]{43}$/),
    ]);
    expect((await toolrack(...words)).stderr).toContain("is connected already");
    expect((await toolrack("tokens", "remove", "Cursor")).code).toBe(0);
    expect(JSON.parse((await toolrack(...words, "--json")).stdout)).toMatchObject({
      changed: true,
      formerToken: { removed: false },
    });
    // The store tells, as the server would, what a token is for.
    const asExpert = await toolrack(...words, "--expert", "Writer", "--json");
    expect(JSON.parse(asExpert.stdout)).toMatchObject({ formerToken: { name: "Cursor", removed: true } });
    expect((await toolrack(...words, "--expert", "Writer")).stderr).toContain("is connected already");
    const admin = (await toolrack("tokens", "create", "operator", "--admin")).stdout.trim();
    put(".cursor/mcp.json", read(".cursor/mcp.json").replace(/trk_[\w-]+/, admin));
    const renewed = await toolrack(...words, "--expert", "Writer");
    // It is not the client's alone.
    expect(renewed.stderr).toMatch(/"operator", goes on being good until you remove it: .*tokens remove \S+/);
    expect(read(".cursor/mcp.json")).not.toContain(admin);
    expect((await toolrack("uninstall", "cursor")).stderr).toMatch(/"Cursor", is taken back/);
    for (const name of ["operator", "Cursor 2"])
      expect((await toolrack("tokens", "remove", name)).code).toBe(0);
  });

  it("refuses a folder whose name a client would take for a variable", async () => {
    const odd = join(home, "{env:HOME}");
    mkdirSync(join(odd, "tools"), { recursive: true });
    const { code, stderr } = await toolrack("install", "cursor", "--dir", odd);
    expect([code, stderr]).toEqual([1, expect.stringContaining("for a variable")]);
  });

  it("refuses a folder that is no workspace, unless it is named", async () => {
    const inHome = (...words: string[]) => runCli(words, { cwd: home, env: environment() });
    const { code, stderr } = await inHome("install", "cursor");
    expect([code, stderr]).toEqual([1, expect.stringContaining("is no workspace")]);
    expect((await inHome("install", "cursor", "--dir", workspace.directory)).code).toBe(0);
    expect(read(".cursor/mcp.json")).toContain(JSON.stringify(workspace.directory));
  });
});

describe("toolrack install --http", { timeout: 180_000 }, () => {
  let serving: Serving;
  beforeAll(async () => {
    serving = await serve(workspace.directory, { logger, port: 0 });
  });
  afterAll(() => serving.close());
  interface HttpEntry {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
  }
  const entryOf = (file: string): HttpEntry => JSON.parse(read(file)).mcpServers.toolrack;
  const over = ({ url, headers }: HttpEntry) =>
    toolsOver(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));

  it("writes the address and a token of the client's own, which is shown nowhere", async () => {
    const path = put(".claude.json", '{ "mcpServers": {} }');
    const { code, stdout, stderr } = await toolrack("install", "claude-code", "--http");
    expect(code, stderr).toBe(0);
    const entry = entryOf(".claude.json");
    expect(entry).toEqual({
      type: "http",
      url: `${serving.url}/mcp`,
      headers: { Authorization: expect.stringMatching(/^Bearer trk_/) },
    });
    expect(await over(entry)).toEqual(all);
    const [token] = await serving.store.tokens.list();
    expect(token).toMatchObject({ name: "Claude Code", scopes: { tools: ["*"], chat: false } });
    expect((token?.expiresAt ?? 0) - (token?.createdAt ?? 0)).toBeCloseTo(30 * 86_400_000, -6);
    const asAdmin = await fetch(`${serving.url}/api/tokens`, { headers: entry.headers });
    expect(asAdmin.status).toBe(403);
    expect(entry.headers.Authorization).not.toContain(serving.token);
    expect(stdout + stderr).not.toMatch(/trk_[\w-]/);
    expect(stderr).toContain(`chmod 600 ${path}`);

    const again = await toolrack("install", "claude-code", "--http");
    expect(again.stderr).toContain("is connected already");
    expect((await toolrack("install", "--json")).stdout).not.toMatch(/trk_[\w-]/);
    // A token that opens nothing any more is made anew.
    await fetch(`${serving.url}/api/tokens/${token?.id}`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${serving.token}` },
    });
    const renewed = await toolrack("install", "claude-code", "--http", "--json");
    expect(JSON.parse(renewed.stdout)).toMatchObject({ changed: true, token: { name: "Claude Code" } });
    expect(renewed.stdout).not.toMatch(/trk_[\w-]/);
    expect(entryOf(".claude.json").headers).not.toEqual(entry.headers);
    expect(await over(entryOf(".claude.json"))).toEqual(all);

    // From there to starting the program, and away.
    const dry = await toolrack("install", "claude-code", "--dry-run");
    expect(dry.stdout).toMatch(/^- \(\d+ lines\)$/m);
    const started = await toolrack("install", "claude-code");
    expect(started.stderr).toContain('The token that it had, "Claude Code", is taken back.');
    expect(await serving.store.tokens.list()).toEqual([]);
    expect(entryOf(".claude.json")).toMatchObject({ type: "stdio", command: process.execPath });
    expect((await toolrack("uninstall", "claude-code")).code).toBe(0);
    expect(JSON.parse(read(".claude.json"))).toEqual({ mcpServers: {} });
    expect(read(".claude.json.toolrack-backup")).toBe('{ "mcpServers": {} }');
  });

  it("connects one expert with a token that reaches nothing else", async () => {
    const { code, stderr } = await toolrack("install", "cursor", "--http", "--expert", "Writer");
    expect(code, stderr).toBe(0);
    const entry = entryOf(".cursor/mcp.json");
    expect(entry.url).toBe(`${serving.url}/mcp/Writer`);
    expect(await over(entry)).toEqual(["second"]);
    expect(await over({ ...entry, url: `${serving.url}/mcp` })).toEqual([]);
    const removed = await toolrack("uninstall", "cursor");
    expect(removed.stderr).toContain('The token that it had, "Cursor", is taken back.');
    await expect(over(entry)).rejects.toThrow();
    // A copy made now would have kept the token.
    expect(existsSync(join(home, ".cursor/mcp.json.toolrack-backup"))).toBe(false);
  });

  it("connects one that was made a moment ago, before the server knows of it", async () => {
    expect((await toolrack("experts", "create", "Newcomer", "--tools", "second")).code).toBe(0);
    const { code, stderr } = await toolrack("install", "cursor", "--http", "--expert", "newcomer");
    expect(code, stderr).toBe(0);
    expect(entryOf(".cursor/mcp.json").url).toBe(`${serving.url}/mcp/Newcomer`);
    expect((await toolrack("uninstall", "cursor")).code).toBe(0);
  });

  it("keeps a token of neither name in a copy, and no token that still stands there is taken back", async () => {
    const install = (...words: string[]) => toolrack("install", "cursor", "--http", "--json", ...words);
    expect((await install()).code).toBe(0);
    expect((await toolrack("install", "cursor", "--name", "other")).code).toBe(0);
    expect(existsSync(join(home, ".cursor/mcp.json.toolrack-backup"))).toBe(false);
    const { toolrack: entry } = JSON.parse(read(".cursor/mcp.json")).mcpServers;
    put(".cursor/mcp.json", JSON.stringify({ mcpServers: { toolrack: entry, twin: entry } }));
    const { stdout } = await toolrack("uninstall", "cursor", "--json");
    expect(JSON.parse(stdout)).not.toHaveProperty("formerToken");
    expect((await toolrack("uninstall", "cursor", "--name", "twin")).stderr).toContain("is taken back");
  });

  it("keeps the user's own headers, and is connected with them", async () => {
    expect((await toolrack("install", "cursor", "--http")).code).toBe(0);
    const { url, headers } = entryOf(".cursor/mcp.json");
    const entry = { url, headers: { "X-Team": "a", ...headers } };
    put(".cursor/mcp.json", JSON.stringify({ mcpServers: { toolrack: entry } }));
    const before = (await serving.store.tokens.list()).length;
    expect((await toolrack("install", "cursor", "--http")).stderr).toContain("is connected already");
    expect((await serving.store.tokens.list()).length).toBe(before);
    expect((await toolrack("install", "cursor", "--http", "--expert", "Writer")).code).toBe(0);
    expect(entryOf(".cursor/mcp.json").headers).toEqual({
      "X-Team": "a",
      Authorization: expect.stringMatching(/^Bearer trk_/),
    });
    expect((await toolrack("uninstall", "cursor")).code).toBe(0);
  });

  it("makes a new token when the old one is for an expert that is gone, or an operator's", async () => {
    const asMaster = (path: string, method: string, body?: object): Promise<{ id: string; token: string }> =>
      fetch(serving.url + path, {
        method,
        headers: { authorization: `Bearer ${serving.token}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }).then(async (response) => JSON.parse(await response.text()));
    const brief = { name: "Brief", tools: ["first"] };
    const { id } = await asMaster("/api/experts", "POST", brief);
    const install = () => toolrack("install", "cursor", "--http", "--expert", "Brief", "--json");
    expect((await install()).code).toBe(0);
    expect(JSON.parse((await install()).stdout)).toMatchObject({ changed: false });
    await asMaster(`/api/experts/${id}`, "DELETE");
    await asMaster("/api/experts", "POST", brief);
    expect(JSON.parse((await install()).stdout)).toMatchObject({
      changed: true,
      formerToken: { removed: true },
    });
    expect(await over(entryOf(".cursor/mcp.json"))).toEqual(["first"]);
    const wish = { name: "operator", scopes: { admin: true } };
    const operator = await asMaster("/api/tokens", "POST", wish);
    put(".cursor/mcp.json", read(".cursor/mcp.json").replace(/trk_[\w-]+/, operator.token));
    expect(JSON.parse((await install()).stdout)).toMatchObject({
      changed: true,
      formerToken: { removed: false, id: operator.id, name: "operator" },
    });
    expect(await over(entryOf(".cursor/mcp.json"))).toEqual(["first"]);
    for (const token of await serving.store.tokens.list()) await serving.store.tokens.remove(token.id);
  });

  it("says to programs that others may come to read the token", async () => {
    const { stdout } = await toolrack("install", "cursor", "--http", "--project", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ changed: true, shared: true });
    expect((await toolrack("uninstall", "cursor", "--project")).code).toBe(0);
    await workspace.remove(".cursor");
    const own = await toolrack("install", "cursor", "--http", "--json");
    expect(JSON.parse(own.stdout)).not.toHaveProperty("shared");
    expect((await toolrack("uninstall", "cursor")).code).toBe(0);
  });

  it("writes an address that was given, in TOML too, and makes no token to show or print", async () => {
    const before = (await serving.store.tokens.list()).length;
    const words = ["install", "codex", "--http", "--url", "https://rack.example.com/base/mcp/"];
    for (const look of ["--print", "--dry-run"]) {
      expect((await toolrack(...words, look)).stdout).toContain(
        'url = "https://rack.example.com/base/mcp"\n' +
          (look === "--print" ? "" : "+ ") +
          'http_headers = { Authorization = "Bearer trk_…" }',
      );
    }
    expect((await serving.store.tokens.list()).length).toBe(before);
    expect((await toolrack(...words)).code).toBe(0);
    expect(read(".codex/config.toml")).toMatch(/Bearer trk_[\w-]{43}"/);
    expect((await serving.store.tokens.list()).length).toBe(before + 1);
  });

  it.skipIf(process.platform !== "linux")(
    "leaves no token behind when the file cannot be written",
    async () => {
      const before = await serving.store.tokens.list();
      mkdirSync(join(home, ".cursor"));
      // Where nobody can make a file.
      symlinkSync("/proc/mcp.json", join(home, ".cursor/mcp.json"));
      const { code, stderr } = await toolrack("install", "cursor", "--http");
      expect([code, stderr]).toEqual([1, expect.stringMatching(/mcp\.json cannot be written/)]);
      expect(await serving.store.tokens.list()).toEqual(before);
    },
  );
});
