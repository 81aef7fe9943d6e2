import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";
import { cleanEnvironment, program } from "../testing/spawn-cli.ts";

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
type Json = any;

const tools = `
import { Tool } from "@toolrack/core";
const path = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
export const greet = Tool.define({ name: "greet", description: "Greets.", parameters: path, execute: async ({ input }) => "hello " + input.path });
export const remove = Tool.define({ name: "remove", description: "Removes.", metadata: { dangerous: true }, parameters: path, execute: async ({ input }) => "removed " + input.path });
export const slow = Tool.define({ name: "slow", description: "Takes a while.", parameters: path,
  execute: async ({ input }) => { await new Promise((resolve) => setTimeout(resolve, 700)); return "done " + input.path; } });
export const nest = Tool.define({ name: "nest", description: "Has another tool work for ever.", parameters: path,
  execute: async ({ input, call }) => (await call("endless", input)).content });
export const endless = Tool.define({ name: "endless", description: "Never ends.", parameters: path, execute: () => new Promise(() => {}) });
`;

/** The real program, serving. */
class Served {
  readonly child: ChildProcess;
  readonly directory: string;
  readonly ended: Promise<unknown[]>;
  output = "";
  #onOutput = () => {};

  constructor(directory: string, args: readonly string[] = []) {
    this.directory = directory;
    const [file, ...words] = program;
    this.child = spawn(file!, [...words, "serve", "--port", "0", ...args], {
      cwd: directory,
      env: cleanEnvironment(),
    });
    this.ended = once(this.child, "close");
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.setEncoding("utf8").on("data", (text) => {
        this.output += text;
        this.#onOutput();
      });
    }
  }

  async says(text: string | RegExp): Promise<void> {
    while (this.output.search(text) === -1) {
      await new Promise<void>((resolve) => {
        this.#onOutput = resolve;
      });
    }
  }

  async ask(path: string, body?: unknown): Promise<{ status: number; body: Json }> {
    const { url } = JSON.parse(readFileSync(join(this.directory, ".toolrack/server.json"), "utf8"));
    const token = readFileSync(join(this.directory, ".toolrack/token"), "utf8").trim();
    const response = await fetch(url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json() };
  }

  call(name: string, path: string, more: object = {}) {
    return this.ask(`/api/tools/${name}/calls`, { arguments: { path }, ...more });
  }

  async question(): Promise<string> {
    const pending = async () => (await this.ask("/api/approvals")).body.items;
    await expect.poll(pending, { timeout: 180_000 }).toHaveLength(1);
    return (await pending())[0].id;
  }

  async stop(signal: NodeJS.Signals): Promise<unknown> {
    this.child.kill(signal);
    return (await this.ended)[0];
  }
}

