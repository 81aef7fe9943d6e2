import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sampleTools, TestServer, textOf } from "./server.fixture.ts";

let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start({
    tools: sampleTools().tools,
    allowedHosts: ["rack.example"],
    allowedOrigins: ["https://app.example"],
    headersTimeout: 150,
    requestTimeout: 300,
    rateLimit: { perSecond: 1, burst: 5 },
    maxBody: 1024 * 1024,
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const bearer = () => ({ authorization: `Bearer ${server.server.token}` });

it("an idle connection stays open for longer than the minute that load balancers keep theirs", async () => {
  const response = await server.fetch("/healthz");
  const [, seconds] = /timeout=(\d+)/.exec(response.headers.get("keep-alive") ?? "") ?? [];
  expect(Number(seconds)).toBeGreaterThan(60);
});

describe("tokens", () => {
  it("are needed for everything but health, also for what does not exist", async () => {
    for (const [method, path] of [
      ["GET", "/api/tools"],
      ["GET", "/metrics"],
      ["GET", "/openapi.json"],
      ["GET", "/api/events"],
      ["POST", "/openai/tool-calls"],
      ["PUT", "/api/tools"],
      ["GET", "/nothing/here"],
    ] as const) {
      const response = await server.fetch(path, { method, token: null });
      expect([path, response.status]).toEqual([path, 401]);
      expect(response.headers.get("www-authenticate")).toContain("Bearer");
      expect(await response.json()).toMatchObject({
        error: { code: "unauthorized", details: { reason: "missing" } },
      });
    }
  });

  it("are refused when they are wrong, malformed or expired", async () => {
    const expired = await server.issue({ admin: true }, { expiresAt: Date.now() - 1 });
    expect((await server.ask("/api/tools", { token: "wrong" })).body.error.details.reason).toBe("unknown");
    expect((await server.ask("/api/tools", { token: expired })).body.error.details.reason).toBe("expired");
    const malformed = await server.ask("/api/tools", {
      token: null,
      headers: { authorization: "Basic eDp5" },
    });
    expect(malformed.body.error.details.reason).toBe("malformed");
  });

  it("show and call the tools of their scope, and give no hint of others", async () => {
    const token = await server.issue({ tools: ["add"] });
    const { body } = await server.ask("/api/tools", { token });
    expect(body.items.map(({ name }: { name: string }) => name)).toEqual(["add"]);
    expect((await server.call("add", { a: 1 }, {}, { token })).status).toBe(200);
    const hidden = await server.call("fail", {}, {}, { token });
    const absent = await server.call("fial", {}, {}, { token });
    expect([hidden.status, absent.status]).toEqual([404, 404]);
    expect(hidden.body.error.message.replaceAll("fail", "fial")).toBe(absent.body.error.message);
  });

  it("without admin rights change nothing", async () => {
    const token = await server.issue({ tools: ["*"] });
    const asked = { token, method: "PATCH", body: { enabled: false } };
    expect((await server.ask("/api/tools/add", asked)).body.error.code).toBe("forbidden");
    expect((await server.ask("/api/reload", { token, method: "POST" })).status).toBe(403);
    expect((await server.ask("/api/files", { token })).status).toBe(403);
  });

  it("make no more requests than they may, while the master always gets in", async () => {
    const token = await server.issue({ tools: ["add"] });
    const asked = await Promise.all(Array.from({ length: 7 }, () => server.fetch("/api/tools", { token })));
    expect(asked.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 429, 429]);
    const refused = asked.find(({ status }) => status === 429)!;
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    const busy = await Promise.all(Array.from({ length: 20 }, () => server.fetch("/api/tools")));
    expect(busy.every(({ status }) => status === 200)).toBe(true);
  });
});

describe("Host and Origin", () => {
  it("answers for addresses, localhost and allowed names only", async () => {
    for (const host of [
      "127.0.0.1:1",
      "localhost:7300",
      "[::1]:7300",
      "10.1.2.3",
      "RACK.example",
      "a.localhost",
    ]) {
      expect([host, (await server.raw("/healthz", { host })).status]).toEqual([host, 200]);
    }
    for (const host of [
      "evil.example",
      "localhost.evil.example",
      "127.0.0.1.evil.example",
      "xrack.example",
    ]) {
      const { status, body } = await server.raw("/api/tools", { host, ...bearer() });
      expect([host, status, body.error.code]).toEqual([host, 403, "host_not_allowed"]);
    }
  });

  it("refuses a Host header that cannot be read", async () => {
    const { socket, closed } = server.socket();
    socket.write("GET /healthz HTTP/1.1\r\nHost: a b/c\r\nConnection: close\r\n\r\n");
    expect(await closed).toMatch(/^HTTP\/1.1 400 .*bad_request/s);
  });

  it.each<[string, string, RegExp]>([
    ["no Host", "GET /healthz HTTP/1.1\r\n", /^HTTP\/1.1 400 .*"bad_request"/s],
    [
      "two of them",
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n",
      /^HTTP\/1.1 400 .*"bad_request"/s,
    ],
    [
      "an unknown expectation",
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\nExpect: foo\r\n",
      /^HTTP\/1.1 417 .*"expectation_failed"/s,
    ],
    [
      "CONNECT",
      "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n",
      /^HTTP\/1.1 405 .*"method_not_allowed"/s,
    ],
    [
      "its whole address",
      "GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n",
      /^HTTP\/1.1 200 .*"ok"/s,
    ],
    [
      "its whole address, which is for another host than it says",
      "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n",
      /^HTTP\/1.1 403 .*"host_not_allowed"/s,
    ],
    [
      "its whole address, whatever the Host header says",
      "GET HTTP://localhost:7300/healthz HTTP/1.1\r\nHost: evil.example\r\n",
      /^HTTP\/1.1 200 .*"ok"/s,
    ],
    [
      "an address that hides its host",
      "GET http://localhost@evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n",
      /^HTTP\/1.1 400 .*"bad_request"/s,
    ],
    [
      "an address of another kind",
      "GET ftp://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n",
      /^HTTP\/1.1 400 .*"bad_request"/s,
    ],
    ["HTTP/1.0, which knows no Host", "GET /healthz HTTP/1.0\r\n", /^HTTP\/1.1 200 .*"ok"/s],
  ])("answers a request with %s in its own form", async (_, head, expected) => {
    const { socket, closed } = server.socket();
    socket.write(`${head}Connection: close\r\n\r\n`);
    expect(await closed).toMatch(expected);
  });

  it("refuses pages of other origins and has no CORS for them", async () => {
    for (const origin of ["https://evil.example", "null", "http://localhost:9999"]) {
      const { status, body, headers } = await server.raw("/api/tools", {
        host: "localhost:7300",
        origin,
        ...bearer(),
      });
      expect([origin, status, body.error.code]).toEqual([origin, 403, "origin_not_allowed"]);
      expect(headers["access-control-allow-origin"]).toBeUndefined();
    }
    const own = { host: "localhost:7300", origin: "http://localhost:7300", ...bearer() };
    expect((await server.raw("/api/tools", own)).status).toBe(200);
  });

  it("has CORS for the origins that were allowed", async () => {
    const asked = { host: "localhost", origin: "https://app.example" };
    const { headers } = await server.raw("/api/tools", { ...asked, ...bearer() });
    expect(headers["access-control-allow-origin"]).toBe("https://app.example");
    const preflight = await server.raw(
      "/api/tools",
      { ...asked, "access-control-request-method": "POST" },
      "OPTIONS",
    );
    expect(preflight.status).toBe(204);
    // Clients of OpenAI and of MCP send headers of their own. The asterisk does not stand for Authorization.
    expect(preflight.headers["access-control-allow-headers"]).toBe("Authorization, *");
    expect(headers["access-control-expose-headers"]).toBe("*");
  });

  it("sends strict headers with every answer", async () => {
    for (const path of ["/healthz", "/api/tools", "/nothing"]) {
      const { headers } = await server.fetch(path);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("x-powered-by")).toBeNull();
    }
  });
});

