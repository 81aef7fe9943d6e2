import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { EverythingServer } from "./testing/everything-server.fixture.ts";
import { type ScriptedCall, ScriptedHttpServer } from "./testing/scripted-http-server.fixture.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

type Answer = (call: Omit<ScriptedCall, "answer">) => void;

const tools = { echo: ({ answer }: ScriptedCall) => answer("here") };
const unknown = { code: -32_601, message: "Method not found" };

/** What working servers from before it make of the question whether they speak the new protocol. */
const answers: Record<string, Answer> = {
  "an error without an id": ({ send }) =>
    send(200, { jsonrpc: "2.0", id: null, error: { code: -32_600, message: "Invalid request" } }),
  "500 and an error of the protocol": ({ id, send }) => send(500, { jsonrpc: "2.0", id, error: unknown }),
  "501": ({ send }) => send(501, "unknown method"),
  "500 and a text": ({ send }) => send(500, "boom"),
  "a text": ({ send }) => send(200, "unknown method", { "content-type": "text/plain" }),
  "202": ({ send }) => send(202, ""),
  "204": ({ outgoing }) => void outgoing.writeHead(204).end(),
  "the end of the connection": ({ outgoing }) => outgoing.destroy(),
  "403 and an error of the protocol": ({ id, send }) => send(403, { jsonrpc: "2.0", id, error: unknown }),
};

describe("a server of the old protocol that is asked whether it speaks the new one", () => {
  it.each(Object.entries(answers))("and answers with %s is used", async (_, onDiscover) => {
    await using server = await ScriptedHttpServer.start({ tools, onDiscover });
    await using rack = await UpstreamRack.create();
    await rack.open({ old: { url: server.url } });
    await rack.until("old", "ready");
    expect(rack.servers.get("old")).toMatchObject({ era: "legacy", transport: "http", failures: 0 });
    expect(await rack.call("mcp_old_echo")).toMatchObject({ content: "here" });
  });

  it("and says nothing is used, and is asked only once", async () => {
    await using server = await ScriptedHttpServer.start({ tools, onDiscover: () => {} });
    await using rack = await UpstreamRack.create();
    await rack.open({ old: { url: server.url, toolrack: { limits: { connect: 6_000 } } } });
    await rack.until("old", "ready");
    expect(rack.servers.get("old")).toMatchObject({ era: "legacy", failures: 0 });
    await rack.servers.restart("old");
    await rack.until("old", "ready");
    expect(server).toMatchObject({ discoveries: 1, handshakes: 2 });
  });

  it("and does not take the handshake either says why of that, in one line", async () => {
    const onDiscover: Answer = ({ send }) => send(200, "?", { "content-type": "text/plain" });
    const sent: Record<string, Answer> = {
      page: ({ send }) => send(200, "<html>", { "content-type": "text/html" }),
      form: ({ id, send }) => send(200, { jsonrpc: "2.0", id, result: { protocolVersion: 7 } }),
      words: ({ id, send }) =>
        send(200, { jsonrpc: "2.0", id, error: { code: -32_603, message: "No\nlicence. ".repeat(500) } }),
      status: ({ send }) => send(500, "no database"),
      reset: ({ outgoing }) => outgoing.destroy(),
    };
    const reasons: Record<string, string | undefined> = {};
    for (const [key, onInitialize] of Object.entries(sent)) {
      await using server = await ScriptedHttpServer.start({ tools, onDiscover, onInitialize });
      await using rack = await UpstreamRack.create();
      await rack.open({ old: { url: server.url, type: "http" } });
      await rack.until("old", "backoff");
      reasons[key] = rack.servers.get("old").reason;
    }
    expect(reasons).toEqual({
      page: "It answered with something that is no message of MCP: its type is text/html.",
      form: "Its answer to initialize does not have the form that MCP gives it.",
      words: expect.stringMatching(/^No licence\. .{500,600}…$/),
      status: "It answered with 500 Internal Server Error: no database.",
      reset: "The connection was closed before the handshake was complete.",
    });
  });

  it("and wants credentials is not asked for anything else", async () => {
    await using server = await ScriptedHttpServer.start({ tools });
    server.authorization = "Bearer of-somebody-else";
    await using rack = await UpstreamRack.create();
    await rack.open({ old: { url: server.url } });
    await rack.until("old", "needs-auth");
    expect(server.handshakes).toBe(0);
  });
});

it("a server of the new protocol that could not say so says why, and not that it knows no other", async () => {
  const onDiscover: Answer = ({ send }) => send(500, "no database");
  const onInitialize: Answer = ({ id, send }) => send(400, { jsonrpc: "2.0", id, error: unknown });
  await using server = await ScriptedHttpServer.start({ era: "modern", tools, onDiscover, onInitialize });
  await using rack = await UpstreamRack.create();
  await rack.open({ new: { url: server.url } });
  await rack.until("new", "backoff");
  expect(rack.servers.get("new").reason).toBe("It answered with 500 Internal Server Error: no database.");
});

