import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import { type AddressInfo, createServer as createRawServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openEgressProxy } from "../egress.ts";

let directory: string;
let local: Server;
let visits = 0;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "toolrack-egress-"));
  local = createServer((_request, response) => {
    visits++;
    response.end("local");
  }).listen(0, "127.0.0.1");
  await once(local, "listening");
});
afterAll(() => {
  local.close();
  rmSync(directory, { recursive: true, force: true });
});

const port = () => (local.address() as AddressInfo).port;
let count = 0;

/** Every name leads to this machine, as its owner may have decided. */
async function ask(
  hosts: readonly string[],
  host: string,
  method = "GET",
  atPort = port(),
): Promise<{ status: number; text: string }> {
  const resolve = async () => [{ address: "127.0.0.1", family: 4 }];
  const proxy = await openEgressProxy(join(directory, `${++count}.sock`), hosts, resolve);
  const isTunnel = method === "CONNECT";
  const asking = request({
    socketPath: proxy.socketPath,
    method,
    path: isTunnel ? `${host}:${atPort}` : `http://${host}:${atPort}/`,
    agent: false,
  }).end();
  const [response] = await once(asking, isTunnel ? "connect" : "response");
  let text = response.statusMessage;
  if (!isTunnel) for await (const chunk of response) text += chunk;
  asking.destroy();
  proxy.close();
  return { status: response.statusCode, text };
}

it.each(["GET", "CONNECT"])("refuses by %s a granted name that leads to this machine", async (method) => {
  const before = visits;
  const answer = await ask([`rebind.example.com:${port()}`], "rebind.example.com", method);
  expect(answer.status).toBe(403);
  expect(answer.text).toContain("rebind.example.com leads to 127.0.0.1, and it is a loopback address");
  expect((await ask([`*.example.com:${port()}`], "a.example.com", method)).status).toBe(403);
  expect(visits).toBe(before);
});

it("lets it through when the address is granted too, or the name is one of the own network", async () => {
  const name = `rebind.example.com:${port()}`;
  expect(await ask([name, "127.0.0.1"], "rebind.example.com")).toEqual({ status: 200, text: "OKlocal" });
  expect(await ask([name, "127.0.0.0/8"], "rebind.example.com")).toMatchObject({ status: 200 });
  expect(await ask([`intranet:${port()}`], "intranet")).toMatchObject({ status: 200 });
});

it.each([
  "127.0.0.1",
  "2130706433",
  "0x7f.1",
  "[::ffff:127.0.0.1]",
  "localhost",
  "other.example.com",
  "user@127.0.0.1",
])("refuses %s, which was not granted", async (host) => {
  expect((await ask([`example.com:${port()}`], host)).status).toBe(403);
  expect((await ask([`example.com:${port()}`], host, "CONNECT")).status).toBe(403);
});

it.each([
  ["a trailer beside a length", "HTTP/1.1 200 OK\r\nTrailer: x\r\nContent-Length: 2\r\n\r\nok", 200],
  ["a status that is none", "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", 502],
  ["another protocol", "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", 502],
  ["nothing", "", 502],
  ["what is no HTTP", "hello\r\n\r\n", 502],
  [
    "headers for the next hop only",
    "HTTP/1.1 200 OK\r\nConnection: x-hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok",
    200,
  ],
])("passes on or reports an answer with %s", async (_what, answer, status) => {
  const odd = createRawServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(answer));
  }).listen(0, "127.0.0.1");
  await once(odd, "listening");
  const oddPort = (odd.address() as AddressInfo).port;
  expect((await ask([`localhost:${oddPort}`], "localhost", "GET", oddPort)).status).toBe(status);
  odd.close();
});

it("says by CONNECT that a host was not reached", async () => {
  const gone = createRawServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const gonePort = (gone.address() as AddressInfo).port;
  gone.close();
  await once(gone, "close");
  const answer = await ask([`localhost:${gonePort}`], "localhost", "CONNECT", gonePort);
  expect(answer).toMatchObject({ status: 502, text: expect.stringContaining("ECONNREFUSED") });
});
