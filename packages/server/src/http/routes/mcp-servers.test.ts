import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, expect, it, vi } from "vitest";
import { openSecrets } from "../../access/secrets.ts";
import { operatorOrigin } from "../../calls/call-book.ts";
import type { McpServers } from "../../index.ts";
import { AuthorizationServer } from "../../mcp/connect/testing/authorization-server.fixture.ts";
import { ModernHttpServer } from "../../mcp/connect/testing/modern-http-server.fixture.ts";
import { openMcpServers } from "../../rack/rack.ts";
import type { Store } from "../../store/store.ts";
import { StreamReader, TestServer } from "../server.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("../../mcp/connect/testing/odd-server.fixture.mjs", import.meta.url));
const entry = { command: process.execPath, args: [odd] };

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close();
});

/** A server whose routes stand for real upstream servers. */
async function start(
  files: Record<string, string> = {},
  change: (store: Store) => Pick<Store, "mcpServers"> = (store) => store,
): Promise<TestServer> {
  let mcpServers: McpServers | undefined;
  const server = await TestServer.start({
    files,
    prepare: async (app, store) => {
      const directory = join(app.workspace.directory, ".toolrack");
      const secrets = await openSecrets({ directory, store, keyring: async () => undefined });
      const logger = { debug() {}, info() {}, warn() {}, error() {} };
      mcpServers = await openMcpServers(app, change(store), {
        secrets,
        setting: async () => undefined,
        originOf: () => operatorOrigin,
        identity: { id: randomUUID(), above: [] },
        logger,
      });
      mcpServers.watch();
      return { mcpServers };
    },
  });
  opened.push({
    close: async () => {
      await mcpServers?.close();
      await server[Symbol.asyncDispose]();
    },
  });
  return server;
}

async function ready(server: TestServer, key: string): Promise<void> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const { body } = await server.ask(`/api/mcp-servers/${key}`);
    if (body.state === "ready") return;
    if (Date.now() > deadline) throw new Error(`Never ready: ${JSON.stringify(body)}`);
  }
}

it("adds a server, calls its tools, switches it, and removes it", async () => {
  const server = await start();
  expect((await server.ask("/api/mcp-servers")).body).toEqual({ items: [], problems: {} });
  const secret = { ...entry, env: { KEY: "written-in-clear" } };
  const added = await server.ask("/api/mcp-servers", { method: "POST", body: { key: "odd", entry: secret } });
  expect(added.status).toBe(200);
  expect(JSON.stringify(added.body)).not.toContain("written-in-clear");
  await ready(server, "odd");
  expect((await server.call("mcp_odd_echo", { text: "hi" })).body.result).toMatchObject({ content: "hi" });

  const tools = await server.ask("/api/mcp-servers/odd/tools");
  expect(tools.body.items[0]).toMatchObject({ name: "echo", rackName: "mcp_odd_echo", pin: "approved" });
  const approved = await server.ask("/api/mcp-servers/odd/tools/echo/approve", { method: "POST" });
  expect(approved.body).toMatchObject({
    name: "echo",
    pin: "approved",
    approvedBy: expect.stringMatching(/./),
  });

  const change = { enabled: false };
  expect((await server.ask("/api/mcp-servers/odd", { method: "PATCH", body: change })).body.state).toBe(
    "disabled",
  );
  expect((await server.call("mcp_odd_echo", { text: "hi" })).status).toBe(409);
  await server.ask("/api/mcp-servers/odd", { method: "PATCH", body: { enabled: true } });
  expect((await server.ask("/api/mcp-servers/odd/restart", { method: "POST" })).body.state).toBe("ready");
  expect((await server.ask("/api/mcp-servers/odd/log")).body).toHaveProperty("items");
  expect((await server.ask("/api/mcp-servers/odd", { method: "DELETE" })).body).toEqual({ key: "odd" });
  expect((await server.ask("/api/mcp-servers/odd")).status).toBe(404);
});

it("approves a tool as it was looked at, and takes no body that it does not know", async () => {
  const server = await start();
  await server.ask("/api/mcp-servers", { method: "POST", body: { key: "odd", entry } });
  await ready(server, "odd");
  const { body } = await server.ask("/api/mcp-servers/odd/tools");
  const { hash } = body.items[0];
  const approve = (path: string, body: object) =>
    server.ask(`/api/mcp-servers/odd${path}/approve`, { method: "POST", body });
  expect((await approve("/tools/echo", { hash })).body).toMatchObject({ name: "echo", hash });
  const late = await approve("/tools/echo", { hash: "another" });
  expect([late.status, late.body.error]).toMatchObject([
    409,
    {
      code: "mcp_tool_changed",
      message: expect.stringMatching(/"echo" .* changed after it was looked at.*mcp-servers show odd/),
      details: { tool: "echo", hash, changes: [] },
    },
  ]);
  expect((await approve("", { hashes: { echo: hash } })).body.items).toHaveLength(1);
  expect((await approve("", { hashes: { echo: hash, hang: "another" } })).status).toBe(409);
  for (const path of ["", "/tools/echo"]) {
    expect((await approve(path, { hsah: hash })).body.error.code).toBe("invalid_request");
  }
});