it("a server over SSE that wants its messages elsewhere says so, whether or not its type is known", async () => {
  const http = createServer((incoming, outgoing) => {
    if (incoming.method !== "GET") return void outgoing.writeHead(405).end();
    outgoing.writeHead(200, { "content-type": "text/event-stream" });
    outgoing.write("event: endpoint\ndata: http://elsewhere.example/messages\n\n");
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/sse`;
  try {
    await using rack = await UpstreamRack.create();
    await rack.open({ known: { url, type: "sse" }, found: { url } });
    for (const key of ["known", "found"]) {
      await rack.until(key, "backoff");
      expect(rack.servers.get(key).reason).toMatch(
        /^It wants its messages sent to http:\/\/elsewhere\.example, which is another place/,
      );
    }
  } finally {
    http.closeAllConnections();
    http.close();
  }
});

describe("an entry that pins the version of the protocol", () => {
  const pinned = (protocol: string) => ({ toolrack: { protocol } });

  it("has that version spoken, also where the server speaks the new one", async () => {
    await using server = await EverythingServer.start();
    await using rack = await UpstreamRack.create();
    await rack.open({ old: { url: server.url, ...pinned("2025-06-18") }, new: { url: server.url } });
    await Promise.all([rack.until("old", "ready"), rack.until("new", "ready")]);
    expect(rack.servers.get("old")).toMatchObject({ era: "legacy", protocolVersion: "2025-06-18" });
    expect(rack.servers.get("new")).toMatchObject({ era: "modern", protocolVersion: "2026-07-28" });
    expect(await rack.call("mcp_old_test_error_handling")).toMatchObject({ type: "error" });
  });

  it("is failed, with the reason, when the server speaks another", async () => {
    const serverInfo = { name: "scripted", version: "1" };
    const result = { protocolVersion: "2025-03-26", capabilities: {}, serverInfo };
    const onInitialize: Answer = ({ id, send }) => send(200, { jsonrpc: "2.0", id, result });
    await using server = await ScriptedHttpServer.start({ tools, onInitialize });
    await using rack = await UpstreamRack.create();
    await rack.open({
      older: { url: server.url, ...pinned("2024-11-05") },
      newer: { url: server.url, ...pinned("2026-07-28") },
    });
    await rack.until("older", "failed");
    await rack.until("newer", "failed");
    expect(rack.servers.get("older").reason).toMatch(
      /allows only version "2024-11-05" of the protocol, and it answers with version "[\d-]+"\. Take toolrack\.protocol out/,
    );
    expect(rack.servers.get("newer").reason).toMatch(/allows only version "2026-07-28" .* refuses it: /);
  });

  it("must name one that the rack speaks, and not the new one over SSE", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({});
    const url = "http://127.0.0.1:9/mcp";
    await expect(rack.servers.add("odd", { url, ...pinned("2027-01-01") })).rejects.toThrow(
      /toolrack\.protocol: .*2026-07-28/,
    );
    await expect(rack.servers.add("odd", { url, type: "sse", ...pinned("2026-07-28") })).rejects.toThrow(
      /not spoken over SSE/,
    );
    await expect(rack.servers.add("odd", { url, toolrack: { prefix: "mcp_" } })).rejects.toThrow(
      /toolrack\.prefix: It must not begin with/,
    );
  });
});

it("a server that refuses the new version and names it as its own is asked once more", async () => {
  let asked = 0;
  const error = { code: -32_022, message: "Unsupported", data: { supported: ["2026-07-28"] } };
  const result = { supportedVersions: ["2026-07-28"], capabilities: {} };
  await using server = await ScriptedHttpServer.start({
    tools,
    onDiscover: ({ id, send }) =>
      ++asked === 1 ? send(400, { jsonrpc: "2.0", id, error }) : send(200, { jsonrpc: "2.0", id, result }),
  });
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url } });
  await rack.until("far", "ready");
  expect([rack.servers.get("far").era, asked]).toEqual(["modern", 2]);
});

it("a tool at an address is left out, with the reason, where no request could carry its headers", async () => {
  const schema = (...properties: object[]) => ({ type: "object", properties: { ...properties } });
  const text = (header: unknown, type: unknown = "string") => ({ type, "x-mcp-header": header });
  const listed = {
    good: schema(text("One"), text("Two", ["integer", "null"])),
    empty: schema(text("")),
    words: schema(text("My Region")),
    list: schema(text("One", "array")),
    twice: schema(text("One"), text("one")),
  };
  await using server = await ScriptedHttpServer.start({
    tools: { good: ({ answer }) => answer("here") },
    list: () => ({ tools: Object.entries(listed).map(([name, inputSchema]) => ({ name, inputSchema })) }),
  });
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url } });
  await rack.until("far", "ready");
  expect(rack.registry.list().map(({ name }) => name)).toEqual(["mcp_far_good"]);
  const reasons = rack.servers.get("far").refused.map(({ name, reason }) => `${name}: ${reason}`);
  expect(reasons).toEqual([
    'empty: The x-mcp-header of its argument 0 is no name of a header: "".',
    'words: The x-mcp-header of its argument 0 is no name of a header: "My Region".',
    "list: The x-mcp-header of its argument 0 needs an argument that is a string, an integer or a boolean.",
    "twice: The x-mcp-header of its argument 1 is that of another argument, too: one.",
  ]);
});
