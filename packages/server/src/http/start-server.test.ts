import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it } from "vitest";
import { StreamReader, sampleTools, TestServer } from "./server.fixture.ts";

it("says where it listens and keeps its token to its owner", async () => {
  await using server = await TestServer.start();
  expect(server.server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  const { mode } = await stat(join(server.workspace.directory, ".toolrack", "token"));
  expect(mode & 0o777).toBe(0o600);
  expect(Buffer.from(server.server.token, "base64url").length).toBe(32);
});

it("says which address it could not have", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => other.once("listening", resolve));
  const { port } = other.address() as AddressInfo;
  await expect(TestServer.start({ port })).rejects.toThrow(`Another program listens on 127.0.0.1:${port}`);
  other.close();
});

it("lets calls end when it is told to stop, takes no new ones, and closes streams", async () => {
  const { tools, hold } = sampleTools();
  await using server = await TestServer.start({ tools, drainTimeout: 5_000 });
  const events = new StreamReader(await server.fetch("/api/events"));
  await events.until("ready");
  const body = { arguments: { id: "last" }, callId: "last" };
  const asked = server.fetch("/api/tools/wait/calls", { method: "POST", body });
  await hold.started("last");
  const keptAlive = await server.fetch("/healthz");
  expect(keptAlive.status).toBe(200);

  const closing = server.server.close();
  await expect(server.fetch("/api/tools")).rejects.toThrow();
  const start = performance.now();
  hold.release("last");
  await closing;
  expect(performance.now() - start).toBeLessThan(4_000);
  expect(await (await asked).json()).toMatchObject({ status: "completed", recorded: true });
  expect(await server.store.calls.get("last")).toMatchObject({ outcome: "completed" });
  expect((await events.all()).map(({ event }) => event)).toContain("call.completed");
});

it("cancels calls that do not end in time, and records them", async () => {
  const { tools, hold } = sampleTools();
  await using server = await TestServer.start({ tools, drainTimeout: 50 });
  const asked = server.fetch("/api/tools/wait/calls", {
    method: "POST",
    body: { arguments: { id: "stuck" }, callId: "stuck" },
  });
  await hold.started("stuck");
  await server.server.close();
  const body = await (await asked).json();
  expect(body).toMatchObject({ status: "error", recorded: true, result: { error: { code: "cancelled" } } });
  expect(JSON.stringify(body)).toContain("the server is stopping");
  expect(await server.store.calls.get("stuck")).toMatchObject({
    outcome: "cancelled",
    error: { code: "cancelled" },
  });
  await server.server.close();
});

it("waits for calls that came another way too", async () => {
  const { tools, hold } = sampleTools();
  await using server = await TestServer.start({ tools, drainTimeout: 5_000 });
  const asked = server.app.registry.execute("wait", { id: "elsewhere" }, { callId: "elsewhere" });
  await hold.started("elsewhere");
  const closing = server.server.close();
  setTimeout(() => hold.release("elsewhere"), 30);
  await closing;
  expect((await asked).content).toBe("done elsewhere");
  expect(await server.store.calls.get("elsewhere")).toMatchObject({ outcome: "completed" });
});

it("tells readers of the stream of every reload, whoever made it", async () => {
  await using server = await TestServer.start();
  const events = new StreamReader(await server.fetch("/api/events"));
  await events.until("ready");
  await server.app.files.load();
  await events.until("reload.started");
  await events.until("reload.finished");
  await server.call("buildReload_tool");
  await events.until("reload.started");
  expect((await events.until("reload.finished")).data).toMatchObject({ added: [] });
  await events.cancel();
});

it("records every one of many calls once", async () => {
  const { tools } = sampleTools();
  await using server = await TestServer.start({ tools });
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, index) =>
      server.fetch("/api/tools/add/calls", {
        method: "POST",
        body: { arguments: { a: index }, sessionID: `m${index}` },
      }),
    ),
  );
  expect(answers.every(({ status }) => status === 200)).toBe(true);
  const seen = new Set<string>();
  for (let cursor = ""; ; ) {
    const { body } = await server.ask(`/api/calls?limit=100${cursor}`);
    for (const { callId } of body.items) seen.add(callId);
    if (body.next === undefined) break;
    cursor = `&cursor=${body.next}`;
  }
  expect(seen.size).toBe(300);
});
