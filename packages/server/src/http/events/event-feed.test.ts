import { createServer, get, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { masterGrant } from "../../access/grants.ts";
import { EventFeed } from "../events.ts";

let server: Server | undefined;
/** The last stream that was opened, on its way out. */
let stream: ServerResponse;
let feed: EventFeed;

async function serve(options: { size: number; heartbeat: number }): Promise<string> {
  feed = new EventFeed(options);
  server = createServer((incoming, outgoing) => {
    stream = outgoing;
    const last = incoming.headers["last-event-id"];
    feed.subscribe(outgoing, masterGrant, typeof last === "string" ? last : undefined, async () => true);
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

afterEach(() => {
  feed.close();
  server?.closeAllConnections();
  server?.close();
});

function open(url: string, headers: Record<string, string> = {}): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false, headers }, resolve).on("error", reject);
  });
}

const turn = () => new Promise((resolve) => setImmediate(resolve));
const large = "x".repeat(1_500);

it("drops a reader that takes nothing, holding no more than the ring for it", {
  timeout: 30_000,
}, async () => {
  const url = await serve({ size: 50, heartbeat: 40 });
  const stalled = await open(url);
  stalled.on("error", () => {});
  const closed = new Promise((resolve) => stalled.on("close", resolve));
  let mostHeld = 0;
  // The kernel takes some megabytes before anybody can notice.
  for (let round = 0; round < 20_000 && feed.dropped === 0; round++) {
    feed.publish("noise", large, "everyone");
    if (round % 20 === 0) await turn();
    mostHeld = Math.max(mostHeld, stream.writableLength);
  }
  expect(mostHeld).toBeGreaterThan(0);
  expect(mostHeld).toBeLessThan(1024 * 1024);
  await expect.poll(() => feed.dropped, { timeout: 20_000 }).toBe(1);
  expect(feed.readers).toBe(0);
  stalled.resume();
  await closed;
});

it("tells a reader that the ring overtook to start anew, and goes on with it", async () => {
  const url = await serve({ size: 50, heartbeat: 10_000 });
  const reader = await open(url);
  let text = "";
  reader.setEncoding("utf8").on("data", (chunk) => {
    text += chunk;
  });
  await expect.poll(() => text).toContain("event: ready");
  // In one turn of the event loop nobody can read anything.
  for (let round = 0; round < 200; round++) feed.publish("burst", round, "everyone");
  await expect.poll(() => text).toContain("event: reset");
  feed.publish("after", 1, "everyone");
  await expect.poll(() => text).toContain("event: after");
  expect(feed.dropped).toBe(0);
});

it("hands a long backlog to a reader that comes back, whole and in order", async () => {
  const url = await serve({ size: 5_000, heartbeat: 10_000 });
  feed.publish("first", 0, "everyone");
  const first = await open(url);
  let id = "";
  first.setEncoding("utf8").on("data", (chunk: string) => {
    id ||= /id: (\S+)/.exec(chunk)?.[1] ?? "";
  });
  await expect.poll(() => id).not.toBe("");
  first.destroy();
  for (let round = 1; round <= 4_000; round++) feed.publish("row", round, "everyone");
  const second = await open(url, { "last-event-id": id });
  let text = "";
  second.setEncoding("utf8").on("data", (chunk) => {
    text += chunk;
  });
  await expect.poll(() => text.includes("data: 4000\n"), { timeout: 5_000 }).toBe(true);
  const rows = [...text.matchAll(/event: row\ndata: (\d+)/g)].map(([, row]) => Number(row));
  expect(rows).toEqual(Array.from({ length: 4_000 }, (_, index) => index + 1));
  second.destroy();
});

