import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema, LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Grant, masterGrant } from "../../access/grants.ts";
import { Caller, type ExpertView } from "./caller.ts";
import { HttpSessions } from "./http-sessions.ts";
import { initializeParams } from "./testing/initialize-params.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";
import { surfaceParts } from "./testing/surface-parts.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "asks", execute: async ({ elicit }) => (await elicit("Go on?")).action',
      'name: "echo", execute: async ({ input }) => "echo"',
      'name: "says", execute: async ({ logger }) => { logger.info("tried"); logger.warn("careful"); return "said"; }',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

test("a client of the first SDK lists, calls and is asked", async () => {
  const client = new Client({ name: "old", version: "1" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: {} }));
  const transport = new StreamableHTTPClientTransport(new URL("/mcp", rack.serving.url), {
    requestInit: { headers: { authorization: `Bearer ${rack.token}` } },
  });
  await client.connect(transport as never); // Its own types disagree under exactOptionalPropertyTypes.
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["asks", "echo"]),
  );
  expect((await client.callTool({ name: "echo" })).content).toEqual([{ type: "text", text: "echo" }]);
  expect((await client.callTool({ name: "asks" })).content).toEqual([{ type: "text", text: "accept" }]);
  await client.close();
});

test("a client that has set a level for the log hears what tools say from that level on, and no other does", async () => {
  const client = new Client({ name: "old", version: "1" });
  const heard: unknown[] = [];
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard.push(params));
  const transport = new StreamableHTTPClientTransport(new URL("/mcp", rack.serving.url), {
    requestInit: { headers: { authorization: `Bearer ${rack.token}` } },
  });
  await client.connect(transport as never); // Its own types disagree under exactOptionalPropertyTypes.
  const call = async () => (await client.callTool({ name: "says" })).content;
  expect(await call()).toEqual([{ type: "text", text: "said" }]);
  expect(heard).toEqual([]);
  await client.setLoggingLevel("warning");
  expect(await call()).toEqual([{ type: "text", text: "said" }]);
  expect(heard).toEqual([{ level: "warning", logger: "says", data: "careful" }]);
  await client.setLoggingLevel("debug");
  await call();
  expect(heard.slice(1)).toEqual([
    { level: "info", logger: "says", data: "tried" },
    { level: "warning", logger: "says", data: "careful" },
  ]);
  await client.close();
});

test("there are never more sessions than the limit: an idle one makes room, busy ones do not", async () => {
  const { serving } = await surfaceParts(rack);
  const caller = new Caller(masterGrant);
  const sessions = new HttpSessions(serving, { most: 2, idle: 60_000 });
  const open = () => sessions.open(caller, initializeParams);
  const first = open();
  const second = open();
  second!.responses++;
  const third = open();
  expect(sessions.size).toBe(2);
  expect(sessions.find(first!.id, caller)).toBeUndefined();
  third!.responses++;
  expect(open()).toBeUndefined();
  sessions.close();
  expect(sessions.size).toBe(0);
});

test("a token has a share of the sessions, and cannot lock others out by opening more", async () => {
  const { serving } = await surfaceParts(rack);
  const sessions = new HttpSessions(serving, { most: 4, idle: 60_000 });
  const grantFor = (id: string): Grant => ({ ...masterGrant, id, admin: false });
  const openFor = (id: string, expert?: ExpertView) =>
    sessions.open(new Caller(grantFor(id), expert), initializeParams);
  const greedy = [openFor("greedy"), openFor("greedy")];
  await rack.serving.app.skills.experts.create({ name: "e" });
  const third = openFor("greedy", serving.experts?.("e"));
  expect(sessions.find(greedy[0]!.id, new Caller(grantFor("greedy")))).toBeUndefined();
  greedy[1]!.responses++;
  third!.responses++;
  expect(openFor("greedy")).toBeUndefined();
  expect(openFor("other")).toBeDefined();
  expect(openFor("other")).toBeDefined();
  expect(sessions.size).toBe(4);
  sessions.close();
});

test("a question ends with the stream on which it was asked, and its call with it", async () => {
  const send = (message: object, headers: object = {}, signal?: AbortSignal) =>
    fetch(`${rack.serving.url}/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${rack.token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      ...(signal === undefined ? {} : { signal }),
    });
  const clientInfo = { name: "t", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: { elicitation: {} }, clientInfo };
  const opened = await send({ id: 1, method: "initialize", params });
  await opened.text();
  const session = { "mcp-session-id": opened.headers.get("mcp-session-id") };
  await send({ method: "notifications/initialized" }, session);
  const gone = new AbortController();
  const call = { id: 2, method: "tools/call", params: { name: "asks", arguments: {} } };
  const stream = (await send(call, session, gone.signal)).body!.pipeThrough(new TextDecoderStream());
  for await (const text of stream) if (text.includes("elicitation/create")) break;
  const { registry } = rack.serving.app;
  gone.abort();
  while (registry.activeCalls().length > 0) await new Promise((resolve) => setTimeout(resolve, 20));
});
