import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createAddressRules } from "../access/index.ts";
import { asRecord } from "../helpers/index.ts";
import { Api, type ApiSettings } from "./api.ts";
import type { Parameter } from "./parameters.ts";
import { toRequest } from "./request.ts";

const { signal } = new AbortController();
type Answer = (request: IncomingMessage, response: ServerResponse) => void;
const noAnswer: Answer = (_request, response) => response.writeHead(404).end();
let answer = noAnswer;
let base = "";
let folder = "";
const server = createServer((request, response) => answer(request, response));

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "toolrack-api-"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening server at an address has a port.
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  answer = noAnswer;
});

afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true, force: true });
});

async function specFile(content: object | string): Promise<string> {
  const path = join(await mkdtemp(join(folder, "spec-")), "api.json");
  await writeFile(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

const plain = {
  credentials: new Map(),
  headers: {},
  isReadOnly: false,
  rules: createAddressRules(["127.0.0.1"]),
};

async function open(paths: object, more: object = {}, settings: Partial<ApiSettings> = {}): Promise<Api> {
  const path = await specFile({
    openapi: "3.1.0",
    info: { title: "T" },
    servers: [{ url: base }],
    paths,
    ...more,
  });
  return Api.open({ ...plain, spec: { kind: "file", path }, ...settings }, signal);
}

const reading = { "/a": { get: { operationId: "a" } } };
const json = (body: unknown, status = 200, headers = {}): Answer => {
  return (_request, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  };
};

describe("an answer", () => {
  it("in JSON is structured, with its text", async () => {
    answer = json({ a: 1 });
    expect(await (await open(reading)).call("a", {}, signal)).toEqual({
      content: [{ type: "text", text: '{"a":1}' }],
      structuredContent: { a: 1 },
    });
  });

  it("that is a list stays a text in JSON, and the next page is told", async () => {
    answer = json([1], 200, { link: '<https://x.example/?page=2>; rel="next"', "x-total-count": "7" });
    const { content, structuredContent, _meta } = await (await open(reading)).call("a", {}, signal);
    expect(structuredContent).toBeUndefined();
    expect(content).toEqual([
      { type: "text", text: "[1]" },
      { type: "text", text: "There is a next page: https://x.example/?page=2" },
    ]);
    expect(_meta).toMatchObject({ "toolrack/headers": { "x-total-count": "7" } });
  });

  it("of bytes is a file, and a picture is shown", async () => {
    const api = await open(reading);
    const bytes = Buffer.from([0, 255, 1]);
    answer = (_request, response) =>
      response.writeHead(200, { "content-type": "application/pdf" }).end(bytes);
    const resource = { uri: "api:a", mimeType: "application/pdf", blob: bytes.toString("base64") };
    expect((await api.call("a", {}, signal)).content).toEqual([{ type: "resource", resource }]);
    answer = (_request, response) => response.writeHead(200, { "content-type": "image/png" }).end(bytes);
    expect((await api.call("a", {}, signal)).content).toMatchObject([
      { type: "image", mimeType: "image/png" },
    ]);
  });

  it.each([
    [{ message: "no such pet" }, "no such pet"],
    [{ error: { message: "inner" } }, "inner"],
    [{ errors: [{ message: "first" }] }, "first"],
    [{ title: "Problem", detail: "in detail" }, "in detail"],
  ])("with a status of an error is one, in the words of the API: %j", async (body, words) => {
    answer = json(body, 422);
    const { content, isError } = await (await open(reading)).call("a", {}, signal);
    expect(isError).toBe(true);
    expect(content[0]?.text).toContain(`GET /a answered 422 Unprocessable Entity: ${words}`);
  });

  it.each([
    ["retry-after", "0"],
    ["ratelimit-reset", "0"],
    ["x-ratelimit-reset", String(Math.floor(Date.now() / 1_000))],
  ])(
    "that asks to wait by %s is waited for where a repeat does no harm, and nowhere else",
    async (header, value) => {
      const seen: string[] = [];
      answer = ({ method = "" }, response) => {
        seen.push(method);
        const isSecond = seen.filter((one) => one === method).length > 1;
        response
          .writeHead(isSecond ? 200 : 429, { [header]: value, "content-type": "application/json" })
          .end("{}");
      };
      const api = await open({ "/a": { get: { operationId: "read" }, post: { operationId: "write" } } });
      expect(await api.call("read", {}, signal)).not.toHaveProperty("isError");
      expect(await api.call("write", {}, signal)).toMatchObject({ isError: true });
      expect(seen).toEqual(["GET", "GET", "POST"]);
    },
  );
});

describe("credentials", () => {
  const schemes = { securitySchemes: { key: { type: "apiKey", in: "header", name: "X-Shop" } } };
  const credentials = new Map([["key", { kind: "text" as const, value: "sent-here-only" }]]);

  it("stay behind when a redirect leads elsewhere", async () => {
    const seen: (string | string[] | undefined)[] = [];
    answer = ({ headers, url }, response) => {
      seen.push(headers["x-shop"], headers["x-entry"]);
      if (url === "/end") response.end("ok");
      else response.writeHead(302, { location: `${base.replace("127.0.0.1", "localhost")}/end` }).end();
    };
    const rules = createAddressRules(["127.0.0.1", "localhost"]);
    const settings = { credentials, rules, headers: { "x-entry": "mine" } };
    const api = await open(reading, { components: schemes, security: [{ key: [] }] }, settings);
    expect(await api.call("a", {}, signal)).toMatchObject({ content: [{ text: "ok" }] });
    expect(seen).toEqual(["sent-here-only", "mine", undefined, undefined]);
  });

  it("of a client are exchanged for a token, once until it ends", async () => {
    const asked: string[] = [];
    answer = ({ url = "", headers }, response) => {
      asked.push(`${url} ${headers.authorization}`);
      response.setHeader("content-type", "application/json");
      response.end(url === "/token" ? '{"access_token":"fresh","expires_in":3600}' : "{}");
    };
    const flows = { clientCredentials: { tokenUrl: `${base}/token`, scopes: {} } };
    const components = { securitySchemes: { machine: { type: "oauth2", flows } } };
    const client = { kind: "client" as const, clientId: "me", clientSecret: "s:ecret" };
    const api = await open(
      reading,
      { components, security: [{ machine: [] }] },
      { credentials: new Map([["machine", client]]) },
    );
    await api.call("a", {}, signal);
    await api.call("a", {}, signal);
    const login = Buffer.from("me:s%3Aecret").toString("base64");
    expect(asked).toEqual([`/token Basic ${login}`, "/a Bearer fresh", "/a Bearer fresh"]);
  });

  it("that the entry lacks are named", async () => {
    const api = await open(reading, { components: schemes, security: [{ key: [] }] });
    expect(api.missingCredentials).toEqual(["key"]);
  });

  describe("of a person", () => {
    const person = { kind: "person" as const, token: async () => "token", refuse: () => false };
    const own = { ...plain, credentials: new Map([["o", person]]) };

    it("are asked for where Swagger 2.0 says, with the scopes of the operations that are offered", async () => {
      const flow = { authorizationUrl: "https://a.example/sign-in", tokenUrl: "https://a.example/tokens" };
      const path = await specFile({
        swagger: "2.0",
        host: "shop.example",
        schemes: ["https"],
        securityDefinitions: { o: { type: "oauth2", flow: "accessCode", scopes: {}, ...flow } },
        paths: {
          "/a": {
            get: { operationId: "a", security: [{ o: ["read", "list"] }] },
            put: { operationId: "b", security: [{ o: ["write"] }] },
          },
        },
      });
      const spec = { kind: "file", path } as const;
      const api = await Api.open({ ...own, spec, isReadOnly: true }, signal);
      expect(api.signIn).toEqual({ server: "https://shop.example", ...flow, scope: "list read" });
      expect((await Api.open({ ...own, spec }, signal)).signIn?.scope).toBe("list read write");
      expect((await Api.open({ ...plain, spec }, signal)).signIn).toBeUndefined();
    });

    it("are asked for at an address that is relative to the description's own", async () => {
      const flows = { authorizationCode: { authorizationUrl: "/sign-in", tokenUrl: "/tokens", scopes: {} } };
      const components = { securitySchemes: { o: { type: "oauth2", flows } } };
      answer = json({ openapi: "3.1.0", paths: reading, components, security: [{ o: [] }] });
      const api = await Api.open(
        { ...own, spec: { kind: "address", url: new URL(`${base}/v1/api`) } },
        signal,
      );
      expect(api.signIn).toEqual({
        server: base,
        authorizationUrl: `${base}/sign-in`,
        tokenUrl: `${base}/tokens`,
        scope: undefined,
      });
    });
  });
});

describe("a description", () => {
  const refuse = (content: object | string) => specFile(content).then((path) => openPath(path));
  const openPath = (path: string) => Api.open({ ...plain, spec: { kind: "file", path } }, signal);

  it.each([
    ["{", /neither JSON nor YAML/],
    ["a: [", /neither JSON nor YAML/],
    ["just words", /is no object/],
    [{ openapi: "4.0.0", paths: {} }, /OpenAPI 4.0.0 is not supported/],
    [{ swagger: "1.2", paths: {} }, /Swagger 1.2 is not supported/],
    [{ asyncapi: "3.0.0" }, /AsyncAPI/],
    [{ openapi: "3.1.0", webhooks: {} }, /webhooks only/],
    [
      `a: &a [x]\n${Array.from({ length: 30 }, (_, n) => `b${n}: &b${n} [*${n === 0 ? "a" : `b${n - 1}`}, *${n === 0 ? "a" : `b${n - 1}`}]`).join("\n")}`,
      /cannot be read/,
    ],
    [`{"openapi":"3.1.0","paths":${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}}`, /more than 400 levels/],
  ])("that cannot be used is refused with the reason (%#)", async (content, reason) => {
    await expect(refuse(content)).rejects.toThrow(reason);
  });

  it("that is longer than allowed is refused before it is read", async () => {
    await expect(refuse(" ".repeat(33 * 1024 * 1024))).rejects.toThrow("is longer than 32 MiB");
  });

  it("may refer to files of its own folder", async () => {
    const path = await specFile({
      openapi: "3.0.0",
      servers: [{ url: base }],
      paths: { "/a": { get: { operationId: "a", parameters: [{ $ref: "parts.yaml#/Limit" }] } } },
    });
    const parts =
      "Limit: { name: limit, in: query, schema: { $ref: '#/Number' } }\nNumber: { type: integer, nullable: true }";
    await writeFile(join(path, "..", "parts.yaml"), parts);
    const api = await openPath(path);
    expect(api.problems).toEqual([]);
    expect(asRecord(api.tools[0]?.inputSchema).$defs).toEqual({ Number: { type: ["integer", "null"] } });
    expect(api.files).toHaveLength(2);
  });

  it("at an address is read with what it refers to at its own origin, and relative servers are its own", async () => {
    const parts = { A: { name: "a", in: "query", schema: { type: "string" } } };
    const given = {
      openapi: "3.1.0",
      servers: [{ url: "../v2" }],
      paths: {
        "/x": { get: { operationId: "x", parameters: [{ $ref: "parts.json#/A" }] } },
        "/y": { get: { operationId: "y", parameters: [{ $ref: "http://localhost:1/parts.json#/A" }] } },
      },
    };
    answer = (request, response) => {
      if (request.url?.startsWith("/v2")) json({ url: request.url })(request, response);
      else json(request.url === "/docs/parts.json" ? parts : given)(request, response);
    };
    const spec = { kind: "address" as const, url: new URL(`${base}/docs/api.json`) };
    const api = await Api.open({ ...plain, spec }, signal);
    expect(await api.call("x", { a: "1" }, signal)).toMatchObject({
      structuredContent: { url: "/v2/x?a=1" },
    });
    expect(api.skipped).toEqual([{ name: "y", reason: expect.stringContaining("which is not there") }]);
    expect(api.problems).toEqual([expect.stringContaining(`only addresses of ${base} are read`)]);
  });

  it("with 1,500 operations over shared schemas is read in time that grows with them, and not with their square", async () => {
    const schemas = Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`S${n}`, schemaNumber(n)]));
    const operation = (n: number) => ({
      operationId: `op${n}`,
      parameters: [{ name: "q", in: "query", schema: { type: "string" } }],
      requestBody: {
        content: { "application/json": { schema: { $ref: `#/components/schemas/S${n % 400}` } } },
      },
    });
    const cpuFor = async (count: number) => {
      const paths = Object.fromEntries(
        Array.from({ length: count }, (_, n) => [`/p${n}`, { post: operation(n) }]),
      );
      const path = await specFile({
        openapi: "3.1.0",
        servers: [{ url: base }],
        paths,
        components: { schemas },
      });
      const begin = process.cpuUsage();
      expect((await openPath(path)).tools).toHaveLength(count);
      const { user, system } = process.cpuUsage(begin);
      return user + system;
    };
    await cpuFor(100);
    expect((await cpuFor(1_500)) / (await cpuFor(300))).toBeLessThan(20);
  });
});