it("keeps nothing before anybody has come, and tells who asks for it to start anew", async () => {
  const url = await serve({ size: 50, heartbeat: 10_000 });
  for (let round = 0; round < 10; round++) feed.publish("early", round, "everyone");
  let readers = 0;
  feed.onFirstReader = () => readers++;
  const first = await open(url);
  let text = "";
  first.setEncoding("utf8").on("data", (chunk) => {
    text += chunk;
  });
  await expect.poll(() => text).toContain("event: ready");
  const [, epoch] = /id: (\w+)-10\n/.exec(text) ?? [];
  feed.publish("late", 1, "everyone");
  await expect.poll(() => text).toContain(`id: ${epoch}-11\nevent: late`);
  const second = await open(url, { "last-event-id": `${epoch}-3` });
  let again = "";
  second.setEncoding("utf8").on("data", (chunk) => {
    again += chunk;
  });
  await expect.poll(() => again).toContain("event: reset");
  expect(again).not.toContain("early");
  expect(readers).toBe(1);
  first.destroy();
  second.destroy();
});

/** A client whose bytes can be seen as they are. */
async function openRaw(url: string, version: string): Promise<{ socket: Socket; read: () => string }> {
  const { hostname, port } = new URL(url);
  let text = "";
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  socket.setEncoding("utf8").on("data", (chunk) => {
    text += chunk;
  });
  socket.on("error", () => {});
  socket.write(`GET / HTTP/${version}\r\nHost: here\r\n\r\n`);
  await expect.poll(() => text).toContain("event: ready");
  return { socket, read: () => text };
}

it("notices within moments that clients are gone, although nothing happens", async () => {
  const url = await serve({ size: 50, heartbeat: 60_000 });
  // As the rack's own server: a client may close its side and still read.
  Object.assign(server!, { httpAllowHalfOpen: true });
  const gone = await Promise.all([openRaw(url, "1.1"), openRaw(url, "1.1")]);
  const halfClosed = await openRaw(url, "1.1");
  expect(feed.readers).toBe(3);
  for (const { socket } of gone) socket.destroy();
  halfClosed.socket.end();
  await expect.poll(() => feed.readers, { timeout: 20_000 }).toBe(1);
  feed.publish("news", 1, "everyone");
  await expect.poll(halfClosed.read).toContain("event: news");
  halfClosed.socket.destroy();
});

it("sends a client of HTTP/1.0 the events alone, and a client of HTTP/1.1 whole chunks", async () => {
  const url = await serve({ size: 50, heartbeat: 60_000 });
  const old = await openRaw(url, "1.0");
  const usual = await openRaw(url, "1.1");
  for (let round = 0; round < 3; round++) feed.publish("row", "ü", "everyone");
  await expect.poll(old.read).toMatch(/(id: \S+\nevent: row\ndata: "ü"\n\n){3}$/);
  const sent = /\r\n([0-9a-f]+)\r\n((?:id: \S+\nevent: row\ndata: "ü"\n\n){3})\r\n$/;
  await expect.poll(usual.read).toMatch(sent);
  const [, size = "", events = ""] = sent.exec(usual.read()) ?? [];
  expect(Number.parseInt(size, 16)).toBe(Buffer.byteLength(events));
  old.socket.destroy();
  usual.socket.destroy();
});

it("tells each caller of its own calls only, and admins of all", async () => {
  const grants = [masterGrant, { ...masterGrant, admin: false, caller: "ann" }];
  feed = new EventFeed({ size: 50, heartbeat: 60_000 });
  server = createServer((_incoming, outgoing) => {
    feed.subscribe(outgoing, grants.shift() ?? masterGrant, undefined, async () => true);
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const admin = await openRaw(url, "1.1");
  const ann = await openRaw(url, "1.1");
  feed.publish("hers", 1, { caller: "ann" });
  feed.publish("his", 2, { caller: "bob" });
  feed.publish("all", 3, "everyone");
  await expect.poll(admin.read).toMatch(/event: hers.*event: his.*event: all/s);
  await expect.poll(ann.read).toMatch(/event: hers.*event: all/s);
  expect(ann.read()).not.toContain("event: his");
  admin.socket.destroy();
  ann.socket.destroy();
});
