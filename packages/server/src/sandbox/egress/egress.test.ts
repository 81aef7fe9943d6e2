import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SandboxHarness, toolOf } from "../sandbox-harness.fixture.ts";
import { levelsToTest } from "../test-levels.fixture.ts";

const methods = {
  fetch: `async (url) => { const response = await fetch(url); return { status: response.status, text: await response.text() } }`,
  post: `async (url) => (await fetch(url, { method: "POST", body: "x".repeat(100000), headers: { "x-own": "1" } })).text()`,
  http: `(url) => new Promise((done, fail) => { const { get } = require(url.startsWith("https") ? "https" : "http"); get(url, (response) => { let text = ""; response.on("data", (chunk) => { text += chunk }).on("end", () => done({ status: response.statusCode, text })) }).on("error", fail) })`,
  connect: `(target) => new Promise((done, fail) => { const socket = require("net").connect(3128, "127.0.0.1"); let text = ""; socket.on("error", fail); socket.on("end", () => done(text)); socket.on("data", (chunk) => { text += chunk; if (text.endsWith("established\\r\\n\\r\\n")) socket.write("GET /tunnelled HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n") }); socket.write("CONNECT " + target + " HTTP/1.1\\r\\nhost: " + target + "\\r\\n\\r\\n") })`,
  raw: `({ host, port }) => new Promise((done, fail) => require("net").connect(port, host, () => done("connected")).on("error", fail))`,
  environment: `() => Object.keys(process.env).filter((name) => /proxy/i.test(name))`,
};

describe.runIf(levelsToTest.includes(3))("the way out at level 3", { timeout: 30_000 }, () => {
  let harness: SandboxHarness;
  let granted: Server;
  let other: Server;
  const visits: string[] = [];
  const portOf = (server: Server) => (server.address() as AddressInfo).port;
  const tool = (hosts: readonly string[]) => toolOf(methods, { key: hosts.join(), hosts });
  const toGranted = () => tool([`127.0.0.1:${portOf(granted)}`, `localhost:${portOf(granted)}`]);

  beforeAll(async () => {
    harness = await SandboxHarness.open();
    granted = createServer(async (request, response) => {
      if (request.url === "/redirect") {
        response.writeHead(302, { location: `http://127.0.0.1:${portOf(other)}/` }).end();
        return;
      }
      let length = 0;
      for await (const chunk of request) length += (chunk as Buffer).length;
      response.end(`${request.method} ${request.url} ${length} ${request.headers["x-own"] ?? ""}`);
    }).listen(0, "127.0.0.1");
    other = createServer((request, response) => {
      visits.push(String(request.url));
      response.end("other");
    }).listen(0, "127.0.0.1");
    await Promise.all([granted, other].map((server) => server.listening || once(server, "listening")));
  });
  afterAll(async () => {
    await harness[Symbol.asyncDispose]();
    granted.close();
    other.close();
  });

  it("leads to granted hosts, by fetch, node:http and a tunnel", async () => {
    const url = `http://127.0.0.1:${portOf(granted)}/a?b=c`;
    expect(await harness.call(toGranted(), "fetch", { params: url })).toEqual({
      status: 200,
      text: "GET /a?b=c 0 ",
    });
    expect(await harness.call(toGranted(), "http", { params: url })).toEqual({
      status: 200,
      text: "GET /a?b=c 0 ",
    });
    expect(await harness.call(toGranted(), "post", { params: url })).toBe("POST /a?b=c 100000 1");
    const named = `http://localhost:${portOf(granted)}/named`;
    expect(await harness.call(toGranted(), "fetch", { params: named })).toMatchObject({ status: 200 });
    const tunnelled = await harness.call(toGranted(), "connect", { params: `localhost:${portOf(granted)}` });
    expect(tunnelled).toMatch(/200 Connection established\r\n\r\n.*GET \/tunnelled 0/s);
  });

  it("refuses every other host, and says which are granted", async () => {
    const url = `http://127.0.0.1:${portOf(other)}/`;
    expect(await harness.call(toGranted(), "fetch", { params: url })).toEqual({
      status: 403,
      text: `Refused: 127.0.0.1:${portOf(other)} is not granted. Granted: 127.0.0.1:${portOf(granted)}, localhost:${portOf(granted)}. Declare the host in the tool and let the operator grant it.`,
    });
    expect(await harness.call(toGranted(), "http", { params: url })).toMatchObject({ status: 403 });
    expect(await harness.call(toGranted(), "connect", { params: `127.0.0.1:${portOf(other)}` })).toMatch(
      /^HTTP\/1.1 403 Refused/,
    );
    await expect(harness.call(toGranted(), "fetch", { params: "https://example.com/" })).rejects.toThrow(
      /Could not fetch https:\/\/example.com\/: Refused: example.com:443 is not granted/,
    );
    await expect(harness.call(toGranted(), "http", { params: "https://example.com/" })).rejects.toThrow();
    expect(
      await harness.call(toGranted(), "fetch", { params: `http://127.0.0.1:${portOf(granted)}/redirect` }),
    ).toMatchObject({ status: 403 });
    expect(visits).toEqual([]);
  });

  it("is the only way: sockets lead nowhere", async () => {
    const target = { host: "127.0.0.1", port: portOf(granted) };
    await expect(harness.call(toGranted(), "raw", { params: target })).rejects.toThrow(/ECONNREFUSED/);
    await expect(
      harness.call(toGranted(), "raw", { params: { host: "1.1.1.1", port: 443 } }),
    ).rejects.toThrow(/ENETUNREACH|EACCES|ECONNREFUSED/);
  });

  it("hides itself from clients that would take it from the environment", async () => {
    expect(await harness.call(toGranted(), "environment")).toEqual([]);
  });

  it("leads programs of scripts out too", async () => {
    const program = {
      label: "script",
      command: "node",
      args: ["-e", `fetch(process.argv[1]).then((r) => r.text()).then((t) => console.log(t))`],
      directory: "/usr/share",
      environment: {},
      hosts: [`127.0.0.1:${portOf(granted)}`],
      foreign: false,
    };
    const run = (port: number) =>
      harness.sandbox.run(
        { ...program, args: [...program.args, `http://127.0.0.1:${port}/script`] },
        "",
        AbortSignal.timeout(20_000),
      );
    expect((await run(portOf(granted))).stdout).toContain("GET /script 0");
    expect((await run(portOf(other))).stdout).toContain("is not granted");
    expect(visits).toEqual([]);
  });
});

it("has no network at level 2, granted or not, and says why", { timeout: 30_000 }, async () => {
  await using harness = await SandboxHarness.open({ level: 2 });
  const call = harness.call(toolOf(methods, { hosts: ["example.com"] }), "fetch", {
    params: "https://example.com/",
  });
  await expect(call).rejects.toThrow(/reduced level 2.*install bubblewrap/);
});
