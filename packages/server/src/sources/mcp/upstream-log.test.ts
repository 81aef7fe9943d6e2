import type { RackEvent } from "@toolrack/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ServedRack, toolFile } from "../../surfaces/mcp/testing/served-rack.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

let server: ServedRack;
let rack: UpstreamRack;

beforeAll(async () => {
  server = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "talks", execute: async ({ logger, progress, client }) => { logger.warn("half", { full: true }); logger.debug("not asked for"); client?.notify("notifications/message", { level: "critical", logger: "disk", data: { free: 0 } }); progress(1, 2, "one of two"); return "done"; }',
    ),
  });
  rack = await UpstreamRack.create();
  const headers = { Authorization: `Bearer ${server.token}` };
  await rack.open({ up: { url: new URL("/mcp", server.serving.url).href, headers } });
}, 60_000);
afterAll(async () => {
  await rack?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
}, 60_000);

it("what an upstream server logs in the middle of a call is said by that call", async () => {
  await rack.eventually(() => rack.registry.get("mcp_up_talks") !== undefined, "the tool is there");
  const events: RackEvent[] = [];
  const stop = rack.registry.subscribe((event) => void events.push(event));
  const { content } = await rack.call("mcp_up_talks", {}, { callId: "c" });
  stop();
  expect(content).toBe("done");
  const lines = events.filter((event) => event.type === "log");
  expect(lines.map(({ callId, level, text }) => [callId, level, text])).toEqual([
    ["c", "warn", '[talks] half {"full":true}'],
    ["c", "error", '[disk] {"free":0}'],
  ]);
  expect(events.find((event) => event.type === "progress")?.update.message).toBe("one of two");
});
