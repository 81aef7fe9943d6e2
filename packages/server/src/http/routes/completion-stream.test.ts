import { once } from "node:events";
import { createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, vi } from "vitest";
import { ChatRack, called } from "../../chat/testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 120_000 });

it("cuts off a reader that takes nothing in, and ends the model's answer with it", async () => {
  let isGone = false;
  const delta = { choices: [{ index: 0, delta: { content: "0123456789" } }] };
  const piece = `data: ${JSON.stringify(delta)}\n\n`.repeat(100);
  const upstream = createServer((_incoming, outgoing) => {
    outgoing.on("close", () => {
      isGone = true;
    });
    outgoing.writeHead(200, { "content-type": "text/event-stream" });
    const pour = () => {
      while (!outgoing.destroyed && outgoing.write(piece));
    };
    outgoing.on("drain", pour);
    pour();
  });
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const { port } = upstream.address() as AddressInfo;
  await using rack = await ChatRack.start({ provider: { baseURL: `http://127.0.0.1:${port}/v1` } });
  const asked = request(`${rack.serving.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${rack.serving.token}`, "content-type": "application/json" },
  });
  asked.on("error", () => {});
  asked.end(JSON.stringify({ stream: true, messages: [{ role: "user", content: "hi" }] }));
  const [response] = (await once(asked, "response")) as [IncomingMessage];
  response.on("error", () => {}).pause();
  await expect.poll(() => isGone, { timeout: 60_000 }).toBe(true);
  const broke = new Promise((resolve) => response.once("close", resolve));
  response.resume();
  await broke;
  expect(response.complete).toBe(false);
  upstream.close();
});

it("has begun when tools run, so that no client waits for a first byte", async () => {
  await using rack = await ChatRack.start();
  rack.script((_request, asked) => (asked === 0 ? called(["write", { text: "hold-b" }]) : { content: "ok" }));
  const body = { stream: true, messages: [{ role: "user", content: "hi" }] };
  const response = await rack.fetch("/v1/chat/completions", { body });
  expect(response.status).toBe(200);
  await rack.hold.started("hold-b");
  rack.hold.release("hold-b");
  expect(await response.text()).toContain('"content":"ok"');
});
