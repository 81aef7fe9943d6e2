import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { describe, expect, it, vi } from "vitest";
import { cleanEnvironment, program } from "../cli/testing/spawn-cli.ts";
import { processIds } from "../helpers/index.ts";
import { joinProtocol } from "../helpers/server-address.ts";
import { type Era, toolFile } from "../mcp/serve/testing/served-rack.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { type Serving, serve } from "./serve.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const patience = { timeout: 30_000, interval: 50 };
const eras: Era[] = ["modern", "legacy"];
const odd = fileURLToPath(new URL("../mcp/connect/testing/odd-server.fixture.mjs", import.meta.url));

/** The tools note each run in a file, so that a second run is seen, whichever process makes it. */
const files = {
  "toolrack.config.js": "export default { builtins: false };",
  "tools/all.js": `import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
const file = (name) => new URL("../" + name, import.meta.url);
const note = (name) => appendFileSync(file("runs"), name + " " + process.pid + "\\n");
${toolFile(
  'name: "add", execute: async () => { note("add"); return String(process.pid); }',
  'name: "asks", execute: async ({ elicit }) => (await elicit("Go on?")).action',
  'name: "steps", execute: async ({ progress }) => { progress(1, 1); await wait(300); return "done"; }',
  'name: "stuck", execute: async () => { note("stuck"); while (!existsSync(file("go-on"))) await wait(20); return "late"; }',
  'name: "held", metadata: { dangerous: true }, execute: async () => { note("held"); return "held"; }',
)}`,
};

interface Joined extends AsyncDisposable {
  readonly client: Client;
  readonly transport: StdioClientTransport;
  /** What `toolrack mcp` prints to standard error. */
  readonly said: () => string;
  readonly changes: string[];
}

async function connect(
  { directory }: TemporaryWorkspace,
  era: Era,
  ...words: readonly string[]
): Promise<Joined> {
  const [command = "", ...rest] = program;
  const changes: string[] = [];
  const client = new Client(
    { name: "tester", version: "1" },
    {
      capabilities: { elicitation: {} },
      versionNegotiation: { mode: era === "modern" ? { pin: "2026-07-28" } : "legacy" },
      listChanged: { tools: { onChanged: () => void changes.push("tools"), autoRefresh: false } },
    },
  );
  client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: {} }));
  const transport = new StdioClientTransport({
    command,
    args: [...rest, "mcp", ...words],
    cwd: directory,
    env: cleanEnvironment() as Record<string, string>, // All of its values are texts.
    stderr: "pipe",
  });
  let said = "";
  transport.stderr?.on("data", (text) => {
    said += text;
  });
  await client.connect(transport);
  return {
    client,
    transport,
    changes,
    said: () => said,
    [Symbol.asyncDispose]: () => client.close(),
  };
}

const textOf = async (client: Client, name: string) => {
  const { content } = await client.callTool({ name, arguments: {} });
  return JSON.stringify(content);
};

const runs = ({ directory }: TemporaryWorkspace) =>
  readFile(join(directory, "runs"), "utf8").then(
    (text) => text.trim().split("\n"),
    () => [],
  );

async function serving(workspace: TemporaryWorkspace): Promise<Serving & AsyncDisposable> {
  const server = await serve(workspace.directory, { logger: silent, port: 0 });
  return { ...server, [Symbol.asyncDispose]: () => server.close() };
}

/** The members of the API's answers that these tests read. */
interface Answer {
  readonly items: { readonly id: string; readonly caller: string; readonly error?: object }[];
  readonly id: string;
  readonly token: string;
}

const ask = async ({ url, token }: Serving, path: string, method = "GET", body?: object): Promise<Answer> => {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  return (await response.json()) as Answer; // The API answers in this form.
};

