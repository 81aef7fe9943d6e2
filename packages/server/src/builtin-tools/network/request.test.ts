import type { IncomingMessage, ServerResponse } from "node:http";
import { brotliCompressSync, createGzip, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestServer, type TestServer } from "../../access/network/testing/test-server.ts";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import request from "./request.ts";

interface Answered {
  readonly status: number;
  readonly url: string;
  readonly redirected: boolean;
  readonly headers: Record<string, string>;
  readonly body: unknown;
  readonly bytes: number;
  readonly truncated: boolean;
}

interface Echo {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

const pixel = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

let server: TestServer;
/** The same machine under another name, and so another origin. */
let other: TestServer;
let open: TestWorkspace;
let closed: TestWorkspace;

beforeAll(async () => {
  server = await openTestServer(route);
  other = await openTestServer(route);
  open = await openTestWorkspace({}, { network: { allowPrivate: ["127.0.0.1", "localhost"] } });
  closed = await openTestWorkspace();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
  await open[Symbol.asyncDispose]();
  await closed[Symbol.asyncDispose]();
});

const get = (path: string, more: Record<string, unknown> = {}) =>
  open.structured<Answered>(request, { url: server.origin + path, ...more });
const echo = async (path: string, more: Record<string, unknown> = {}) => (await get(path, more)).body as Echo;

describe("sending", () => {
  test("query parameters are encoded and added", async () => {
    const { url } = await echo("/echo?a=1", { query: { b: "x y&z", list: [1, true], n: 5 } });
    expect(url).toBe("/echo?a=1&b=x+y%26z&list=1&list=true&n=5");
  });

  test("a value goes as JSON, a string as it is, each with a fitting type", async () => {
    const json = await echo("/echo", { method: "POST", body: { a: [1] } });
    expect([json.body, json.headers["content-type"]]).toEqual(['{"a":[1]}', "application/json"]);
    const text = await echo("/echo", { method: "PUT", body: "grüße" });
    expect([text.body, text.headers["content-type"]]).toEqual(["grüße", "text/plain;charset=utf-8"]);
    const looksLikeJson = await echo("/echo", { method: "POST", body: '{"a":1}' });
    expect(looksLikeJson.headers["content-type"]).toBe("application/json");
    const own = await echo("/echo", { method: "PATCH", body: "a=1", headers: { "Content-Type": "text/x" } });
    expect([own.method, own.headers["content-type"]]).toEqual(["PATCH", "text/x"]);
  });

  test("a user name in the URL becomes basic authentication and is not repeated", async () => {
    const answer = await open.call(request, {
      url: `http://user:pa%40ss@127.0.0.1:${server.port}/echo`,
    });
    const { body, url } = answer.structured as Answered;
    expect((body as Echo).headers.authorization).toBe(
      `Basic ${Buffer.from("user:pa@ss").toString("base64")}`,
    );
    expect(url).toBe(`${server.origin}/echo`);
    expect(answer.content).not.toContain("pa%40ss");
  });

  test("what makes no sense is refused before anything is sent", async () => {
    expect(await open.failure(request, { url: `${server.origin}/echo`, body: "x" })).toContain("no body");
    expect(await open.failure(request, { url: "file:///etc/passwd" })).toContain("only http and https");
    expect(await open.failure(request, { url: "example.com" })).toContain("not a URL");
    const url = `${server.origin}/echo`;
    for (const name of ["Host", "Content-Length", "Transfer-Encoding", "Connection"]) {
      expect(await open.failure(request, { url, headers: { [name]: "x" } })).toContain(name);
    }
    expect(await open.failure(request, { url, headers: { "x-a": "1\r\nx-b: 2" } })).toMatch(/invalid/i);
  });
});

describe("reading", () => {
  test("JSON is a value and indented text, and large numbers keep their digits", async () => {
    const result = await open.call(request, { url: `${server.origin}/json` });
    expect((result.structured as Answered).body).toEqual({
      id: "12345678901234567890",
      price: 1.5,
      small: 7,
    });
    expect(result.content).toContain('{\n  "id": 12345678901234567890,\n  "price": 1.5,\n  "small": 7\n}');
  });

  test("JSON that does not parse is shown as it came", async () => {
    expect((await get("/bad-json")).body).toBe('{"a":');
  });

  test("text is decoded by its charset, wherever that is said", async () => {
    expect((await get("/latin1")).body).toBe("grüße");
    expect((await get("/gbk-page")).body).toContain("中文");
    expect((await get("/utf16")).body).toBe("hé");
    expect((await get("/unknown-type")).body).toBe("plain text");
  });

  test("binary content is described, a small image is shown", async () => {
    const binary = await open.call(request, { url: `${server.origin}/binary` });
    expect((binary.structured as Answered).body).toBeNull();
    expect(binary.content).toContain(
      "[binary content: application/zip, 4 bytes; save it with internal_network_download]",
    );
    const image = await open.call(request, { url: `${server.origin}/image` });
    expect(image.attachments).toEqual([expect.objectContaining({ mime: "image/png" })]);
    expect(image.attachments![0]!.url).toContain(pixel.toString("base64"));
  });

  test("a status of 400 or above is an error that keeps the body", async () => {
    const result = await open.call(request, { url: `${server.origin}/missing` });
    expect(result.type).toBe("error");
    expect(result.structured).toMatchObject({ status: 404, body: { error: "no such page" } });
    expect(result.content).toMatch(/^404 Not Found[\s\S]*no such page/);
  });

  test("cookies keep their names only", async () => {
    const { headers } = await get("/cookies");
    expect(headers["set-cookie"]).toBe("session=[hidden]; Path=/; HttpOnly, theme=[hidden]");
  });

  test("HEAD and 204 have no body, even when a length or an encoding is announced", async () => {
    expect(await get("/gzip", { method: "HEAD" })).toMatchObject({ status: 200, body: "", bytes: 0 });
    expect(await get("/nothing")).toMatchObject({ status: 204, body: "", bytes: 0 });
  });
});

describe("limits", () => {
  test("a body is cut at maxBytes, never within a character, and the connection is closed", async () => {
    const answer = await get("/endless", { maxBytes: 1_000 });
    expect(answer).toMatchObject({ bytes: 1_000, truncated: true });
    expect(answer.body).toBe("語".repeat(333));
    await expect.poll(() => server.connections()).toBe(0);
  });

  test.each(["gzip", "deflate", "deflate-raw", "br"])("%s is undone", async (encoding) => {
    expect((await get(`/${encoding}`)).body).toBe("squeezed ".repeat(100));
  });

  test("an empty body that claims to be compressed is empty", async () => {
    expect((await get("/empty-gzip")).body).toBe("");
  });

  test("a body that unpacks to gigabytes is cut at maxBytes of what it unpacks to", async () => {
    const answer = await get("/bomb", { maxBytes: 100_000 });
    expect(answer).toMatchObject({ bytes: 100_000, truncated: true });
    await expect.poll(() => server.connections()).toBe(0);
  });

  test("a damaged or unknown encoding is said", async () => {
    expect(await open.failure(request, { url: `${server.origin}/damaged` })).toContain("damaged");
    expect(await open.failure(request, { url: `${server.origin}/strange` })).toContain(
      '"rot13" was not asked for',
    );
  });

  test("a body that ends early is a failure", async () => {
    expect(await open.failure(request, { url: `${server.origin}/cut-off` })).toContain(
      "before the whole answer",
    );
  });

  test("the timeout covers the headers and the body", async () => {
    const silent = await open.failure(request, { url: `${server.origin}/silent`, timeout: 150 });
    expect(silent).toContain("within 150 ms");
    const slow = await open.failure(request, { url: `${server.origin}/slow-body`, timeout: 150 });
    expect(slow).toContain("within 150 ms");
    await expect.poll(() => server.connections()).toBe(0);
  });

  test("a body that only ends because time is up is not taken for whole", async () => {
    const url = `${server.origin}/until-closed`;
    expect(await open.failure(request, { url, timeout: 150 })).toContain("within 150 ms");
  });

  test("cancelling closes the connection", async () => {
    const controller = new AbortController();
    const call = open.call(request, { url: `${server.origin}/slow-body` }, { signal: controller.signal });
    await expect.poll(() => server.connections()).toBe(1);
    controller.abort();
    expect((await call).type).toBe("error");
    await expect.poll(() => server.connections()).toBe(0);
  });
});

describe("redirects", () => {
  test("are followed, and the last address is told", async () => {
    const answer = await get("/hop/3");
    expect(answer).toMatchObject({ status: 200, redirected: true, url: `${server.origin}/echo` });
  });

  test("are not followed when that is not wanted, or when there are too many", async () => {
    expect(await get("/hop/1", { followRedirects: false })).toMatchObject({ status: 302, redirected: false });
    expect(await open.failure(request, { url: `${server.origin}/hop/6` })).toContain("more than 5 times");
  });

  test("keep method and body with 307 and turn into GET with 303", async () => {
    const kept = await echo("/redirect?status=307&to=/echo", { method: "POST", body: "data" });
    expect([kept.method, kept.body]).toEqual(["POST", "data"]);
    const turned = await echo("/redirect?status=303&to=/echo", { method: "POST", body: "data" });
    expect([turned.method, turned.body, turned.headers["content-type"]]).toEqual(["GET", "", undefined]);
  });

  test("carry credentials within an origin and drop them on the way to another", async () => {
    const headers = { Authorization: "Bearer t", Cookie: "a=1", "X-Api-Key": "k", "X-Trace": "kept" };
    const same = await echo("/redirect?to=/echo", { headers });
    expect(same.headers).toMatchObject({ authorization: "Bearer t", cookie: "a=1", "x-api-key": "k" });
    const across = await echo(`/redirect?to=${other.origin}/echo`, { headers });
    expect(across.headers["x-trace"]).toBe("kept");
    expect(across.headers).not.toHaveProperty("authorization");
    expect(across.headers).not.toHaveProperty("cookie");
    expect(across.headers).not.toHaveProperty("x-api-key");
  });

  test("are checked at every hop", async () => {
    await using named = await openTestWorkspace({}, { network: { allowPrivate: ["localhost"] } });
    const url = `http://localhost:${server.port}/redirect?to=${encodeURIComponent(server.origin)}/echo`;
    expect(await named.failure(request, { url })).toContain("Refused to connect to 127.0.0.1");
    const metadata = `http://localhost:${server.port}/redirect?to=http://169.254.169.254/latest`;
    expect(await named.failure(request, { url: metadata })).toContain(
      "Refused to connect to 169.254.169.254",
    );
    const file = `http://localhost:${server.port}/redirect?to=file:///etc/passwd`;
    expect(await named.failure(request, { url: file })).toContain("only http and https");
  });
});

describe("addresses", () => {
  test.each([
    "http://127.0.0.1:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f.1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://[::1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://0.0.0.0:PORT/",
    "http://①②⑦.0.0.1:PORT/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/",
    "https://10.0.0.1/",
  ])("%s is refused", async (url) => {
    const message = await closed.failure(request, { url: url.replace("PORT", String(server.port)) });
    expect(message).toMatch(/^Refused to connect to .*network\.allowPrivate/);
  });

  test("a name is allowed as a name: its address alone is not", async () => {
    await using named = await openTestWorkspace({}, { network: { allowPrivate: ["localhost"] } });
    const answer = await named.structured<Answered>(request, {
      url: `http://localhost:${server.port}/nothing`,
    });
    expect(answer.status).toBe(204);
    expect(await named.failure(request, { url: `${server.origin}/nothing` })).toContain("Refused");
  });

  test("a host that cannot be reached is explained", async () => {
    await using gone = await openTestServer(() => {});
    const { origin } = gone;
    await gone[Symbol.asyncDispose]();
    expect(await open.failure(request, { url: origin })).toContain("nothing listens on that port");
    expect(await open.failure(request, { url: "http://no-such-host.invalid/" })).toMatch(
      /Could not reach no-such-host/,
    );
  });
});

const squeezed = Buffer.from("squeezed ".repeat(100));

const bodies: Record<string, [type: string | undefined, body: string | Buffer, encoding?: string]> = {
  "/json": ["application/vnd.api+json", '{"id":12345678901234567890,"price":1.5,"small":7}'],
  "/bad-json": ["application/json", '{"a":'],
  "/latin1": ["text/plain; charset=ISO-8859-1", Buffer.from("grüße", "latin1")],
  "/gbk-page": [
    "text/html",
    Buffer.concat([Buffer.from('<meta charset="gbk">'), Buffer.from("d6d0cec4", "hex")]),
  ],
  "/utf16": ["text/plain", Buffer.from("\uFEFFhé", "utf16le")],
  "/unknown-type": [undefined, "plain text"],
  "/binary": ["application/zip", Buffer.from([80, 75, 0, 1])],
  "/image": ["image/png", pixel],
  "/gzip": ["text/plain", gzipSync(squeezed), "gzip"],
  "/deflate": ["text/plain", deflateSync(squeezed), "deflate"],
  "/deflate-raw": ["text/plain", deflateRawSync(squeezed), "deflate"],
  "/br": ["text/plain", brotliCompressSync(squeezed), "br"],
  "/empty-gzip": ["text/plain", "", "gzip"],
  "/damaged": ["text/plain", gzipSync(squeezed).fill(7, 12), "gzip"],
  "/strange": ["text/plain", "x", "rot13"],
};

const handlers: Record<
  string,
  (response: ServerResponse, incoming: IncomingMessage, query: URLSearchParams) => unknown
> = {
  "/echo": async (response, incoming) => {
    const { method, url, headers } = incoming;
    const body = Buffer.concat(await incoming.toArray()).toString();
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ method, url, headers, body }));
  },
  "/redirect": (response, _incoming, query) =>
    response.writeHead(Number(query.get("status") ?? 302), { location: query.get("to")! }).end("moved"),
  "/cookies": (response) =>
    response.writeHead(200, { "set-cookie": ["session=abc123; Path=/; HttpOnly", "theme=dark"] }).end("ok"),
  "/nothing": (response) => response.writeHead(204).end(),
  "/bomb": sendBomb,
  "/endless": sendEndless,
  "/cut-off": (response) =>
    response.writeHead(200, { "content-length": "1000" }).write("only this", () => response.destroy()),
  "/silent": () => {},
  // Neither a length nor chunks: the body ends where the connection does.
  "/until-closed": (response) => response.socket!.write("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nxx"),
  "/slow-body": (response) => response.writeHead(200, { "content-type": "text/plain" }).write("first"),
};

