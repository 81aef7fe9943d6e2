import { expect, it } from "vitest";
import { sampleTools, TestServer } from "../server.fixture.ts";

const files = {
  "tools/mine.ts": `import { Tool } from "@toolrack/core";
export const mine = Tool.define({
  name: "mine", description: "Mine.", parameters: { type: "object", properties: {} }, execute: async () => "ok",
});
export const fails = Tool.define({
  name: "fails", description: "Fails.", parameters: { type: "object", properties: {} },
  execute: async () => { throw new Error("no"); },
});`,
  "tools/broken.ts": "export const broken = {;",
};

it("has in one answer what the first page shows, and to a limited token only its own", async () => {
  await using server = await TestServer.start({ tools: sampleTools().tools, files });
  const limited = await server.issue({ tools: ["add"] }, { name: "limited" });
  const before = (await server.ask("/api/overview")).body;
  expect(before).toMatchObject({ files: { failed: 1 }, hasCalls: false, hasClients: false, failures: [] });
  expect(before.tools.own).toBe(2);
  await server.ask("/api/tools/fails/calls", { method: "POST", body: {} });
  await server.ask("/api/tools/mine", { method: "PATCH", body: { enabled: false } });
  const { body } = await server.ask("/api/overview");
  expect(body).toMatchObject({ hasCalls: true, failures: [{ toolName: "fails" }], running: [], loops: 0 });
  expect(body.tools).toEqual({
    ...before.tools,
    ready: before.tools.ready - 1,
    disabled: before.tools.disabled + 1,
  });
  const { body: theirs } = await server.ask("/api/overview", { token: limited });
  expect(theirs).toEqual({
    tools: { ready: 1, disabled: 0, own: 0 },
    running: [],
    failures: [],
    loops: 0,
    hasCalls: false,
  });
});

it("does not count a call that was cancelled among the failures", async () => {
  await using server = await TestServer.start({ tools: sampleTools().tools });
  const running = server.ask("/api/tools/wait/calls", { method: "POST", body: { callId: "off" } });
  await expect.poll(async () => (await server.ask("/api/overview")).body.running.length).toBe(1);
  await server.ask("/api/calls/off", { method: "DELETE" });
  await running;
  expect((await server.ask("/api/overview")).body).toMatchObject({
    running: [],
    failures: [],
    hasCalls: true,
  });
});