describe("toolrack serve", { timeout: 180_000 }, () => {
  let workspace: TemporaryWorkspace;
  let served: Served;
  const cli = (...args: string[]) => runCli(args, { cwd: workspace.directory });

  beforeAll(async () => {
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
      "tools/all.ts": tools,
      "tools/broken.ts": "export const schema = {",
    });
    served = new Served(workspace.directory);
    await served.says("Ctrl-C stops");
  }, 60_000);

  afterAll(async () => {
    await served.stop("SIGKILL");
    await workspace[Symbol.asyncDispose]();
  });

  it("says what was loaded, what failed and how to connect", () => {
    const token = readFileSync(join(workspace.directory, ".toolrack/token"), "utf8").trim();
    expect(served.output).toMatch(/1 tool file loaded in .*, 1 failed/);
    expect(served.output).toContain(
      "[loader] found 2 tool files\n[loader] loaded tool: endless\n[loader] loaded tool: greet\n",
    );
    expect(served.output).toMatch(/\[loader\] 5 tools of 1 file, 1 refused/);
    expect(served.output).not.toContain("[loader] refused");
    expect(served.output).toMatch(/tools\/broken\.ts:\d+: .+\n {2}.+/);
    expect(served.output).toMatch(/Serving at http:\/\/127\.0\.0\.1:\d+/);
    expect(served.output).toContain(token);
    expect(served.output).toMatch(/curl .*\/api\/tools\n.*curl .*\/openai\/tools/);
    const { mode } = statSync(join(workspace.directory, ".toolrack/server.json"));
    if (process.platform !== "win32") expect(mode & 0o777).toBe(0o600);
  });

  it("counts the tools that clients are shown", async () => {
    const url = /MCP clients +(\S+)/.exec(served.output)?.[1] ?? "";
    const response = await fetch(url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${readFileSync(join(workspace.directory, ".toolrack/token"), "utf8").trim()}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
    });
    const answer: Json = JSON.parse(/\{.*\}/s.exec(await response.text())?.[0] ?? "");
    expect(served.output).toContain(`\n${answer.result.tools.length} tools on the rack;`);
  });

  it("serves calls, and shows each on a line", async () => {
    expect((await served.call("greet", "Ada")).body.result.content).toBe("hello Ada");
    await served.says(/success +[\d.]+ ms +greet +node/);
  });

  it("says what a tool file lacks that its contract asks for", async () => {
    await workspace.write(
      "tools/old/peek.js",
      "module.exports = { name: 'Peek', description: 'x', inputSchema: { type: 'object' }, handler: async () => 'ok' }",
    );
    await served.says(
      /warning: \[loader\] tools\/old\/peek\.js: Its name "Peek" has capitals.* Write "peek"/,
    );
    await workspace.remove("tools/old/peek.js");
    await served.says("removed internal_old_Peek");
  });

  it("loads tool files anew, and tells of it", async () => {
    await workspace.write(
      "tools/later.ts",
      tools.replaceAll("greet", "later").split("export const remove")[0]!,
    );
    await served.says(/Reloaded in .*added later/);
    expect((await served.call("later", "Ada")).status).toBe(200);
  });

  it("lets a question be answered on the command line, once", async () => {
    const call = served.call("remove", "a.txt");
    const id = await served.question();
    const [listed, approved] = [await cli("approvals"), await cli("approvals", "approve", id)];
    expect(listed.stdout).toContain(`${id}  pending`);
    expect(listed.stdout).toContain('{"path":"a.txt"}');
    expect(approved).toMatchObject({ code: 0, stderr: "allowed: remove for node\n" });
    expect((await call).body.result.content).toBe("removed a.txt");

    const again = await cli("approvals", "deny", id, "--json");
    expect(again.code).toBe(1);
    expect(JSON.parse(again.stdout).error.code).toBe("approval_decided");
    expect((await served.ask(`/api/approvals/${id}`, { decision: "allow" })).status).toBe(409);
  });

  it("hands the reason of a denial on", async () => {
    const call = served.call("remove", "b.txt");
    await cli("approvals", "deny", await served.question(), "--reason", "keep it");
    const { status, body } = await call;
    expect(status).toBe(403);
    expect(body.error.message).toContain("keep it");
  });

  it("says so when its port is taken, and what to do", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as { port: number };
    const { code, stderr } = await cli("serve", "--port", String(port));
    other.close();
    expect(code).toBe(1);
    expect(stderr).toMatch(/error: Another program listens on .*serve --port 0/);
    expect(await served.call("greet", "still there")).toMatchObject({ status: 200 });
  });

  it("drains on SIGTERM: what runs ends, what waits is refused, and the next run knows of both", async () => {
    const running = served.call("slow", "work", { callId: "running" });
    const waiting = served.call("remove", "c.txt", { callId: "waiting" });
    const id = await served.question();
    expect((await served.ask("/api/calls/waiting")).body.status).toBe("running");
    expect(await served.stop("SIGTERM")).toBe(0);
    expect((await running).body.result.content).toBe("done work");
    expect((await waiting).body.error.message).toContain("the server is stopping");
    expect(served.output).toContain("Stopped.");
    expect(existsSync(join(workspace.directory, ".toolrack/server.json"))).toBe(false);
    expect((await cli("mcp-servers")).stderr).toMatch(/No server runs on .*toolrack serve/);

    served = new Served(workspace.directory, ["--no-watch"]);
    await served.says("Ctrl-C stops");
    expect((await served.ask("/api/calls/running")).body).toMatchObject({ status: "completed" });
    expect((await served.ask("/api/calls/waiting")).body).toMatchObject({ status: "error" });
    // Whoever agrees to it now has the call made; here nobody does.
    expect((await served.ask(`/api/approvals/${id}`)).body).toMatchObject({ state: "pending" });
    expect((await cli("approvals", "deny", id)).code).toBe(0);
    expect((await served.ask(`/api/approvals/${id}`)).body).toMatchObject({ state: "denied" });
  });

  it("knows after a crash of the calls that tools had made", async () => {
    void served.call("nest", "deep", { callId: "outer" }).catch(() => {});
    const running = async () => (await served.ask("/api/calls?status=running")).body.items;
    await expect.poll(running, { timeout: 180_000 }).toHaveLength(2);
    const child = (await running()).find(({ toolName }: Json) => toolName === "endless");
    expect(child).toMatchObject({ parentCallId: "outer", caller: "nest_outer" });
    await served.stop("SIGKILL");
    served = new Served(workspace.directory, ["--no-watch"]);
    await served.says("Ctrl-C stops");
    for (const id of ["outer", child.callId]) {
      expect((await served.ask(`/api/calls/${id}`)).body.status).toBe("interrupted");
    }
  });

  it("is not sent the token when another program listens where it did", async () => {
    const { url } = JSON.parse(readFileSync(join(workspace.directory, ".toolrack/server.json"), "utf8"));
    await served.stop("SIGKILL");
    const heard: string[] = [];
    const impostor = createHttpServer((incoming, outgoing) => {
      heard.push(`${incoming.url} ${JSON.stringify(incoming.headers)}`);
      outgoing.end('{"items": [], "proof": "of nothing"}');
    }).listen(Number(new URL(url).port), "127.0.0.1");
    await once(impostor, "listening");
    const { code, stderr } = await cli("mcp-servers");
    impostor.close();
    expect(code).toBe(1);
    expect(stderr).toMatch(/is not the server of this workspace, so it was not sent the token\. .*has ended/);
    const token = readFileSync(join(workspace.directory, ".toolrack/token"), "utf8").trim();
    expect(heard).toHaveLength(1);
    expect(heard[0]).not.toContain(token);
    served = new Served(workspace.directory, ["--no-watch", "--host", "0.0.0.0"]);
    await served.says("Ctrl-C stops");
  });

  it("warns who listens for others that nothing is encrypted", async () => {
    await served.says(/warning: others on the network reach this server at .*unencrypted/);
  });

  it("keeps after a crash the question of a call that died with the process", async () => {
    const call = served.call("remove", "d.txt", { callId: "dies" }).catch(() => "cut off");
    const id = await served.question();
    // The start of a call is written with the next batch, a moment after the question.
    await expect.poll(async () => (await served.ask("/api/calls?status=running")).body.items).toHaveLength(1);
    await served.stop("SIGKILL");
    expect(await call).toBe("cut off");
    expect((await cli("mcp-servers")).stderr).toContain("No server answers");

    served = new Served(workspace.directory, ["--json"]);
    await served.says('"ready"');
    expect(JSON.parse(served.output.split("\n")[0]!)).toMatchObject({ type: "ready", interrupted: 1 });
    expect((await served.ask("/api/calls/dies")).body.status).toBe("interrupted");
    expect((await served.ask(`/api/approvals/${id}`)).body).toMatchObject({ state: "pending" });
    expect(await served.stop("SIGINT")).toBe(0);
  });
});