function route(incoming: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(incoming.url!, "http://test");
  const hops = /^\/hop\/(\d+)$/.exec(pathname)?.[1];
  if (hops !== undefined) {
    response.writeHead(302, { location: hops === "1" ? "/echo" : `/hop/${Number(hops) - 1}` }).end();
    return;
  }
  const body = bodies[pathname];
  if (body !== undefined) {
    const [type, content, encoding] = body;
    if (type !== undefined) response.setHeader("content-type", type);
    if (encoding !== undefined) response.setHeader("content-encoding", encoding);
    response.end(content);
    return;
  }
  const handler = handlers[pathname];
  if (handler !== undefined) {
    handler(response, incoming, searchParams);
    return;
  }
  response.writeHead(404, { "content-type": "application/json" }).end('{"error":"no such page"}');
}

/** Zeros without end, as small as gzip makes them. */
function sendBomb(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/plain", "content-encoding": "gzip" });
  const gzip = createGzip();
  const zeros = Buffer.alloc(1_048_576);
  const more = () => {
    while (!response.destroyed && gzip.write(zeros)) {}
  };
  gzip.on("drain", more).pipe(response);
  response.on("close", () => gzip.destroy());
  more();
}

function sendEndless(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/plain" });
  const text = "語".repeat(10_000);
  const more = () => {
    while (!response.destroyed && response.write(text)) {}
  };
  response.on("drain", more);
  more();
}