function schemaNumber(n: number): object {
  const properties = Object.fromEntries(
    Array.from({ length: 8 }, (_, at) => [`field${at}`, { type: "string" }]),
  );
  return {
    type: "object",
    properties: { ...properties, next: { $ref: `#/components/schemas/S${(n + 7) % 20}` } },
  };
}

it("offers only what reads if the entry says so", async () => {
  const api = await open(
    { "/a": { get: { operationId: "r" }, post: { operationId: "w" } } },
    {},
    { isReadOnly: true },
  );
  expect(api.tools.map(({ name, annotations }) => [name, annotations.readOnlyHint])).toEqual([["r", true]]);
});

/** Reads the values of a query back, as a server does that knows the style. */
function readBack({ name, style, explode }: Parameter, search: string, isList: boolean): unknown {
  const pairs = [...search.slice(1).split("&")]
    .filter(Boolean)
    .map((pair) => pair.split("=").map(decodeURIComponent));
  if (style === "deepObject") {
    return Object.fromEntries(pairs.map(([key = "", value]) => [key.slice(name.length + 1, -1), value]));
  }
  if (explode) return isList ? pairs.map(([, value]) => value) : Object.fromEntries(pairs);
  const [, raw = ""] = search.slice(1).split("=");
  const items = raw
    .split(style === "pipeDelimited" ? "%7C" : style === "spaceDelimited" ? "%20" : ",")
    .map(decodeURIComponent);
  if (isList) return items;
  return Object.fromEntries(items.flatMap((key, at) => (at % 2 === 0 ? [[key, items[at + 1]]] : [])));
}

