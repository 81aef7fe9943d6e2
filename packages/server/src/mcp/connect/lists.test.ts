import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { type ScriptedCall, ScriptedHttpServer } from "./testing/scripted-http-server.fixture.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const echo = ({ answer }: ScriptedCall) => answer("here");
const listChanged = { tools: { listChanged: true } };

function toolNamed(name: string): object {
  return { name, inputSchema: { type: "object" } };
}

describe("a server that says that it tells of changes", () => {
  it.each([
    ["old", "has no stream on which it could"],
    ["new", "cannot be listened to"],
  ] as const)("in the %s protocol and %s is asked from time to time", async (protocol, _) => {
    const tools: Record<string, (call: ScriptedCall) => void> = { echo };
    const era = protocol === "new" ? "modern" : "legacy";
    await using server = await ScriptedHttpServer.start({ era, tools, capabilities: listChanged });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url, toolrack: { limits: { refresh: 50 } } } });
    await rack.until("far", "ready");
    tools.later = echo;
    await rack.eventually(() => rack.registry.get("mcp_far_later") !== undefined, "the new tool");
  });

  it("and does is not asked", async () => {
    const tools: Record<string, (call: ScriptedCall) => void> = { echo };
    const stream = Promise.withResolvers<ServerResponse>();
    let reads = 0;
    await using server = await ScriptedHttpServer.start({
      tools,
      onListen: (_, outgoing) => {
        outgoing.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
        stream.resolve(outgoing);
      },
      list: () => {
        reads++;
        return { tools: Object.keys(tools).map(toolNamed) };
      },
    });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url, toolrack: { limits: { refresh: 20 } } } });
    const outgoing = await stream.promise;
    await rack.until("far", "ready");
    tools.later = echo;
    const changed = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
    outgoing.write(`data: ${JSON.stringify(changed)}\n\n`);
    await rack.eventually(() => rack.registry.get("mcp_far_later") !== undefined, "the new tool");
    // Whoever has heard of the change hears the server.
    await rack.eventually(() => rack.servers.get("far").inFlight === 0, "the lists have been read");
    await delay(100);
    const before = reads;
    await delay(300);
    expect(reads).toBe(before);
  });

  it("and whose lists show that it has forgotten the session is shaken hands with again", async () => {
    await using server = await ScriptedHttpServer.start({ tools: { echo } });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url, toolrack: { limits: { refresh: 50 } } } });
    await rack.until("far", "ready");
    server.forgetSessions();
    await rack.eventually(() => server.handshakes === 2, "the second handshake");
    await rack.until("far", "ready");
    expect(rack.servers.get("far").failures).toBe(0);
  });
});

describe("a list in pages", () => {
  async function listing(list: (cursor: string | undefined) => object, limit = 30_000) {
    const server = await ScriptedHttpServer.start({ tools: { echo }, list });
    const rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url, toolrack: { limits: { list: limit } } } });
    await rack.until("far", "ready");
    const { tools, problem } = rack.servers.get("far");
    await rack[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    return { tools, problem };
  }

  it("is read to its end, however many there are", async () => {
    const found = await listing((cursor = "0") => ({
      tools: [toolNamed(`t${cursor}`)],
      ...(cursor === "199" ? {} : { nextCursor: String(Number(cursor) + 1) }),
    }));
    expect(found).toEqual({ tools: 200, problem: undefined });
  });

  it.each([
    ["the same page", { a: "a" }],
    ["an earlier page", { a: "b", b: "a" }],
  ])("that leads to %s again is cut there, and the server says so", async (_, next) => {
    const pages = new Map<string | undefined, string>([[undefined, "a"], ...Object.entries(next)]);
    const found = await listing((cursor) => ({
      tools: [toolNamed(cursor ?? "first")],
      nextCursor: pages.get(cursor),
    }));
    expect(found).toEqual({
      tools: pages.size,
      problem: `Of its answer to tools/list, only the first ${pages.size} were read: it goes round in circles with its pages.`,
    });
  });

  it("that has no end is cut when its time is over, and the server says so", async () => {
    // Long pages, so that no machine reads as many as a list may have within the time.
    const _meta = { filler: "x".repeat(200_000) };
    const found = await listing((cursor = "") => ({ tools: [], nextCursor: `${cursor}x`, _meta }), 300);
    expect(found.problem).toMatch(/tools\/list, .* did not come within 300 ms.*limits\.list\.$/);
  });
});
