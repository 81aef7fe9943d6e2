import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import {
  type AuthorizationOptions,
  AuthorizationServer,
} from "../mcp/connect/testing/authorization-server.fixture.ts";
import { ServedRack } from "../mcp/serve/testing/served-rack.ts";

vi.setConfig({ testTimeout: 60_000 });

/** The API behind the authorization server, which lets only requests with its tokens through. */
const api = createServer(({ url }, response) =>
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ url })),
);
let behind = "";
beforeAll(async () => {
  await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", resolve));
  // A listening server at an address has a port.
  behind = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
});
afterAll(() => void api.close());

function description(origin: string, flow: object): object {
  const flows = { authorizationCode: { scopes: { use: "All of it." }, ...flow } };
  return {
    openapi: "3.1.0",
    info: { title: "Notes" },
    servers: [{ url: `${origin}/api` }],
    components: { securitySchemes: { person: { type: "oauth2", flows } } },
    paths: {
      "/notes": { get: { operationId: "list", security: [{ person: ["use"] }] } },
      "/open": { get: { operationId: "open" } },
    },
  };
}

interface Scene extends AsyncDisposable {
  readonly rack: ServedRack;
  readonly authority: AuthorizationServer;
}

/** A rack with the API `notes`. `client`: its `auth` for the scheme `person`. */
async function open(
  client: (origin: string) => object,
  options: Partial<AuthorizationOptions> = {},
  flow = (origin: string): object => ({
    authorizationUrl: `${origin}/authorize`,
    tokenUrl: `${origin}/token`,
  }),
  entry: object = {},
): Promise<Scene> {
  const stack = new AsyncDisposableStack();
  const given = { behind, isApi: true, client: { id: "our-client" }, ...options };
  const authority = stack.use(await AuthorizationServer.start(given));
  const { origin } = authority;
  const notes = { spec: "notes.json", baseUrl: `${origin}/api`, auth: { person: client(origin) }, ...entry };
  const rack = stack.use(
    await ServedRack.open({
      "notes.json": JSON.stringify(description(origin, flow(origin))),
      "apis.json": JSON.stringify({ apis: { notes } }),
      "toolrack.config.ts": 'export default { network: { allowPrivate: ["127.0.0.1", "localhost"] } };',
    }),
  );
  await vi.waitFor(async () => expect((await view(rack)).state).toBe("ready"), 20_000);
  return { rack, authority, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const view = (rack: ServedRack, options = {}) =>
  rack.api("GET", "/api/mcp-servers/notes", undefined, options);
const call = (rack: ServedRack, name: string, options = {}) =>
  rack.api("POST", `/api/tools/${name}/calls`, { arguments: {} }, options);

async function signIn({ rack, authority }: Scene, options = {}): Promise<string> {
  const { url, error } = await rack.api("POST", "/api/mcp-servers/notes/login", {}, options);
  expect(error).toBeUndefined();
  expect((await authority.agree(url)).status).toBe(200);
  return url;
}

it("a person signs in where the description says, with the scopes that its operations need; the tools are known before", async () => {
  await using scene = await open(() => ({ clientId: "our-client" }));
  const { rack, authority } = scene;
  expect(await view(rack)).toMatchObject({
    tools: 2,
    reason: expect.stringContaining("toolrack apis login notes"),
    signIn: { signedIn: false },
  });
  expect((await call(rack, "api_notes_list")).result.content).toContain(
    'Nobody has signed in at the API "notes"',
  );
  const page = new URL(await signIn(scene));
  expect(page.href).toMatch(`${authority.origin}/authorize?`);
  expect([page.searchParams.get("client_id"), page.searchParams.get("scope")]).toEqual(["our-client", "use"]);
  await vi.waitFor(async () =>
    expect(await view(rack)).toMatchObject({ state: "ready", signIn: { signedIn: true } }),
  );
  expect((await view(rack)).reason).toBeUndefined();
  expect((await call(rack, "api_notes_list")).result.structured).toEqual({ url: "/api/notes" });
  expect(authority.used).toEqual([authority.given[0]]);
  const shown = JSON.stringify([await view(rack), await rack.api("GET", "/api/mcp-servers/notes/log")]);
  for (const token of authority.given) expect(shown).not.toContain(token);
});

it("an operation that needs no credentials is sent none, signed in or not", async () => {
  await using scene = await open(() => ({ clientId: "our-client" }));
  await call(scene.rack, "api_notes_open");
  await signIn(scene);
  await call(scene.rack, "api_notes_open");
  expect(scene.authority.used).toEqual(["", ""]);
});

it("a refused token is renewed and the call sent again; where none is given any more, a person has to sign in", async () => {
  await using scene = await open(() => ({ clientId: "our-client" }));
  const { rack, authority } = scene;
  await signIn(scene);
  expect(await call(rack, "api_notes_list")).toMatchObject({ status: "completed" });
  authority.endAccessTokens();
  const both = await Promise.all([call(rack, "api_notes_list"), call(rack, "api_notes_list")]);
  expect(both).toMatchObject([{ status: "completed" }, { status: "completed" }]);
  expect(authority.grants).toEqual(["authorization_code", "refresh_token"]);
  authority.endEverything();
  expect((await call(rack, "api_notes_list")).result.content).toContain("Nobody has signed in");
  expect((await view(rack)).signIn).toMatchObject({
    signedIn: false,
    problem: expect.stringContaining("Sign in again"),
  });
});

it("a token is renewed before it ends, and kept for the next run of the rack", async () => {
  await using scene = await open(() => ({ clientId: "our-client" }), { seconds: 1 });
  const { rack, authority } = scene;
  await signIn(scene);
  await vi.waitFor(async () => {
    await call(rack, "api_notes_list");
    expect(authority.grants).toContain("refresh_token");
  }, 20_000);
  expect(new Set(authority.used).has("")).toBe(false);
  const { workspace } = rack;
  await rack.serving.close();
  await using again = await ServedRack.over(workspace);
  await vi.waitFor(async () => expect((await view(again)).signIn).toMatchObject({ signedIn: true }), 20_000);
  expect(await call(again, "api_notes_list")).toMatchObject({ status: "completed" });
  expect(authority.grants.filter((grant) => grant === "authorization_code")).toHaveLength(1);
});

it("signing out ends the sign-in", async () => {
  await using scene = await open(() => ({ clientId: "our-client" }));
  const { rack } = scene;
  await signIn(scene);
  expect(await call(rack, "api_notes_list")).toMatchObject({ status: "completed" });
  const { server } = await rack.api("POST", "/api/mcp-servers/notes/logout", {});
  expect(server.signIn).toMatchObject({ signedIn: false });
  expect((await call(rack, "api_notes_list")).result.content).toContain("Nobody has signed in");
});

it("tokens are not sent to another place to which the description leads later, even if that is approved", async () => {
  const flow = (origin: string) => ({ authorizationUrl: `${origin}/authorize`, tokenUrl: `${origin}/token` });
  await using scene = await open(() => ({ clientId: "our-client" }), {}, flow, { baseUrl: undefined });
  const { rack, authority } = scene;
  await signIn(scene);
  expect(await call(rack, "api_notes_list")).toMatchObject({ status: "completed" });
  const elsewhere = authority.origin.replace("127.0.0.1", "localhost");
  const moved = description(elsewhere, flow(authority.origin));
  await writeFile(join(rack.workspace.directory, "notes.json"), JSON.stringify(moved));
  await rack.api("POST", "/api/mcp-servers/notes/restart", {});
  await rack.api("POST", "/api/mcp-servers/notes/approve", {});
  authority.used.length = 0;
  expect((await call(rack, "api_notes_list")).result.content).toContain("Nobody has signed in");
  await call(rack, "api_notes_open");
  expect(authority.used).toEqual([""]);
});

it("addresses of the entry count instead of those of the description, and a client may have a secret", async () => {
  const client = (origin: string) => ({
    grant: "authorization_code",
    clientId: "our-client",
    clientSecret: "secret-of-the-client",
    authorizationUrl: `${origin}/authorize`,
    tokenUrl: `${origin}/token`,
    scope: "use",
  });
  const known = { client: { id: "our-client", secret: "secret-of-the-client" } };
  const wrong = () => ({ authorizationUrl: "http://127.0.0.1:1/", tokenUrl: "http://127.0.0.1:1/" });
  await using scene = await open(client, known, wrong);
  await signIn(scene);
  expect(await call(scene.rack, "api_notes_list")).toMatchObject({ status: "completed" });
  const { entry } = await view(scene.rack);
  expect(entry.api.auth.person).toMatchObject({ clientId: "our-client", clientSecret: "[hidden]" });
});

it("a description that does not say where to sign in is told of when somebody tries", async () => {
  await using scene = await open(
    () => ({ clientId: "our-client" }),
    {},
    () => ({}),
  );
  const refused = await scene.rack.api("POST", "/api/mcp-servers/notes/login", {});
  expect(refused.error.message).toContain("Write authorizationUrl and tokenUrl into its auth");
});

it("each token signs in for itself where the entry says so", async () => {
  await using scene = await open(() => ({ clientId: "our-client", signIn: "token" }));
  const { rack, authority } = scene;
  const [ann, ben] = [
    await rack.issue({ tools: ["api_notes_*"] }, "ann"),
    await rack.issue({ tools: ["api_notes_*"] }, "ben"),
  ];
  expect((await rack.api("GET", "/api/tools?q=notes", undefined, { token: ann })).items.length).toBe(2);
  await signIn(scene, { token: ann });
  expect(await call(rack, "api_notes_list", { token: ann })).toMatchObject({ status: "completed" });
  const refused = await call(rack, "api_notes_list", { token: ben });
  expect(JSON.stringify(refused)).toContain("nobody has signed in there with this token");
  await signIn(scene, { token: ben });
  expect(await call(rack, "api_notes_list", { token: ben })).toMatchObject({ status: "completed" });
  expect(authority.used).toEqual([authority.given[0], authority.given[2]]);
});

it.each([
  [{ clientId: "a", clientSecret: "b", grant: "authorization_code" }, "no tokenUrl"],
  [{ clientId: "a", grant: "client_credentials" }, "needs a clientSecret"],
  [{ clientId: "a", clientSecret: "b", authorizationUrl: "https://a.example" }, "people who sign in"],
  [{ clientId: "a", tokenUrl: "file:///etc/passwd" }, "must begin with http"],
  [{ clientSecret: "b" }, "clientId"],
])("a client that is written wrongly is refused: %j", async (client, reason) => {
  await using rack = await ServedRack.open({});
  const entry = { spec: "notes.json", auth: { person: client } };
  const refused = await rack.api("POST", "/api/mcp-servers", { key: "notes", entry });
  expect(refused).toMatchObject({ status: 400, error: { message: expect.stringContaining(reason) } });
});