it("writes lists and objects so that a server reads the same values", async () => {
  const key = fc
    .string({ minLength: 1, unit: "grapheme" })
    .filter((text) => !/[[\]=]/.test(text) && text !== "__proto__" && text.isWellFormed());
  const value = fc.string({ unit: "grapheme" }).filter((text) => text.isWellFormed());
  // In these styles the separator itself cannot be told from one inside a value.
  const unlike = (style: string) => (text: string) =>
    !(style === "pipeDelimited" ? /\|/ : style === "spaceDelimited" ? / / : /$^/).test(text);
  const styles = fc.constantFrom("form", "pipeDelimited", "spaceDelimited", "deepObject");
  await fc.assert(
    fc.asyncProperty(
      styles,
      fc.boolean(),
      fc.array(value, { minLength: 1 }),
      fc.dictionary(key, value, { minKeys: 1 }),
      fc.boolean(),
      async (style, explode, list, map, wantsList) => {
        const isList = wantsList && style !== "deepObject";
        const fits = unlike(style);
        fc.pre(isList ? list.every(fits) : Object.entries(map).flat().every(fits));
        const parameter = {
          argument: "p",
          name: "p",
          place: "query" as const,
          style,
          explode: explode || style === "deepObject",
          allowReserved: false,
          isJson: false,
          isRequired: false,
        };
        const operation = {
          name: "o",
          method: "GET",
          path: "/",
          title: undefined,
          description: "",
          tags: [],
          isDeprecated: false,
          server: "http://x.example",
          parameters: [parameter],
          body: undefined,
          inputSchema: {},
          outputSchema: undefined,
          security: [],
        };
        const given = isList ? list : map;
        const { url } = await toRequest(operation, { p: given });
        expect(readBack(parameter, url.search, isList)).toEqual(given);
      },
    ),
  );
});
