import { fileURLToPath } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Serving, serve } from "../../rack/serve.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { allCapabilities } from "./protocol/questions.ts";
import { ModernHttpServer } from "./testing/modern-http-server.fixture.ts";

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));
const logger = { debug() {}, info() {}, warn() {}, error() {} };

let modern: ModernHttpServer;
let workspace: TemporaryWorkspace;
let serving: Serving;
beforeAll(async () => {
  modern = await ModernHttpServer.start();
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "mcp.json": JSON.stringify({
      // It says when it has stopped; whose question it is would be in doubt otherwise for a while.
      mcpServers: { old: { command: process.execPath, args: [odd, "polite"] }, new: { url: modern.url } },
    }),
  });
  serving = await serve(workspace.directory, { logger, port: 0 });
  for (const key of ["old", "new"]) {
    await fetch(`${serving.url}/api/mcp-servers/${key}/restart`, {
      method: "POST",
      headers: { authorization: `Bearer ${serving.token}` },
    });
  }
}, 60_000);
afterAll(async () => {
  await serving.close();
  await modern[Symbol.asyncDispose]();
  await workspace[Symbol.asyncDispose]();
}, 60_000);

/** Everything crosses from every kind of client to every kind of server. */
describe.each(["legacy", "auto"] as const)("a client in the mode %s", { timeout: 60_000 }, (mode) => {
  async function connect(): Promise<Client> {
    const client = new Client(
      { name: "tester", version: "1" },
      { capabilities: allCapabilities, versionNegotiation: { mode } },
    );
    client.setRequestHandler("elicitation/create", ({ params }) => ({
      action: "accept",
      content: { name: `Ada, asked: ${params.message}` },
    }));
    const requestInit = { headers: { authorization: `Bearer ${serving.token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${serving.url}/mcp`), { requestInit }));
    return client;
  }

  it("speaks its own protocol with the rack", async () => {
    const client = await connect();
    expect(client.getProtocolEra()).toBe(mode === "auto" ? "modern" : "legacy");
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["mcp_old_echo", "mcp_new_echo"]));
    await client.close();
  });

  it.each(["old", "new"])("is asked what the server %s asks", async (server) => {
    const client = await connect();
    const { content } = await client.callTool({ name: `mcp_${server}_ask`, arguments: {} });
    expect(JSON.stringify(content)).toContain("Ada, asked: Your name?");
    await client.close();
  });

  it("sees progress, and its cancelling reaches the server", async () => {
    const client = await connect();
    const seen: unknown[] = [];
    await client.callTool(
      { name: "mcp_old_progress", arguments: {} },
      { onprogress: (update) => seen.push(update) },
    );
    expect(seen.length).toBeGreaterThan(0);
    const before = await cancelledAt(client);
    const stop = new AbortController();
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const unsubscribe = serving.app.registry.subscribe((event) => {
      if (event.type === "state" && event.toolName === "mcp_old_hang" && event.state.status === "running")
        start();
    });
    const hanging = client.callTool({ name: "mcp_old_hang", arguments: {} }, { signal: stop.signal });
    await started;
    unsubscribe();
    stop.abort();
    await expect(hanging).rejects.toThrow();
    const deadline = Date.now() + 20_000;
    while ((await cancelledAt(client)) === before && Date.now() < deadline);
    expect(await cancelledAt(client)).toBe(before + 1);
    await client.close();
  });
});

async function cancelledAt(client: Client): Promise<number> {
  const { content } = await client.callTool({ name: "mcp_old_cancelled", arguments: {} });
  return JSON.parse((content[0] as { text: string }).text).length;
}