describe("requests that are wrong", () => {
  it("get 405 with what is allowed, and 404 for what is not there", async () => {
    const put = await server.ask("/api/tools/add", { method: "PUT", body: {} });
    expect([put.status, put.body.error.code, put.headers.get("allow")]).toEqual([
      405,
      "method_not_allowed",
      "GET, PATCH",
    ]);
    expect((await server.ask("/healthz", { method: "POST", token: null })).status).toBe(405);
    const options = await server.ask("/api/tools", { method: "OPTIONS" });
    expect([options.status, options.headers.get("allow")]).toEqual([405, "GET, PATCH"]);
    const none = await server.ask("/nothing");
    expect([none.status, none.body.error.code]).toEqual([404, "not_found"]);
  });

  it("must be JSON that says it is", async () => {
    const path = "/api/tools/add/calls";
    const post = (body: string, type = "application/json", more = {}) =>
      server.ask(path, { method: "POST", body, headers: { "content-type": type, ...more } });
    expect((await post("{")).body.error.code).toBe("invalid_json");
    expect((await post("a=1", "application/x-www-form-urlencoded")).status).toBe(415);
    expect((await post('{"arguments":{"a":1}}', "text/plain")).status).toBe(415);
    expect(
      (await post('{"arguments":{"a":1}}', "application/json", { "content-encoding": "gzip" })).status,
    ).toBe(415);
    expect((await post("[1]")).body.error.code).toBe("invalid_request");
    expect((await post('{"argument":{"a":1}}')).body.error.details.issues[0].path).toBe("argument");
    expect((await post('{"arguments":{"a":1}}', "application/vnd.rack+json; charset=utf-8")).status).toBe(
      200,
    );
    const invalid = await fetch(server.server.url + path, {
      method: "POST",
      headers: { ...bearer(), "content-type": "application/json" },
      body: new Uint8Array([0x22, 0xff, 0xfe, 0x22]),
    });
    expect(await invalid.json()).toMatchObject({ error: { code: "invalid_json" } });
  });

  it("are refused when they nest without end", async () => {
    const deep = `{"arguments":{"a":1,"note":${"[".repeat(100_000)}${"]".repeat(100_000)}}}`;
    const { status, body } = await server.ask("/api/tools/add/calls", { method: "POST", body: deep });
    expect([status, body.error.code]).toEqual([400, "invalid_request"]);
    expect(body.error.message).toContain("levels of nesting");
    expect((await server.ask("/healthz")).status).toBe(200);
  });

  it("are refused before they are read when they have more keys or brackets than any call needs", async () => {
    const keys = Array.from({ length: 100_001 }, () => '"k":1').join();
    for (const [text, found] of [
      [`{"arguments":{${keys}}}`, "100,000 keys"],
      [`{"arguments":${"[".repeat(400_000)}${"]".repeat(400_000)}}`, "500 levels"],
    ] as const) {
      const api = await server.ask("/api/tools/add/calls", {
        method: "POST",
        body: text,
        headers: { "content-type": "application/json" },
      });
      expect([api.status, api.body.error.message]).toEqual([
        400,
        expect.stringContaining(`more than ${found}`),
      ]);
    }
  });

  it("may carry many and duplicate headers, but not without end", async () => {
    const many = Object.fromEntries(
      Array.from({ length: 200 }, (_, index) => [`x-${index}`, "y".repeat(20)]),
    );
    expect((await server.raw("/healthz", { host: "localhost", ...many })).status).toBe(200);
    const { status, body } = await server.raw("/healthz", {
      host: "localhost",
      "x-huge": "y".repeat(40_000),
    });
    expect([status, body.error.code]).toEqual([431, "headers_too_large"]);
  });

  it("get 400 in one form when they are no HTTP", async () => {
    const { socket, closed } = server.socket();
    socket.write("\x16\x03\x01 hello\r\n\r\n");
    const answer = await closed;
    expect(answer).toMatch(/^HTTP\/1.1 400 Bad Request\r\n/);
    expect(JSON.parse(answer.split("\r\n\r\n")[1]!)).toMatchObject({ error: { code: "bad_request" } });
  });
});

