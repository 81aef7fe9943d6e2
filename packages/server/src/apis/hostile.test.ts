import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createAddressRules } from "../access/index.ts";
import { asRecord } from "../helpers/index.ts";
import { Api, type ApiSettings } from "./api.ts";

const { signal } = new AbortController();
type Answer = (request: IncomingMessage, response: ServerResponse) => void;
const echo: Answer = ({ url, headers }, response) =>
  response
    .writeHead(200, { "content-type": "application/json" })
    .end(JSON.stringify({ url, headers: { ...headers } }));
let answer = echo;
let base = "";
let other = "";
let folder = "";
const server = createServer((request, response) => answer(request, response));

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "toolrack-hostile-"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening server at an address has a port.
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  other = base.replace("127.0.0.1", "localhost");
});

afterEach(() => {
  answer = echo;
});

afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true, force: true });
});

async function openText(text: string, settings: Partial<ApiSettings> = {}): Promise<Api> {
  const path = join(await mkdtemp(join(folder, "spec-")), "api.json");
  await writeFile(path, text);
  const rules = createAddressRules(["127.0.0.1", "localhost"]);
  const usual = { credentials: new Map(), headers: {}, isReadOnly: false, rules };
  return Api.open({ ...usual, spec: { kind: "file", path }, ...settings }, signal);
}

function open(get: object, more: object = {}, settings: Partial<ApiSettings> = {}): Promise<Api> {
  const paths = { "/a": { get: { operationId: "a", ...get } } };
  return openText(JSON.stringify({ openapi: "3.1.0", servers: [{ url: base }], paths, ...more }), settings);
}

const query = (name: string) => ({ name, in: "query", schema: { type: "string" } });
const header = (name: string) => ({ name, in: "header", schema: { type: "string" } });
const apiKey = (place: string, name: string) => ({
  components: { securitySchemes: { key: { type: "apiKey", in: place, name } } },
  security: [{ key: [] }],
});
const credentials = new Map([["key", { kind: "text" as const, value: "the-key" }]]);

describe("a description in YAML", () => {
  it("that contains itself many times over is refused", async () => {
    const refused = openText("openapi: 3.1.0\npaths: {}\nx-a: &x [*x, *x, *x]");
    await expect(refused).rejects.toThrow("contains itself");
  });

  it("that is short but stands for very many values is refused", async () => {
    const list = `  - &a [${"1,".repeat(10_000)}1]`;
    const all = `openapi: 3.1.0\npaths: {}\nx-a:\n${list}\nx-b: &b [${"*a,".repeat(29)}*a]\nx-c: [${"*b,".repeat(29)}*b]`;
    await expect(openText(all)).rejects.toThrow("more than 4,000,000 values");
  });

  it("with so many aliases that looking them up would take minutes is refused", async () => {
    const lists = Array.from({ length: 400 }, (_, n) => `  - &a${n} [${"1,".repeat(400)}1]`).join("\n");
    const uses = Array.from({ length: 400 }, (_, n) => `*a${n}`).join(",");
    const all = `openapi: 3.1.0\npaths: {}\nx-a:\n${lists}\nx-b: [${uses}]`;
    await expect(openText(all)).rejects.toThrow("too many aliases");
  });

  it("may be less long than one in JSON, because it takes far more time and memory", async () => {
    const long = `openapi: 3.1.0\nx-a: "${"a".repeat(13 * 1024 * 1024)}"\npaths: {}`;
    await expect(openText(long)).rejects.toThrow("longer than 12 MiB");
    await expect(openText(`{"a": "${"a".repeat(13 * 1024 * 1024)}"`)).rejects.toThrow("longer than 12 MiB");
  });
});