it("refuses to give a tool the name of another", async () => {
  const server = await start();
  await server.ask("/api/mcp-servers", { method: "POST", body: { key: "odd", entry } });
  await ready(server, "odd");
  const rename = { tools: { echo: { rename: "hang" } } };
  const { body } = await server.ask("/api/mcp-servers/odd", { method: "PATCH", body: rename });
  expect(body.error).toMatchObject({
    code: "mcp_server_invalid",
    message: expect.stringMatching(/mcp_odd_hang/),
  });
});

it("tells admins in the events what becomes of the servers", async () => {
  const server = await start();
  const token = await server.issue({ tools: ["*"] });
  const events = new StreamReader(await server.fetch("/api/events"));
  const others = new StreamReader(await server.fetch("/api/events", { token }));
  await events.until("ready");
  await others.until("ready");
  const until = async (state: string) => {
    for (;;) {
      const { data } = await events.until("mcp.server");
      if (data.state === state) return data;
    }
  };
  await server.ask("/api/mcp-servers", { method: "POST", body: { key: "odd", entry } });
  expect(await until("ready")).toMatchObject({ key: "odd", tools: expect.any(Number), quarantined: 0 });
  await server.ask("/api/mcp-servers/odd", { method: "PATCH", body: { enabled: false } });
  expect(await until("disabled")).toMatchObject({ key: "odd" });
  await server.ask("/api/mcp-servers/odd", { method: "DELETE" });
  expect(await until("removed")).toEqual({ key: "odd", state: "removed" });
  await events.cancel();
  // The stream of the other token ends when the server is closed.
  await opened.pop()?.close();
  for (let event = await others.next(); event !== undefined; event = await others.next()) {
    expect(event.event).not.toBe("mcp.server");
  }
});

it("shows the servers of the file, which only the file changes", async () => {
  const server = await start({
    "mcp.json": JSON.stringify({ mcpServers: { odd: entry, bad: { comand: "x" } } }),
  });
  const { body } = await server.ask("/api/mcp-servers");
  expect(body.items).toMatchObject([
    { key: "bad", place: "file", state: "failed" },
    { key: "odd", place: "file" },
  ]);
  expect(body.problems.bad).toMatch(/neither a command nor a url/);
  const refused = await server.ask("/api/mcp-servers/odd", { method: "DELETE" });
  expect([refused.status, refused.body.error.code]).toEqual([409, "mcp_server_read_only"]);
  const renamed = { tools: { echo: { rename: "say" } } };
  await ready(server, "odd");
  await server.ask("/api/mcp-servers/odd", { method: "PATCH", body: renamed });
  expect((await server.call("mcp_odd_say", { text: "hi" })).body.result).toMatchObject({ content: "hi" });
});

it("refuses what makes no sense, and everybody but admins", async () => {
  const server = await start();
  const post = (body: object) => server.ask("/api/mcp-servers", { method: "POST", body });
  expect((await post({ key: "a\nb", entry })).body.error.code).toBe("mcp_server_invalid");
  expect((await post({ key: "a", entry: { command: "x", url: "http://y" } })).body.error.message).toMatch(
    /both/,
  );
  await post({ key: "a", entry });
  expect((await post({ key: "a", entry })).status).toBe(409);
  expect((await server.ask("/api/mcp-servers/a/tools/none/approve", { method: "POST" })).status).toBe(404);
  const token = await server.issue({ tools: ["*"] });
  expect((await server.ask("/api/mcp-servers", { token })).status).toBe(403);
});

it("tells those who listen what is wrong with the file, and that it is no longer", async () => {
  const server = await start({ "mcp.json": "{}" });
  const events = new StreamReader(await server.fetch("/api/events"));
  await events.until("ready");
  const file = join(server.app.workspace.directory, "mcp.json");
  await writeFile(file, '{ "mcpServers": { oops } }');
  const { data } = await events.until("mcp.file");
  expect(data.problem).toMatch(/mcp\.json is not valid JSON: .*[^.]\. The servers go on/);
  expect((await server.ask("/api/mcp-servers")).body.fileProblem).toBe(data.problem);
  await writeFile(file, "{}");
  expect((await events.until("mcp.file")).data).toEqual({});
});

