import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { EventStream, type EventStreamOptions } from "./http-reply.ts";
import { FLOOD_ROUNDS, floodTool } from "./testing/flood-tool.ts";
import { Gate } from "./testing/gate.ts";
import { openLegacySession } from "./testing/legacy-session.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";

const MEGABYTE = 1024 * 1024;
const CALLS = 2;
const LIMIT = 60_000;

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({ "tools/all.ts": toolFile(floodTool) });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const ways: [string, () => Promise<{ headers: Record<string, string>; meta: object }>][] = [
  [
    "a client of the newer version",
    async () => ({
      headers: {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "flood",
      },
      meta: {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    }),
  ],
  ["a session of an older one", async () => ({ headers: (await openLegacySession(rack)).headers, meta: {} })],
  ["an older one without a session", async () => ({ headers: {}, meta: {} })],
];

test.each(ways)(
  "what a tool says to %s that does not read is not kept for it; it hears the latest, and the result",
  async (_, open) => {
    const gate = new Gate();
    Object.assign(globalThis, { flooded: 0 });
    const before = process.memoryUsage().arrayBuffers;
    const sockets: Socket[] = [];
    for (let at = 0; at < CALLS; at++) {
      const { headers, meta } = await open();
      const params = { name: "flood", arguments: {}, _meta: { ...meta, progressToken: 1 } };
      sockets.push(post(headers, { jsonrpc: "2.0", id: 1, method: "tools/call", params }));
    }
    await vi.waitFor(() => expect(Reflect.get(globalThis, "flooded")).toBe(CALLS), { timeout: LIMIT / 2 });
    const kept = process.memoryUsage().arrayBuffers - before;
    // All that was said are 75 MB for each of them; what the system keeps by itself is not in this.
    expect(kept).toBeLessThan(20 * MEGABYTE);
    gate.open();
    for (const socket of sockets) {
      const messages = (await readAll(socket)).filter((message) => message !== undefined);
      const last = messages.at(-1);
      expect(last.result.content).toEqual([{ type: "text", text: "done" }]);
      expect(messages.at(-2).params.progress).toBe(FLOOD_ROUNDS * 30);
    }
  },
  LIMIT,
);

test("one answer is sent, however long it is and however late it is read", async () => {
  const text = "x".repeat(3 * MEGABYTE);
  await using stream = await serveStream({ limits: { most: MEGABYTE, patience: LIMIT } });
  stream.say(text);
  stream.end();
  expect(await stream.read()).toContain(text);
  expect(stream.reasons).toEqual([]);
});

test("a client that leaves too much unread is cut off", async () => {
  await using stream = await serveStream({ limits: { most: 10 * MEGABYTE, patience: LIMIT } });
  for (let said = 0; said < 40 && !stream.outgoing.destroyed; said++) {
    stream.say(`${said}`.padEnd(MEGABYTE));
    await new Promise(setImmediate);
  }
  await stream.closed;
  expect(stream.reasons).toEqual([expect.stringMatching(/^it left \d{8} bytes unread$/)]);
});

test("a client that takes nothing for long is cut off, also when all has been said", async () => {
  await using stream = await serveStream({ limits: { most: LIMIT * MEGABYTE, patience: 200 } });
  stream.say("x".repeat(20 * MEGABYTE));
  stream.end();
  await stream.closed;
  expect(stream.reasons).toEqual(["it took nothing for 0.2 seconds"]);
});

test("a client that has nothing to read is not cut off", async () => {
  await using stream = await serveStream({ limits: { most: MEGABYTE, patience: 50 } });
  stream.socket.resume();
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(stream.outgoing.destroyed).toBe(false);
  stream.say("late");
  stream.end();
  expect(await stream.read()).toContain("late");
});

const news = (kind: string) => ({ jsonrpc: "2.0", method: `notifications/${kind}/list_changed` });

test("news that a client did not read are told once, in the place of the last", async () => {
  await using stream = await serveStream({});
  stream.say("x".repeat(10 * MEGABYTE));
  for (let at = 0; at < 100; at++) {
    stream.tell(news("tools"));
    stream.tell(news("prompts"));
    await new Promise(setImmediate);
  }
  stream.tell(news("tools"));
  await new Promise(setImmediate);
  const text = stream.read();
  await vi.waitFor(() => expect(stream.outgoing.writableLength).toBe(0));
  stream.tell(news("tools"));
  stream.end();
  const told = (await text).match(/(tools|prompts)\/list_changed/g);
  // The first may have gone out before the client was known not to read.
  expect(told?.slice(-3)).toEqual(["prompts/list_changed", "tools/list_changed", "tools/list_changed"]);
  expect(told?.length).toBeLessThan(8);
});

test("what a tool says is told as often and in the order in which it was said, however late it is read", async () => {
  await using stream = await serveStream({});
  stream.say("x".repeat(10 * MEGABYTE));
  const said = ["begin", "step", "step", "begin", "step", "tools/list_changed", "tools/list_changed"];
  for (const data of said) {
    stream.tell({ jsonrpc: "2.0", method: "notifications/message", params: { data } });
  }
  stream.end();
  const told = (await stream.read()).matchAll(/"data":"([^"]+)"/g);
  expect(Array.from(told, ([, data]) => data)).toEqual(said);
});

function post(headers: Record<string, string>, message: object): Socket {
  const { hostname, port } = new URL(rack.serving.url);
  const body = JSON.stringify(message);
  const socket = connect(Number(port), hostname).pause();
  const lines = Object.entries({
    host: `${hostname}:${port}`,
    authorization: `Bearer ${rack.token}`,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    connection: "close",
    "content-length": String(body.length),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST /mcp HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
  return socket;
}

async function textOf(socket: Socket): Promise<string> {
  const parts: Buffer[] = [];
  socket.on("data", (part: Buffer) => parts.push(part)).resume();
  await once(socket, "end");
  const text = Buffer.concat(parts).toString();
  // Where the pieces of the answer meet is of no account.
  return text.replaceAll(/\r\n[0-9a-f]+\r\n/g, "");
}

// biome-ignore lint/suspicious/noExplicitAny: what comes back is what the test is about.
async function readAll(socket: Socket): Promise<any[]> {
  const lines = (await textOf(socket)).split("\n").filter((line) => line.startsWith("data: "));
  return lines.map((line) => JSON.parse(line.slice("data: ".length)));
}

/** A stream that the test says things on, to a client that does not read until it is told to. */
async function serveStream(options: Omit<EventStreamOptions, "cutOff">) {
  const reasons: string[] = [];
  const cutOff = (reason: string) => void reasons.push(reason);
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // A server that listens on a port has such an address.
  const socket = connect(port, "127.0.0.1").pause();
  socket.on("error", () => {});
  socket.write("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
  const [, outgoing] = (await once(server, "request")) as [unknown, ServerResponse]; // The event `request` has these arguments.
  const stream = new EventStream(outgoing, { cutOff, ...options });
  return {
    socket,
    outgoing,
    closed: once(outgoing, "close"),
    reasons,
    say: (text: string) => stream.writer.write(text),
    tell: (message: object) => stream.writer.send(message),
    end: () => stream.end(),
    read: () => textOf(socket),
    async [Symbol.asyncDispose]() {
      socket.destroy();
      server.closeAllConnections();
      server.close();
    },
  };
}
