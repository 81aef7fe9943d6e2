import { writeFile } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { ServedRack, toolFile } from "../mcp/serve/testing/served-rack.ts";

const PATIENCE = { timeout: 20_000, interval: 50 };

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

const seen: Seen[] = [];
/** A shop that knows one pet and keeps what it is sent. */
const shop = createServer(async (request, response) => {
  const { method, url, headers } = request;
  seen.push({ method, url, headers, body: await text(request) });
  response.setHeader("content-type", "application/json");
  if (url?.endsWith("/pets/9")) response.writeHead(404);
  response.end(
    JSON.stringify(
      url?.endsWith("/pets/9") ? { message: "no such pet" } : { name: "Rex", key: headers["x-key"] },
    ),
  );
});
let base = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => shop.listen(0, "127.0.0.1", resolve));
  // A listening server at an address has a port.
  base = `http://127.0.0.1:${(shop.address() as AddressInfo).port}/v1`;
});
beforeEach(() => {
  seen.length = 0;
});
afterAll(() => {
  shop.close();
});

const description = (summary: string) => `
openapi: 3.1.0
info: { title: Shop, version: "1", description: Pets for sale. }
components: { securitySchemes: { key: { type: apiKey, in: header, name: X-Key } } }
security: [{ key: [] }]
paths:
  "/pets/{id}":
    parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
    get: { operationId: getPet, summary: ${summary}, tags: [pets] }
    delete: { operationId: removePet }
  "/odd/{gone}": { get: { operationId: odd } }
`;

async function openShop(
  entry: object = {},
  files: Readonly<Record<string, string>> = {},
): Promise<ServedRack> {
  const written = { spec: "shop.yaml", baseUrl: base, auth: { key: "key-of-the-shop" }, ...entry };
  const rack = await ServedRack.open({
    "shop.yaml": description("One pet"),
    "apis.json": JSON.stringify({ apis: { shop: written } }),
    ...files,
  });
  await ready(rack, "shop");
  return rack;
}

const ready = (rack: ServedRack, key: string) =>
  vi.waitFor(
    async () => expect(await rack.api("GET", `/api/mcp-servers/${key}`)).toMatchObject({ state: "ready" }),
    PATIENCE,
  );
const call = (rack: ServedRack, name: string, args: object, options = {}) =>
  rack.api("POST", `/api/tools/${name}/calls`, { arguments: args }, options);

test("an operation is a tool of the rack: found, called, recorded, with its credential sent and shown to nobody", async () => {
  await using rack = await openShop();
  const { result, status } = await call(rack, "api_shop_getPet", { id: 7 });
  expect([status, result.structured]).toEqual(["completed", { name: "Rex", key: "[redacted]" }]);
  expect(seen).toMatchObject([{ method: "GET", url: "/v1/pets/7", headers: { "x-key": "key-of-the-shop" } }]);
  const failed = await call(rack, "api_shop_getPet", { id: 9 });
  expect(failed.result).toMatchObject({
    type: "error",
    content: expect.stringContaining("404 Not Found: no such pet"),
  });
  expect((await call(rack, "api_shop_getPet", { id: "seven" })).error.code).toBe("invalid_arguments");
  const tool = await rack.api("GET", "/api/tools/api_shop_getPet");
  expect(tool).toMatchObject({ displayName: "shop/getPet", description: "One pet" });
  expect(JSON.stringify([tool, await rack.api("GET", "/api/mcp-servers/shop")])).not.toContain(
    "key-of-the-shop",
  );
  const { items } = await rack.api("GET", "/api/calls?limit=10");
  expect(items.map(({ toolName }: { toolName: string }) => toolName)).toContain("api_shop_getPet");
  const found = await rack.api("GET", "/api/tools?q=pets");
  expect(JSON.stringify(found)).toContain("api_shop_getPet");
});

test("what does more than read asks a person first, unless the entry says otherwise", async () => {
  await using rack = await openShop();
  const waiting = call(rack, "api_shop_removePet", { id: 7 });
  const question = await vi.waitFor(async () => {
    const { items } = await rack.api("GET", "/api/approvals");
    expect(items).toHaveLength(1);
    return items[0];
  }, PATIENCE);
  expect(seen).toEqual([]);
  await rack.api("POST", `/api/approvals/${question.id}`, { decision: "deny" });
  expect(await waiting).toMatchObject({ error: { code: "approval_denied" } });
  expect(seen).toEqual([]);
  await using other = await openShop({ approve: [] });
  expect(await call(other, "api_shop_removePet", { id: 7 })).toMatchObject({ status: "completed" });
  expect(seen).toMatchObject([{ method: "DELETE" }]);
});

test("what cannot be expressed is left out with the reason, and the rest serves", async () => {
  await using rack = await openShop();
  const view = await rack.api("GET", "/api/mcp-servers/shop");
  expect(view).toMatchObject({
    tools: 2,
    transport: "api",
    serverInfo: { name: "Shop", version: "OpenAPI 3.1.0" },
  });
  expect(view.refused).toEqual([{ name: "odd", reason: expect.stringContaining("Its path has {gone}") }]);
});