it("signs in at a server over its own callback, and lets nobody else finish that", async () => {
  await using behind = await ModernHttpServer.start();
  await using authority = await AuthorizationServer.start({ behind: behind.url });
  const server = await start();
  const events = new StreamReader(await server.fetch("/api/events"));
  await events.until("ready");
  const post = (path: string, body: object = {}) =>
    server.ask(`/api/mcp-servers${path}`, { method: "POST", body });
  await post("", { key: "guarded", entry: { url: authority.url } });
  const restarted = await post("/guarded/restart");
  expect(restarted.body).toMatchObject({ state: "needs-auth", signIn: { signedIn: false, pending: false } });

  const { body } = await post("/guarded/login");
  const forged = await server.fetch("/oauth/callback/guarded?code=x&state=%3Cscript%3E", { token: null });
  expect([forged.status, await forged.text()]).toEqual([400, expect.stringContaining("Not signed in")]);
  const answer = await authority.agree(body.url);
  expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining("Signed in")]);
  await ready(server, "guarded");
  const called = await server.call("mcp_guarded_echo", { text: "hi" });
  expect(called.body.result).toMatchObject({ content: "hi" });

  const seen: unknown[] = [(await server.ask("/api/mcp-servers")).body];
  for (let state = ""; state !== "ready"; ) {
    const { data } = await events.until("mcp.server");
    seen.push(data);
    state = String(data.state);
  }
  await events.cancel();
  for (const token of authority.given) expect(JSON.stringify(seen)).not.toContain(token);
  expect((await post("/guarded/logout")).body).toMatchObject({
    revoked: true,
    server: { state: "needs-auth" },
  });
  const unknown = await server.fetch("/oauth/callback/nobody%22%3E?code=x", { token: null });
  expect(await unknown.text()).not.toMatch(/nobody">|guarded/);
});

it("says why nobody can sign in", async () => {
  const server = await start();
  await server.ask("/api/mcp-servers", { method: "POST", body: { key: "odd", entry } });
  const local = await server.ask("/api/mcp-servers/odd/login", { method: "POST" });
  expect([local.status, local.body.error.code]).toEqual([400, "mcp_server_invalid"]);
  const away = { url: "http://127.0.0.1:9/mcp" };
  await server.ask("/api/mcp-servers", { method: "POST", body: { key: "away", entry: away } });
  const failed = await server.ask("/api/mcp-servers/away/login", { method: "POST" });
  expect([failed.status, failed.body.error]).toMatchObject([502, { code: "mcp_sign_in_failed" }]);
});

it("keeps what was hidden when an entry is read, changed and sent back", async () => {
  const server = await start();
  const secret = { ...entry, env: { SEC: "written-in-clear", MODE: "one" } };
  await server.ask("/api/mcp-servers", { method: "POST", body: { key: "odd", entry: secret } });
  const { body: shown } = await server.ask("/api/mcp-servers/odd");
  expect(shown.entry.env).toEqual({ SEC: "[hidden]", MODE: "[hidden]" });
  const patch = (env: object) =>
    server.ask("/api/mcp-servers/odd", { method: "PATCH", body: { entry: { ...shown.entry, env } } });
  expect((await patch({ ...shown.entry.env, MODE: "two" })).status).toBe(200);
  await ready(server, "odd");
  const { body } = await server.call("mcp_odd_environment", {});
  expect(JSON.parse(body.result.content)).toMatchObject({ SEC: "written-in-clear", MODE: "two" });

  const refused = await patch({ ...shown.entry.env, NEW: "[hidden]" });
  expect([refused.status, refused.body.error]).toMatchObject([
    400,
    { code: "mcp_server_invalid", message: expect.stringContaining("env.NEW: It says [hidden]") },
  ]);
  const added = { key: "other", entry: { ...entry, env: { SEC: "[redacted]" } } };
  expect((await server.ask("/api/mcp-servers", { method: "POST", body: added })).status).toBe(400);
});

it("approves nothing on a full disk, and names it", async () => {
  let isFull = false;
  const server = await start({}, (store) => ({
    mcpServers: new Proxy(store.mcpServers, {
      get(target, name) {
        if (name === "putTool" && isFull) return async () => fillUp();
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === "function" ? member.bind(target) : member;
      },
    }),
  }));
  const tools = join(server.workspace.directory, "tools-of-odd.json");
  const define = (description: string) =>
    writeFile(tools, JSON.stringify([{ name: "echo", description, inputSchema: { type: "object" } }]));
  await define("One.");
  const changing = { ...entry, env: { ODD_TOOLS_FILE: tools } };
  await server.ask("/api/mcp-servers", { method: "POST", body: { key: "odd", entry: changing } });
  await ready(server, "odd");
  await define("Two.");
  await server.ask("/api/mcp-servers/odd/restart", { method: "POST" });
  const pin = async () => (await server.ask("/api/mcp-servers/odd/tools")).body.items[0].pin;
  expect(await pin()).toBe("quarantined");
  isFull = true;
  const refused = await server.ask("/api/mcp-servers/odd/approve", { method: "POST" });
  expect([refused.status, refused.body.error.message]).toEqual([
    503,
    expect.stringMatching(/disk .* is full, so this was not done, or not all of it\. Make room/),
  ]);
  expect(await pin()).toBe("quarantined");
  isFull = false;
  expect((await server.ask("/api/mcp-servers/odd/approve", { method: "POST" })).status).toBe(200);
  expect(await pin()).toBe("approved");
});

/** Throws what SQLite throws. */
function fillUp(): void {
  using database = new DatabaseSync(":memory:");
  database.exec("PRAGMA max_page_count = 2; CREATE TABLE t (x)");
  database.prepare("INSERT INTO t VALUES (zeroblob(100000))").run();
}
