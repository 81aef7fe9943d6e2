import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { masterGrant } from "../../../access/grants.ts";
import { Viewer } from "../lists.ts";
import { ServedRack } from "../testing/served-rack.ts";
import { surfaceParts } from "../testing/surface-parts.ts";
import { LegacySessions, SessionTransport } from "./sessions.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({});
});
afterAll(() => rack?.[Symbol.asyncDispose]());

const limits = { most: 1, idle: 60_000 };
const viewer = new Viewer(masterGrant);

function initialize(transport: SessionTransport): Promise<Response> {
  const clientInfo = { name: "t", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const parsedBody = { jsonrpc: "2.0", id: 1, method: "initialize", params };
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const request = new Request("http://localhost/mcp", { method: "POST", headers });
  return transport.handleRequest(request, { parsedBody });
}

test("a session that cannot be opened takes nobody's place", async () => {
  const { parts } = await surfaceParts(rack);
  const sessions = new LegacySessions(parts, limits);
  const start = vi.spyOn(SessionTransport.prototype, "start").mockRejectedValueOnce(new Error("no start"));
  await expect(sessions.open(viewer)).rejects.toThrow("no start");
  start.mockRestore();
  const session = await sessions.open(viewer);
  await initialize(session!.transport);
  expect(sessions.size).toBe(1);
  sessions.close();
});

test("what is initialized after the end is no session, and nobody tells it anything", async () => {
  const { parts } = await surfaceParts(rack);
  const join = vi.fn(() => () => {});
  const sessions = new LegacySessions(parts, limits, join);
  const session = await sessions.open(viewer);
  sessions.close();
  await initialize(session!.transport).catch(() => {});
  expect([sessions.size, join.mock.calls]).toEqual([0, []]);
  expect(await sessions.open(viewer)).toBeUndefined();
});