test("a changed operation waits for approval, and a broken description leaves the last good one", async () => {
  await using rack = await openShop();
  const path = join(rack.workspace.directory, "shop.yaml");
  await writeFile(path, description("Another meaning"));
  await vi.waitFor(
    async () => expect(await rack.api("GET", "/api/mcp-servers/shop")).toMatchObject({ quarantined: 1 }),
    PATIENCE,
  );
  expect(await call(rack, "api_shop_getPet", { id: 7 })).toMatchObject({ error: { code: "tool_disabled" } });
  await rack.api("POST", "/api/mcp-servers/shop/approve", {});
  expect(await call(rack, "api_shop_getPet", { id: 7 })).toMatchObject({ status: "completed" });
  await writeFile(path, "openapi: 3.1.0\npaths: [");
  await vi.waitFor(async () => {
    const { items } = await rack.api("GET", "/api/mcp-servers/shop/log");
    expect(JSON.stringify(items)).toContain("is used as it was");
  }, PATIENCE);
  expect(await call(rack, "api_shop_getPet", { id: 7 })).toMatchObject({ status: "completed" });
});

test("a GraphQL document is a tool, and one that asks for something else waits for approval", async () => {
  const files = {
    "apis.json": JSON.stringify({
      apis: { shop: { spec: "s.graphql", documents: "graphql", baseUrl: base } },
    }),
    "s.graphql": "type Query { pet(id: ID!): Pet } type Pet { name: String, owner: String }",
    "graphql/pet.graphql": "query GetPet($id: ID!) { pet(id: $id) { name } }",
  };
  await using rack = await openShop({}, files);
  await call(rack, "api_shop_GetPet", { id: "7" });
  expect(JSON.parse(seen[0]?.body ?? "{}")).toMatchObject({
    operationName: "GetPet",
    variables: { id: "7" },
  });
  const path = join(rack.workspace.directory, "graphql", "pet.graphql");
  await writeFile(path, "query GetPet($id: ID!) { pet(id: $id) { owner } }");
  await vi.waitFor(
    async () => expect(await rack.api("GET", "/api/mcp-servers/shop")).toMatchObject({ quarantined: 1 }),
    PATIENCE,
  );
  expect(await call(rack, "api_shop_GetPet", { id: "7" })).toMatchObject({
    error: { code: "tool_disabled" },
  });
});

test("an entry that is changed where its credentials are hidden keeps them, and shows which secrets it uses", async () => {
  await using rack = await openShop();
  const { auth, ...entry } = { spec: "shop.yaml", baseUrl: base, auth: { key: "key-of-the-store" } };
  await rack.api("POST", "/api/mcp-servers", { key: "kept", entry: { ...entry, auth } });
  const shown = await rack.api("GET", "/api/mcp-servers/kept");
  expect(shown.entry.api.auth).toEqual({ key: "[hidden]" });
  // As the console and `apis.json` write it.
  const changed = { ...entry, auth: shown.entry.api.auth, readOnly: true };
  expect(await rack.api("PATCH", "/api/mcp-servers/kept", { entry: changed })).toMatchObject({ status: 200 });
  await ready(rack, "kept");
  expect(await call(rack, "api_kept_getPet", { id: 7 })).toMatchObject({ status: "completed" });
  expect(seen.at(-1)?.headers["x-key"]).toBe("key-of-the-store");
  // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how an entry refers to a secret.
  const secret = { ...entry, auth: { key: "${secret:SHOP}" } };
  const { entry: now } = await rack.api("PATCH", "/api/mcp-servers/kept", { entry: secret });
  expect(now.api.auth).toEqual(secret.auth);
});

test("a token that may not use the API's tools neither sees nor calls them", async () => {
  await using rack = await openShop();
  const token = await rack.issue({ tools: ["other_*"] });
  expect(await call(rack, "api_shop_getPet", { id: 7 }, { token })).toMatchObject({ status: 404 });
  expect(seen).toEqual([]);
});

test("a description outside the workspace, or an API that is the rack itself, is refused", async () => {
  await using rack = await openShop();
  const add = (key: string, entry: object) => rack.api("POST", "/api/mcp-servers", { key, entry });
  await add("outside", { spec: "../outside.yaml" });
  await vi.waitFor(async () => {
    const view = await rack.api("GET", "/api/mcp-servers/outside");
    expect(view).toMatchObject({ state: "failed", reason: expect.stringContaining("outside the workspace") });
  }, PATIENCE);
  expect(await add("self", { spec: `${rack.serving.url}/openapi.json` })).toMatchObject({
    status: 400,
    error: { message: expect.stringContaining("this rack itself") },
  });
});

test("one rack is an API of another: its own description gives its operations", async () => {
  await using far = await ServedRack.open({
    "tools/a.ts": toolFile('name: "greet", execute: async () => "hello"'),
  });
  const spec = `${far.serving.url}/openapi.json`;
  const entry = { spec, approve: [], headers: { Authorization: `Bearer ${far.token}` } };
  await using near = await openShop(
    {},
    { "apis.json": JSON.stringify({ apis: { far: entry, shop: { spec: "shop.yaml", baseUrl: base } } }) },
  );
  await ready(near, "far");
  const answered = await call(near, "api_far_callTool", { name: "greet", body: { arguments: {} } });
  expect(answered.result.structured).toMatchObject({
    toolName: "greet",
    status: "completed",
    result: { content: "hello" },
  });
  const listed = await call(near, "api_far_listTools", {});
  expect(listed.result.structured.items.map(({ name }: { name: string }) => name)).toContain("greet");
});