describe("`toolrack mcp` beside a running server", { timeout: 120_000 }, () => {
  it("shares the server's MCP servers, calls, records and approvals", async () => {
    const mark = `joined-${process.pid}`;
    const entry = { command: process.execPath, args: [odd, mark] };
    await using workspace = await TemporaryWorkspace.create({
      ...files,
      "mcp.json": JSON.stringify({ mcpServers: { q: entry } }),
    });
    await using server = await serving(workspace);
    const upstreams = () => processIds().filter((id) => wordsOf(id).includes(mark)).length;
    await vi.waitFor(() => expect(upstreams()).toBe(1), patience);
    await using one = await connect(workspace, "legacy");
    await using other = await connect(workspace, "modern");
    expect(one.said()).toContain(`Joined the server at ${server.url}.`);
    for (const { client } of [one, other]) {
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(["add", "mcp_q_echo"]));
      expect(await textOf(client, "add")).toContain(String(process.pid));
    }
    expect(upstreams()).toBe(1);
    const { items: clients } = await ask(server, "/api/clients");
    expect(clients).toEqual([
      expect.objectContaining({ name: "tester", transport: "stdio", era: "modern", caller: "mcp" }),
      expect.objectContaining({ name: "tester", transport: "stdio", era: "legacy", caller: "mcp" }),
    ]);
    const { items: calls } = await ask(server, "/api/calls?tool=add");
    expect(calls).toHaveLength(2);
    expect(calls[0]).toMatchObject({ caller: "mcp" });
    // The inbox of the server has the question of the client's call. This client declines to be asked.
    one.client.setRequestHandler("elicitation/create", () => new Promise(() => {}));
    const held = textOf(one.client, "held");
    await vi.waitFor(async () => {
      const { items: approvals } = await ask(server, "/api/approvals");
      expect(approvals).toEqual([expect.objectContaining({ toolName: "held", caller: "mcp" })]);
      await ask(server, `/api/approvals/${approvals[0]?.id}`, "POST", { decision: "allow" });
    }, patience);
    expect(await held).toContain("held");
  });

  it.each(eras)("asks a %s client, and tells it of progress, changes and cancelled calls", async (era) => {
    await using workspace = await TemporaryWorkspace.create(files);
    await using server = await serving(workspace);
    await using joined = await connect(workspace, era);
    const { client, changes } = joined;
    expect(await textOf(client, "asks")).toContain("accept");
    const heard: unknown[] = [];
    await client.callTool({ name: "steps" }, { onprogress: (update) => void heard.push(update) });
    expect(heard).toEqual([{ progress: 1, total: 1 }]);
    const gone = new AbortController();
    const stuck = client.callTool({ name: "stuck" }, { signal: gone.signal });
    await vi.waitFor(async () => expect(await runs(workspace)).toHaveLength(1), patience);
    gone.abort("enough");
    await expect(stuck).rejects.toThrow("enough");
    await vi.waitFor(async () => {
      const { items: calls } = await ask(server, "/api/calls?tool=stuck");
      expect(calls[0]?.error).toMatchObject({ code: "cancelled" });
    }, patience);
    await ask(server, "/api/tools/add", "PATCH", { enabled: false });
    await vi.waitFor(() => expect(changes).toContain("tools"), patience);
  });

  it.each(eras)("goes on for a %s client when the server stops, and runs no call twice", async (era) => {
    await using workspace = await TemporaryWorkspace.create(files);
    const server = await serve(workspace.directory, { logger: silent, port: 0 });
    await using joined = await connect(workspace, era);
    const { client, changes } = joined;
    expect(await textOf(client, "add")).toContain(String(process.pid));
    const stuck = client.callTool({ name: "stuck" }).then(JSON.stringify, String);
    await vi.waitFor(async () => expect(await runs(workspace)).toHaveLength(2), patience);
    changes.length = 0;
    await server.close();
    // The server had the time to say so itself.
    expect(await stuck).toMatch(/cancelled/i);
    const answer = await textOf(client, "add");
    expect(answer).not.toContain(String(process.pid));
    expect(await textOf(client, "asks")).toContain("accept");
    await vi.waitFor(() => expect(changes).toContain("tools"), patience);
    expect((await runs(workspace)).map((line) => line.split(" ")[0])).toEqual(["add", "stuck", "add"]);
  });

  it("answers calls of a killed server with an error, and a request that only asks by another rack", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    const [command = "", ...words] = program;
    const server = spawn(command, [...words, "serve", "--port", "0", "--json"], {
      cwd: workspace.directory,
      env: cleanEnvironment(),
      stdio: ["ignore", "pipe", "ignore"],
    });
    await once(server.stdout, "data");
    await using joined = await connect(workspace, "legacy");
    const { client } = joined;
    expect(joined.said()).toContain("Joined");
    const stuck = client.callTool({ name: "stuck" }).then(JSON.stringify, String);
    await vi.waitFor(async () => expect(await runs(workspace)).toHaveLength(1), patience);
    server.kill("SIGSTOP");
    const list = client.listTools();
    server.kill("SIGKILL");
    expect(await stuck).toMatch(/stopped before it answered.*nothing was run a second time/);
    expect((await list).tools.map(({ name }) => name)).toContain("stuck");
    expect(await runs(workspace)).toHaveLength(1);
    expect(joined.said()).toContain("The session goes on without it.");
  });

  it("joins a server that was started again, if the client was idle meanwhile", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    const before = await serve(workspace.directory, { logger: silent, port: 0 });
    await using joined = await connect(workspace, "legacy");
    await before.close();
    await using _after = await serving(workspace);
    expect(await textOf(joined.client, "add")).toContain(String(process.pid));
    expect(joined.said().match(/Joined/g)).toHaveLength(2);
  });

  it("opens the workspace itself with --no-join and --no-watch, and without a server", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    {
      await using _ = await serving(workspace);
      for (const flag of ["--no-join", "--no-watch"]) {
        await using alone = await connect(workspace, "legacy", flag);
        expect(await textOf(alone.client, "add")).not.toContain(String(process.pid));
      }
    }
    // As a killed server leaves it behind.
    const address = { url: "http://127.0.0.1:9", pid: process.pid };
    await writeFile(join(workspace.directory, ".toolrack", "server.json"), JSON.stringify(address));
    await using alone = await connect(workspace, "legacy");
    expect(await textOf(alone.client, "add")).not.toContain(String(process.pid));
  });

  it("serves one expert when joined, and ends with it", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    await using server = await serving(workspace);
    const { id } = await ask(server, "/api/experts", "POST", { name: "adder one", tools: ["add"] });
    await using joined = await connect(workspace, "legacy", "--expert", "adder one");
    expect(joined.said()).toContain("Joined");
    const { tools } = await joined.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["add"]);
    const closed = new Promise<void>((resolve) => {
      joined.client.onclose = resolve;
    });
    await ask(server, `/api/experts/${id}`, "DELETE");
    const refused = () => expect(joined.client.callTool({ name: "add" })).rejects.toThrow();
    await refused();
    // A call that was under way when the server let go of the client is answered by itself; the next one finds no expert.
    await refused();
    await closed;
    await vi.waitFor(() => expect(joined.said()).toContain('There is no expert "adder one"'), patience);
  });

  it("lets only the workspace's own token join, and answers what asks for another protocol over HTTP", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    await using server = await serving(workspace);
    const { token } = await ask(server, "/api/tokens", "POST", { name: "admin", scopes: { admin: true } });
    const upgrade = async (path: string, protocol: string, headers: object = {}) => {
      const asked = request(server.url + path, {
        headers: { connection: "Upgrade", upgrade: protocol, ...headers },
      }).end();
      const status = new Promise<number | undefined>((resolve, reject) => {
        asked.on("response", (response) => resolve(response.resume().statusCode)).on("error", reject);
        asked.on("upgrade", (response, socket) => {
          socket.destroy();
          resolve(response.statusCode);
        });
      });
      return status;
    };
    const own = { authorization: `Bearer ${server.token}` };
    expect(await upgrade("/mcp", joinProtocol)).toBe(401);
    expect(await upgrade("/mcp", joinProtocol, { authorization: `Bearer ${token}` })).toBe(403);
    expect(await upgrade("/mcp", joinProtocol, { ...own, host: "evil.example" })).toBe(403);
    expect(await upgrade("/mcp", joinProtocol, { ...own, origin: "http://evil.example" })).toBe(403);
    expect(await upgrade("/mcp/nobody", joinProtocol, own)).toBe(404);
    expect(await upgrade("/healthz", joinProtocol)).toBe(200);
    expect(await upgrade("/healthz", "h2c")).toBe(200);
    expect(await upgrade("/mcp", joinProtocol, own)).toBe(101);
  });
});

function wordsOf(id: number): string[] {
  try {
    return readFileSync(`/proc/${id}/cmdline`, "utf8").split("\0");
  } catch {
    return []; // It has ended.
  }
}