describe("bodies without end", () => {
  it("of 100 MB are refused by their announced length", async () => {
    const { status, body } = await upload(100 * 1024 * 1024, true);
    expect([status, body.error.code]).toEqual([413, "payload_too_large"]);
  });

  it("of 100 MB in chunks are refused while they come, without being kept", async () => {
    const before = process.memoryUsage().rss;
    const { status, body } = await upload(100 * 1024 * 1024, false);
    expect([status, body.error.code]).toEqual([413, "payload_too_large"]);
    expect(process.memoryUsage().rss - before).toBeLessThan(90 * 1024 * 1024);
  });

  it("are taken up to the limit", async () => {
    const note = "n".repeat(1024 * 1024 - 100);
    expect((await server.call("add", { a: 1, note })).status).toBe(200);
  });
});

describe("slow and broken connections", () => {
  it("that send headers drop by drop are closed with 408", async () => {
    const { socket, closed } = server.socket();
    socket.write("GET /healthz HTTP/1.1\r\n");
    const drip = setInterval(() => socket.write("X-A: b\r\n"), 30);
    const answer = await closed;
    clearInterval(drip);
    expect(answer).toMatch(/^HTTP\/1.1 408/);
    expect(answer).toContain("request_timeout");
  });

  it("that send a body drop by drop are closed too", async () => {
    const { socket, closed } = server.socket();
    socket.write(
      `POST /api/tools/add/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.server.token}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
    );
    const drip = setInterval(() => socket.write(" "), 30);
    await closed;
    clearInterval(drip);
    expect((await server.ask("/healthz")).status).toBe(200);
  });

  it("that close their side once they have asked are answered", async () => {
    const { socket, closed } = server.socket();
    socket.end(
      `GET /api/tools HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.server.token}\r\n\r\n`,
    );
    expect(await closed).toMatch(/^HTTP\/1.1 200[\s\S]*"name":"add"/);
  });

  it("that close their side while a call runs are told that it was cancelled", async () => {
    const { socket, closed } = server.socket();
    const body = '{"arguments":{"id":"half"}}';
    socket.end(
      `POST /api/tools/wait/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.server.token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    expect(await closed).toMatch(/^HTTP\/1.1 200[\s\S]*"code":"cancelled"/);
  });

  it("that break in the middle of a body harm nobody", async () => {
    const { socket, closed } = server.socket();
    socket.write(
      `POST /api/tools/add/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.server.token}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"arg`,
    );
    setTimeout(() => socket.resetAndDestroy(), 20);
    await closed;
    expect((await server.ask("/healthz")).status).toBe(200);
  });

  it("that send several requests at once are answered in order", async () => {
    const { socket, closed } = server.socket();
    const ask = (path: string, more = "") =>
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.server.token}\r\n${more}\r\n`;
    socket.write(ask("/healthz") + ask("/nothing") + ask("/readyz", "Connection: close\r\n"));
    expect((await closed).match(/HTTP\/1.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 404", "HTTP/1.1 200"]);
  });
});

/** Sends as fast as it is taken, and stops at the answer. */
async function upload(bytes: number, announced: boolean) {
  const chunk = Buffer.alloc(64 * 1024, " ");
  const length = announced ? { "content-length": String(bytes) } : { "transfer-encoding": "chunked" };
  const asked = request({
    port: server.port,
    host: "127.0.0.1",
    path: "/api/tools/add/calls",
    method: "POST",
    agent: false,
    headers: { host: "localhost", "content-type": "application/json", ...length, ...bearer() },
  });
  const answer = new Promise<{ status: number; body: { error: { code: string } } }>((resolve, reject) => {
    asked.on("error", reject);
    asked.on("response", async (response) => {
      sent = bytes;
      resolve({ status: response.statusCode!, body: JSON.parse(await textOf(response)) });
      asked.on("error", () => {}).destroy();
    });
  });
  let sent = 0;
  const send = () => {
    while (sent < bytes) {
      sent += chunk.length;
      if (!asked.write(chunk)) return;
    }
  };
  asked.on("drain", send);
  send();
  return answer;
}
