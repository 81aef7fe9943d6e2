import { expect, it, vi } from "vitest";
import { DroppingHttpServer } from "./testing/dropping-http-server.fixture.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

it("a call goes on when its stream breaks and the server can send again what was missed", async () => {
  await using server = await DroppingHttpServer.start();
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url("/mcp") } });
  await rack.until("far", "ready");
  expect(await rack.call("mcp_far_drop")).toMatchObject({ content: "came through" });
  expect(server.calls).toBe(1);
  expect(server.resumed.length).toBeGreaterThan(0);
  expect(rack.servers.get("far").state).toBe("ready");
});

it("several calls at once each get their own answer back", async () => {
  await using server = await DroppingHttpServer.start();
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url("/mcp") } });
  await rack.until("far", "ready");
  const answers = await Promise.all([1, 2, 3].map(() => rack.call("mcp_far_drop")));
  expect(answers.map(({ content }) => content)).toEqual(["came through", "came through", "came through"]);
  expect(server.calls).toBe(3);
});

it("a call fails at once when its stream breaks and nothing can be sent again", async () => {
  await using server = await DroppingHttpServer.start({ canReplay: false });
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url("/mcp") } });
  await rack.until("far", "ready");
  const { error } = await rack.call("mcp_far_drop", {}, { timeout: 30_000 });
  expect(error?.message).toMatch(/ended its answer before it was complete/);
  expect(await rack.call("mcp_far_plain")).toMatchObject({ content: "plain" });
  expect(server.calls).toBe(1);
});

it("over SSE, where nothing can be sent again, a broken stream fails the call at once", async () => {
  await using server = await DroppingHttpServer.start();
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url("/sse"), type: "sse" } });
  await rack.until("far", "ready");
  const { error } = await rack.call("mcp_far_drop", {}, { timeout: 30_000 });
  expect(error?.message).toMatch(/Its connection was closed/);
  await rack.until("far", "ready");
  expect(await rack.call("mcp_far_plain")).toMatchObject({ content: "plain" });
  expect(server.calls).toBe(1);
});
