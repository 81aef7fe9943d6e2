import { rm, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { ServedRack } from "../mcp/serve/testing/served-rack.ts";

const PATIENCE = { timeout: 20_000, interval: 50 };

/** Requests to `/slow`, which are never answered. */
const slow: ServerResponse[] = [];
let base = "";
/** Tells what it was sent, and gives out tokens. */
const echo = createServer((request, response) => {
  if (request.url === "/slow") return void slow.push(response);
  const isToken = request.url === "/token";
  response.writeHead(200, { "content-type": "application/json" });
  response.end(
    JSON.stringify(isToken ? { access_token: "token-of-the-machine" } : { headers: request.headers }),
  );
});

beforeAll(async () => {
  await new Promise<void>((resolve) => echo.listen(0, "127.0.0.1", resolve));
  // A listening server at an address has a port.
  base = `http://127.0.0.1:${(echo.address() as AddressInfo).port}`;
});
beforeEach(() => {
  slow.length = 0;
});
afterAll(() => {
  echo.closeAllConnections();
  echo.close();
});

const reading = { "/a": { get: { operationId: "a" } }, "/slow": { get: { operationId: "slow" } } };
const allowed = {
  "toolrack.config.ts": 'export default { network: { allowPrivate: ["127.0.0.1", "localhost"] } };',
};

function spec(more: object = {}): string {
  return JSON.stringify({ openapi: "3.1.0", info: { title: "T" }, paths: reading, ...more });
}

function open(description: string | undefined, entry: object): Promise<ServedRack> {
  return ServedRack.open({
    ...(description !== undefined && { "api.json": description }),
    "apis.json": JSON.stringify({ apis: { it: { spec: "api.json", ...entry } } }),
    ...allowed,
  });
}

const view = (rack: ServedRack) => rack.api("GET", "/api/mcp-servers/it");
const call = (rack: ServedRack, name: string) =>
  rack.api("POST", `/api/tools/${name}/calls`, { arguments: {} });
const becomes = (rack: ServedRack, expected: object) =>
  vi.waitFor(async () => expect(await view(rack)).toMatchObject(expected), PATIENCE);

test("a description that is not there yet is read once it is", async () => {
  await using rack = await open(undefined, { baseUrl: base });
  await becomes(rack, { state: "backoff" });
  await writeFile(join(rack.workspace.directory, "api.json"), spec());
  await becomes(rack, { state: "ready", tools: 2 });
  await rm(join(rack.workspace.directory, "api.json"));
  expect(await call(rack, "api_it_a")).toMatchObject({ status: "completed" });
});

test("a description that leads to another place is not followed there, and an operation that moves waits", async () => {
  const other = base.replace("127.0.0.1", "localhost");
  await using rack = await open(spec({ servers: [{ url: base }] }), {
    headers: { "X-Key": "key-of-the-api" },
  });
  await becomes(rack, { state: "ready" });
  const path = join(rack.workspace.directory, "api.json");
  await writeFile(path, spec({ servers: [{ url: other }] }));
  await vi.waitFor(async () => {
    const { items } = await rack.api("GET", "/api/mcp-servers/it/log");
    expect(JSON.stringify(items)).toContain(`now leads to ${other} instead of ${base}`);
  }, PATIENCE);
  expect(JSON.stringify(await call(rack, "api_it_a"))).toContain(base.replace("http://", ""));
  await rack.api("POST", "/api/mcp-servers/it/restart", {});
  await becomes(rack, { state: "ready", quarantined: 2 });
  expect(await call(rack, "api_it_a")).toMatchObject({ error: { code: "tool_disabled" } });
});

test("a token that a machine was given is shown to nobody", async () => {
  const flows = { clientCredentials: { tokenUrl: `${base}/token`, scopes: {} } };
  const components = { securitySchemes: { machine: { type: "oauth2", flows } } };
  const auth = { machine: { clientId: "me", clientSecret: "secret-of-the-machine" } };
  await using rack = await open(spec({ components, security: [{ machine: [] }] }), { baseUrl: base, auth });
  await becomes(rack, { state: "ready" });
  const called = await call(rack, "api_it_a");
  expect(called.result.structured.headers.authorization).toBe("Bearer [redacted]");
});

test("a description that has the secret of a machine sent elsewhere waits for approval", async () => {
  const flows = (url: string) => ({ clientCredentials: { tokenUrl: url, scopes: {} } });
  const described = (url: string) =>
    spec({
      components: { securitySchemes: { machine: { type: "oauth2", flows: flows(url) } } },
      security: [{ machine: [] }],
    });
  const auth = { machine: { clientId: "me", clientSecret: "secret-of-the-machine" } };
  await using rack = await open(described(`${base}/token`), { baseUrl: base, auth });
  await becomes(rack, { state: "ready" });
  await writeFile(join(rack.workspace.directory, "api.json"), described(`${base}/slow`));
  await becomes(rack, { quarantined: 2 });
  expect(await call(rack, "api_it_a")).toMatchObject({ error: { code: "tool_disabled" } });
  expect(slow).toHaveLength(0);
});

test("a cancelled call ends its request", async () => {
  await using rack = await open(spec(), { baseUrl: base });
  await becomes(rack, { state: "ready" });
  const waiting = call(rack, "api_it_slow");
  const [response] = await vi.waitFor(() => {
    expect(slow).toHaveLength(1);
    return slow;
  }, PATIENCE);
  const ended = new Promise((resolve) => response?.once("close", resolve));
  const { items } = await rack.api("GET", "/api/calls?limit=1");
  await rack.api("DELETE", `/api/calls/${items[0].callId}`);
  await ended;
  expect(JSON.stringify(await waiting)).toMatch(/"code":"[a-z_]*cancelled"/);
});

test.each([
  [{ toolrack: "text" }, "toolrack"],
  [{ include: "a*" }, "include"],
  [{ baseURL: "https://api.example.com" }, "baseUrl"],
  [{ auth: { key: 7 } }, "auth"],
  [{ baseUrl: "http://[" }, "baseUrl"],
])("an entry that is written wrongly is refused with the key: %j", async (entry, key) => {
  await using rack = await ServedRack.open({ "api.json": spec() });
  const given = { key: "it", entry: { spec: "api.json", ...entry } };
  const refused = await rack.api("POST", "/api/mcp-servers", given);
  expect(refused).toMatchObject({ status: 400, error: { message: expect.stringContaining(key) } });
});

test("an entry of apis.json is never that of a server, and is listed as an API also when it is wrong", async () => {
  await using rack = await ServedRack.open({
    "apis.json": JSON.stringify({ apis: { it: { command: "ls" } } }),
  });
  const expected = { state: "failed", transport: "api", reason: expect.stringContaining("no such key") };
  await becomes(rack, expected);
});
