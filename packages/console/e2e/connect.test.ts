import { execFile } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client as ClientName, connectWith } from "../src/pages/home/connections.ts";
import { copyAs } from "../src/pages/tools/copy-as.ts";
import { ConsoleServer } from "./console-server.ts";

const run = promisify(execFile);

/** As they are copied, in a folder that has nothing to do with the workspace, whose name is as awkward as names get. */
describe("what is copied to connect", { timeout: 480_000 }, () => {
  let server: ConsoleServer;
  let elsewhere: string;
  let token: string;
  let place: { url: string; workspace: string; program: string[] };

  beforeAll(async () => {
    server = await ConsoleServer.start({ name: "my $rack's `tools`" });
    elsewhere = await server.folder("else where", { "package.json": '{ "type": "module" }' });
    const info = await server.ask<{ workspace: string; program: string[] }>("/api/server");
    place = { url: server.url, ...info };
    const made = await server.ask<{ token: string }>("/api/tokens", {
      name: "client",
      scopes: { tools: ["*"] },
    });
    token = made.token;
  }, 240_000);
  afterAll(() => server?.close());

  const shell = async (command: string, environment: Record<string, string> = {}) =>
    (await run("sh", ["-c", command], { cwd: elsewhere, env: { ...process.env, ...environment } })).stdout;
  const stepsOf = (client: ClientName) => connectWith(client, place, token).steps;

  it("calls a tool from the command line and with curl", async () => {
    const call = { tool: "hello_world", args: { name: "O'Brien $HOME" }, ...place };
    expect(await shell(copyAs("cli", call))).toContain("Hello, O'Brien $HOME! Letters: 13");
    const { result } = JSON.parse(await shell(copyAs("curl", call)));
    expect(result.content).toBe("Hello, O'Brien $HOME! Letters: 13");
  });

  it("lists tools with curl, with a token that may not answer questions", async () => {
    const { items } = JSON.parse(await shell(stepsOf("curl")[0]!.text));
    expect(items.length).toBeGreaterThan(3);
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(`${server.url}/api/approvals`, { headers })).status).toBe(403);
  });

  it("starts for a client that starts its servers itself, without a PATH", async () => {
    const { mcpServers } = JSON.parse(stepsOf("claude-desktop")[0]!.text);
    const { command, args } = mcpServers.toolrack;
    const client = new Client({ name: "desktop", version: "1" });
    await client.connect(
      new StdioClientTransport({ command, args, env: { PATH: "" }, cwd: elsewhere, stderr: "ignore" }),
    );
    const { content } = await client.callTool({ name: "hello_world", arguments: { name: "Ada" } });
    expect(JSON.stringify(content)).toContain("Hello, Ada!");
    await client.close();
  });

  it("lets the model answer with what the tools gave", async () => {
    const { model, url } = await openModel();
    try {
      const [file, commands] = stepsOf("openai");
      await writeFile(join(elsewhere, file!.file!), file!.text);
      await mkdir(join(elsewhere, "node_modules"));
      await symlink(packageFolder("openai"), join(elsewhere, "node_modules", "openai"));
      const script = commands!.text
        .replace("npm install openai", "true")
        .replace("node ", `'${process.execPath}' `);
      const said = await shell(script, { OPENAI_API_KEY: "none", OPENAI_BASE_URL: url });
      expect(said.trim()).toBe("The tool said: Hello, Ada! Letters: 3");
    } finally {
      model.close();
    }
  });
});

/** A model that calls a tool once and then repeats what it gave. */
async function openModel(): Promise<{ model: Server; url: string }> {
  const model = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const { messages } = JSON.parse(text);
    const last = messages.at(-1);
    const calls = [
      { id: "1", type: "function", function: { name: "hello_world", arguments: '{"name":"Ada"}' } },
    ];
    const message =
      last.role === "tool"
        ? { role: "assistant", content: `The tool said: ${last.content}` }
        : { role: "assistant", content: null, tool_calls: calls };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ id: "1", object: "chat.completion", choices: [{ index: 0, message }] }));
  });
  await new Promise<void>((resolve) => model.listen(0, "127.0.0.1", resolve));
  const { port } = model.address() as AddressInfo; // A server that listens on a port has such an address.
  return { model, url: `http://127.0.0.1:${port}/v1` };
}

/** Of a package whose entry lies at its root. */
function packageFolder(name: string): string {
  const server = join(import.meta.dirname, "..", "..", "server", "package.json");
  return dirname(createRequire(server).resolve(name));
}