it("reads many operations over very large shared schemas without writing those out for each", async () => {
  const schemas = Object.fromEntries(
    Array.from({ length: 400 }, (_, n) => [
      `S${n}`,
      {
        type: "object",
        description: "x".repeat(5_000),
        properties: { next: { $ref: `#/components/schemas/S${(n + 1) % 400}` } },
      },
    ]),
  );
  const body = { content: { "application/json": { schema: { $ref: "#/components/schemas/S0" } } } };
  const paths = (count: number) =>
    Object.fromEntries(
      Array.from({ length: count }, (_, n) => [
        `/p${n}`,
        { post: { operationId: `o${n}`, requestBody: body } },
      ]),
    );
  const time = async (count: number) => {
    const before = process.cpuUsage();
    const api = await openText(
      JSON.stringify({
        openapi: "3.1.0",
        servers: [{ url: base }],
        paths: paths(count),
        components: { schemas },
      }),
    );
    expect(api.skipped).toHaveLength(count);
    expect(api.skipped[0]?.reason).toContain("longer than 128 KiB");
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  await time(1);
  let once = 0;
  // Read many times, because a single reading is shorter than what the clock of the processor tells apart.
  for (let run = 0; run < 30; run++) once += await time(1);
  // Each further operation costs less than a sixteenth of reading the schemas once.
  expect(await time(501)).toBeLessThan(once);
});

it("offers only as many operations as their schemas fit into memory and lists", async () => {
  const schemas = Object.fromEntries(
    Array.from({ length: 20 }, (_, n) => [
      `S${n}`,
      {
        type: "object",
        description: "x".repeat(5_000),
        properties: { next: { $ref: `#/components/schemas/S${(n + 1) % 20}` } },
      },
    ]),
  );
  const body = { content: { "application/json": { schema: { $ref: "#/components/schemas/S0" } } } };
  const paths = Object.fromEntries(
    Array.from({ length: 700 }, (_, n) => [`/p${n}`, { post: { operationId: `o${n}`, requestBody: body } }]),
  );
  const all = { openapi: "3.1.0", servers: [{ url: base }], paths, components: { schemas } };
  const api = await openText(JSON.stringify(all));
  expect(api.skipped.length).toBeGreaterThan(0);
  expect(api.skipped[0]?.reason).toContain("together are longer than 64 MiB");
  expect(api.tools.length + api.skipped.length).toBe(700);
  expect(api.tools.length).toBeGreaterThan(600);
});

describe("a reference that is spelt wrongly", () => {
  it("costs only the operation that needs it", async () => {
    const paths = {
      "/a": { get: { operationId: "a" } },
      "/b": { get: { operationId: "b", parameters: [{ $ref: "%zz.yaml#/A" }] } },
    };
    const api = await openText(JSON.stringify({ openapi: "3.1.0", servers: [{ url: base }], paths }));
    expect(api.tools.map(({ name }) => name)).toEqual(["a"]);
    expect(api.skipped).toEqual([{ name: "b", reason: expect.stringContaining("not there") }]);
  });
});

describe("parameters", () => {
  it.each(["constructor", "toString", "__proto__", "hasOwnProperty"])(
    "named like a member of every object are sent only if they are given: %s",
    async (name) => {
      const api = await open({ parameters: [query(name)] });
      const { structuredContent } = await api.call("a", {}, signal);
      expect(asRecord(structuredContent).url).toBe("/a");
    },
  );

  it.each(["Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "X-A\r\nX-B", "X A"])(
    "cannot be headers that carry the message itself, nor no headers at all: %j",
    async (name) => {
      const api = await open({ parameters: [header(name)] });
      expect(api.tools).toEqual([]);
      expect(api.skipped).toEqual([{ name: "a", reason: expect.stringContaining("header") }]);
    },
  );

  it("that the entry's headers already give are not asked for", async () => {
    const parameters = [{ ...header("X-Tenant"), required: true }];
    const api = await open({ parameters }, {}, { headers: { "x-tenant": "ours" } });
    expect(asRecord(api.tools[0]?.inputSchema).required).toBeUndefined();
    expect(await api.call("a", {}, signal)).toMatchObject({
      structuredContent: { headers: { "x-tenant": "ours" } },
    });
  });
});

describe("credentials", () => {
  it("in the query leave the rest of the query as it is", async () => {
    const list = { ...query("ids"), schema: { type: "array" }, explode: false };
    const api = await open({ parameters: [list, query("text")] }, apiKey("query", "api key"), {
      credentials,
    });
    const { structuredContent } = await api.call("a", { ids: [1, 2], text: "a b" }, signal);
    expect(asRecord(structuredContent).url).toBe("/a?ids=1,2&text=a%20b&api%20key=the-key");
  });

  it("in a cookie beside other cookies stay behind when a redirect leads elsewhere", async () => {
    answer = (request, response) => {
      if (request.url === "/end") echo(request, response);
      else response.writeHead(302, { location: `${other}/end` }).end();
    };
    const parameters = [{ ...query("lang"), in: "cookie" }];
    const api = await open({ parameters }, apiKey("cookie", "sid"), { credentials });
    const { structuredContent } = await api.call("a", { lang: "en" }, signal);
    expect(JSON.stringify(structuredContent)).not.toContain("the-key");
  });

  it.each(["X-A\r\nX-B: 1", "", "X A"])("under no name of a header are not sent: %j", async (name) => {
    const api = await open({}, apiKey("header", name), { credentials });
    expect(api.missingCredentials).toEqual([]);
    expect(api.problems.join()).toContain("key");
    expect((await api.call("a", {}, signal)).isError).toBeUndefined();
  });

  it("are not taken from the address of a server in the description", async () => {
    const servers = [{ url: base.replace("//", "//me:password@") }];
    const api = await open({}, { servers });
    expect(api.tools).toEqual([]);
    expect(api.skipped).toEqual([{ name: "a", reason: expect.stringContaining("user name") }]);
    expect(JSON.stringify(api.skipped)).not.toContain("password");
  });
});

describe("a description at an address", () => {
  const described = (refers: string) => ({
    openapi: "3.1.0",
    paths: { "/a": { get: { operationId: "a", parameters: [{ $ref: refers }] } } },
  });
  const at = (path: string) => ({ kind: "address" as const, url: new URL(base + path) });

  it("is read where it has moved to, without the entry's headers", async () => {
    const seen: (string | undefined)[] = [];
    answer = (request, response) => {
      seen.push(request.headers["x-gate"]?.toString());
      if (request.url === "/old") return void response.writeHead(302, { location: `${other}/new` }).end();
      response.writeHead(200).end(JSON.stringify({ openapi: "3.1.0", paths: {} }));
    };
    await openText("", { spec: at("/old"), headers: { "x-gate": "open-sesame" } });
    expect(seen).toEqual(["open-sesame", undefined]);
  });

  it("does not refer to something at another place by way of its own", async () => {
    answer = (request, response) => {
      if (request.url === "/part") return void response.writeHead(302, { location: `${other}/end` }).end();
      response.writeHead(200).end(JSON.stringify(request.url === "/end" ? { p: {} } : described("part#/p")));
    };
    const api = await openText("", { spec: at("/spec") });
    expect(api.problems.join()).toContain(`it leads to ${other}`);
    expect(api.tools).toEqual([]);
  });
});

describe("a machine's token", () => {
  const flows = () => ({ clientCredentials: { tokenUrl: `${base}/token`, scopes: {} } });
  const machine = () => ({
    components: { securitySchemes: { key: { type: "oauth2", flows: flows() } } },
    security: [{ key: [] }],
  });
  const client = () => ({ kind: "client" as const, clientId: "me", clientSecret: "client-secret" });

  it("that two calls wait for is not lost when the first is cancelled", async () => {
    const { promise: asked, resolve: tell } = Promise.withResolvers<ServerResponse>();
    answer = (request, response) => {
      if (request.url === "/token") tell(response);
      else echo(request, response);
    };
    const api = await open({}, machine(), { credentials: new Map([["key", client()]]) });
    const cancel = new AbortController();
    const first = api.call("a", {}, cancel.signal);
    const second = api.call("a", {}, signal);
    const response = await asked;
    cancel.abort();
    await expect(first).rejects.toThrow();
    response.writeHead(200, { "content-type": "application/json" }).end('{"access_token":"fresh-token"}');
    expect(await second).toMatchObject({
      structuredContent: { headers: { authorization: "Bearer fresh-token" } },
    });
  });

  it("is told to those who mask secrets, and asked for anew once it is refused", async () => {
    let given = 0;
    answer = (request, response) => {
      if (request.url === "/token") {
        response.writeHead(200, { "content-type": "application/json" });
        response.end(`{"access_token":"token-${++given}"}`);
      } else if (request.headers.authorization === "Bearer token-1") response.writeHead(401).end();
      else echo(request, response);
    };
    const learnt: string[] = [];
    const learn = (value: string) => void learnt.push(value);
    const api = await open({}, machine(), { credentials: new Map([["key", client()]]), learn });
    expect(await api.call("a", {}, signal)).toMatchObject({
      structuredContent: { headers: { authorization: "Bearer token-2" } },
    });
    expect(learnt).toEqual(["token-1", "token-2"]);
  });
});

it("says of an answer without news that it has none, and nothing about the address", async () => {
  answer = (_request, response) => response.writeHead(304).end();
  const { content } = await (await open({})).call("a", {}, signal);
  expect(content[0]?.text).toBe("GET /a answered 304 Not Modified.");
});
