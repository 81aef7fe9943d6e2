import type { CallClient } from "@toolrack/core";
import { describe, expect, it, vi } from "vitest";
import { LegacyHttpServer } from "./testing/legacy-http-server.fixture.ts";
import { ModernHttpServer } from "./testing/modern-http-server.fixture.ts";
import { everybody, UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

function answering(name: string): CallClient {
  return { can: () => true, request: async () => ({ action: "accept", content: { name } }), notify() {} };
}

const reached = [
  ["Streamable HTTP", "/mcp", {}, "http"],
  ["SSE, when the entry says so", "/sse", { type: "sse" }, "sse"],
  ["SSE, found out", "/sse", {}, "sse"],
] as const;

describe.each(reached)("a server of the old SDK over %s", (_, path, more, transport) => {
  it("lists, runs, asks, is cancelled, and tells of changes", async () => {
    await using server = await LegacyHttpServer.start();
    await using rack = await UpstreamRack.create();
    await rack.open({ old: { url: server.url(path), ...more } });
    await rack.until("old", "ready");
    expect(rack.servers.get("old")).toMatchObject({ transport, era: "legacy" });
    expect(await rack.call("mcp_old_echo", { text: "hi" })).toMatchObject({ content: "hi" });
    const asked = await rack.call("mcp_old_ask", {}, { client: answering("Ada") });
    expect(JSON.parse(asked.content)).toEqual({ action: "accept", content: { name: "Ada" } });

    const stop = new AbortController();
    const hanging = rack.call("mcp_old_hang", {}, { signal: stop.signal });
    await rack.eventually(() => rack.servers.get("old").inFlight === 1, "the call is under way");
    await rack.call("mcp_old_echo", { text: "the server has seen the call before" });
    stop.abort();
    expect(await hanging).toMatchObject({ error: { code: "cancelled" } });
    await rack.eventually(() => server.cancelled.length === 1, "the server knows");

    await rack.call("mcp_old_grow");
    await rack.eventually(() => rack.registry.get("mcp_old_grown") !== undefined, "the new tool");
  });
});

describe("a server of the old SDK", () => {
  it("that asks two callers at once over HTTP asks each its own question", async () => {
    await using server = await LegacyHttpServer.start();
    await using rack = await UpstreamRack.create();
    await rack.open({ old: { url: server.url("/mcp") } });
    await rack.until("old", "ready");
    const names = ["Ada", "Bo", "Cy", "Di"];
    const answers = await Promise.all(
      names.map((name) => rack.call("mcp_old_ask_here", {}, { client: answering(name) })),
    );
    expect(answers.map(({ content }) => JSON.parse(content).content.name)).toEqual(names);
  });

  it("that forgot our session is shaken hands with again, and the call is made", async () => {
    await using server = await LegacyHttpServer.start();
    await using rack = await UpstreamRack.create();
    await rack.open({ old: { url: server.url("/mcp") } });
    await rack.until("old", "ready");
    server.forgetSessions();
    const results = await Promise.all(
      [1, 2, 3].map((text) => rack.call("mcp_old_echo", { text: String(text) })),
    );
    expect(results.map(({ content }) => content)).toEqual(["1", "2", "3"]);
  });

  it("that goes away and comes back is found again; in between calls fail at once", async () => {
    await using rack = await UpstreamRack.create();
    let port: number;
    {
      await using server = await LegacyHttpServer.start();
      port = server.port;
      await rack.open({ old: { url: server.url("/mcp") } });
      await rack.until("old", "ready");
    }
    expect((await rack.call("mcp_old_echo", { text: "a" })).type).toBe("error");
    // The call may have gone out on a connection whose end nobody had seen yet. Then the server is looked after first.
    await rack.until("old", "backoff");
    expect(rack.servers.get("old").circuit).not.toBe("closed");
    await using _again = await LegacyHttpServer.start({ port });
    await rack.until("old", "ready");
    expect(await rack.call("mcp_old_echo", { text: "b" })).toMatchObject({ content: "b" });
  });

  it("that sends more than it may over a stream for all answers is connected to anew", async () => {
    await using server = await LegacyHttpServer.start();
    await using rack = await UpstreamRack.create();
    await rack.open({ old: { url: server.url("/sse"), type: "sse" } });
    await rack.until("old", "ready");
    expect((await rack.call("mcp_old_big")).type).toBe("error");
    expect(rack.servers.log("old").map(({ text }) => text)).toContainEqual(expect.stringMatching(/64 MB/));
    await rack.until("old", "ready");
    expect(await rack.call("mcp_old_echo", { text: "again" })).toMatchObject({ content: "again" });
  });

  it("that wants a token needs one, and is used with it", async () => {
    await using server = await LegacyHttpServer.start({ token: "the-token-of-the-server" });
    await using rack = await UpstreamRack.create();
    await rack.secrets.set("OLD", "the-token-of-the-server");
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of the file.
    const headers = { Authorization: "Bearer ${secret:OLD}" };
    await rack.open({ without: { url: server.url("/mcp") }, with: { url: server.url("/mcp"), headers } });
    await rack.until("with", "ready");
    await rack.until("without", "needs-auth");
    expect(rack.servers.get("without").reason).toMatch(/Authorization/);
    expect(JSON.stringify(rack.servers.list())).not.toContain("the-token-of-the-server");
  });
});

describe("a server of the stateless protocol", () => {
  it("lists, runs, asks by input_required, is cancelled by the end of the stream, and tells of changes", async () => {
    await using server = await ModernHttpServer.start();
    await using rack = await UpstreamRack.create();
    await rack.open({ new: { url: server.url } });
    await rack.until("new", "ready");
    expect(rack.servers.get("new")).toMatchObject({
      transport: "http",
      era: "modern",
      protocolVersion: "2026-07-28",
    });
    // Its schema asks for the argument as a header too, which not everything fits into.
    for (const text of ["hi", "你好", " "]) {
      expect(await rack.call("mcp_new_echo", { text })).toEqual({ content: text, type: "text" });
    }
    const asked = await rack.call("mcp_new_ask", {}, { client: answering("Ada") });
    expect(JSON.parse(asked.content)).toEqual([{ action: "accept", content: { name: "Ada" } }, "half-way"]);
    // It is told with every request whom it can ask.
    expect((await rack.call("mcp_new_ask")).type).toBe("error");

    const stop = new AbortController();
    const started = Promise.withResolvers<void>();
    rack.registry.subscribe((event) => event.type === "progress" && started.resolve());
    const hanging = rack.call("mcp_new_hang", {}, { signal: stop.signal });
    await started.promise;
    stop.abort();
    expect(await hanging).toMatchObject({ error: { code: "cancelled" } });
    await rack.eventually(() => server.cancelled.length === 1, "the server knows");

    await rack.call("mcp_new_grow");
    await rack.eventually(() => rack.registry.get("mcp_new_grown") !== undefined, "the new tool");
  });

  it("whose stream of changes is cut is listened to again, and what changed meanwhile is seen", async () => {
    await using server = await ModernHttpServer.start();
    await using rack = await UpstreamRack.create();
    await rack.open({ new: { url: server.url } });
    await rack.until("new", "ready");
    server.addTool("unannounced");
    server.dropConnections();
    await rack.eventually(() => rack.registry.get("mcp_new_unannounced") !== undefined, "the new tool");
    await rack.call("mcp_new_grow");
    await rack.eventually(() => rack.registry.get("mcp_new_grown") !== undefined, "it is listened to again");
    expect(rack.servers.get("new")).toMatchObject({ state: "ready", failures: 0 });
  });

  it("tells of changes of a resource that somebody watches", async () => {
    await using server = await ModernHttpServer.start();
    await using rack = await UpstreamRack.create();
    await rack.open({ new: { url: server.url } });
    await rack.until("new", "ready");
    const seen: unknown[] = [];
    rack.offerings.subscribe((change) => seen.push(change));
    const stop = await rack.offerings.watchResource("new://clock", everybody);
    await rack.eventually(() => {
      server.tick();
      return seen.some((change) => JSON.stringify(change).includes("new://clock"));
    }, "the change is told");
    stop?.();
  });

  it("is not asked again which protocol it speaks", async () => {
    await using server = await ModernHttpServer.start();
    await using rack = await UpstreamRack.create();
    await rack.open({ new: { url: server.url } });
    await rack.until("new", "ready");
    const { verdict } = (await rack.store.mcpServers.get("new")) ?? {};
    expect(verdict).toMatchObject({ era: "modern", transport: "http", at: expect.any(Number) });
    await rack.servers.restart("new");
    expect(rack.servers.get("new")).toMatchObject({ state: "ready", era: "modern" });
    expect((await rack.store.mcpServers.get("new"))?.verdict).toEqual(verdict);
    expect(await rack.call("mcp_new_echo", { text: "again" })).toMatchObject({ content: "again" });
  });
});
