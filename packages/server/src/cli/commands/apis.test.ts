import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { AuthorizationServer } from "../../mcp/connect/testing/authorization-server.fixture.ts";
import { type Serving, serve } from "../../rack/serve.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

const logger = { debug() {}, info() {}, warn() {}, error() {} };
const shop = {
  openapi: "3.1.0",
  info: { title: "Shop", version: "1" },
  servers: [{ url: "https://shop.example.com" }],
  components: { securitySchemes: { key: { type: "apiKey", in: "header", name: "X-Key" } } },
  paths: {
    "/pets": { get: { operationId: "listPets" }, post: { operationId: "addPet", security: [{ key: [] }] } },
    "/odd/{id}": { get: { operationId: "odd" } },
  },
};

let workspace: TemporaryWorkspace;
let serving: Serving;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "specs/shop.json": JSON.stringify(shop),
    "specs/broken.json": "{",
    "specs/pets.graphqls": "type Query { pet(id: ID!): String }",
    "graphql/pet.graphql": "query GetPet($id: ID!) { pet(id: $id) }",
    "apis.json": JSON.stringify({
      apis: {
        first: { spec: "specs/shop.json" },
        pets: {
          spec: "specs/pets.graphqls",
          documents: "graphql",
          baseUrl: "https://pets.example.com/graphql",
        },
        empty: { baseUrl: "https://shop.example.com" },
      },
    }),
  });
  serving = await serve(workspace.directory, { logger, port: 0, onReload() {} });
});
afterAll(async () => {
  await serving.close();
  await workspace[Symbol.asyncDispose]();
});

const apis = (...words: string[]) => runCli(["apis", ...words], { cwd: workspace.directory });

it("adds an API in one line, and says what was found, left out and is missing", async () => {
  const added = await apis("add", "specs/shop.json");
  expect(added.stderr).toContain("shop: 2 tools of Shop (OpenAPI 3.1.0), named api_shop_….");
  expect(added.stderr).toContain("Left out: 1 operation. See why:");
  expect(added.stderr).toContain(
    'Its entry has no credentials for key. Write them there under "auth", kept as secrets.',
  );
  expect(serving.app.registry.get("api_shop_listPets")?.metadata.readOnly).toBe(true);
  expect(serving.app.registry.get("api_shop_addPet")?.metadata.dangerous).toBe(true);
  const shown = await apis("show", "shop");
  expect(shown.stdout).toContain("odd is left out: Its path has {id}, and no parameter says what that is.");
  expect((await apis("remove", "shop")).stderr).toContain('The API "shop" is removed.');
  expect((await apis("list", "--json")).stdout).not.toContain('"shop"');
});

it("takes credentials and shows them to nobody", async () => {
  await apis("add", "specs/shop.json", "--key", "other", "--auth", "key=a-very-secret-key", "--read-only");
  const { stdout } = await apis("show", "other", "--json");
  expect(JSON.parse(stdout).tools).toHaveLength(1);
  expect(stdout).not.toContain("a-very-secret-key");
});

it("adds nothing when the description cannot be used", async () => {
  const refused = await apis("add", "specs/broken.json");
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("Nothing was added.")]);
  expect((await apis("list", "--json")).stdout).not.toContain("broken");
});

it("lists APIs, and not the MCP servers", async () => {
  expect((await apis()).stdout).toMatch(
    /first +ready +2 \(.*\) +\d+ +api +Shop OpenAPI 3\.1\.0|first +ready +2 +\d+ +api/,
  );
});

it("checks the descriptions of apis.json, or another one, without a server", async () => {
  const all = await apis("check");
  expect(all.stdout).toContain("first: 2 operations (OpenAPI 3.1.0), 1 left out\n  odd is left out:");
  expect(all.stdout).toContain("  It needs credentials: key");
  expect(all.stdout).toContain("pets: 1 operation (GraphQL), 0 left out");
  expect(all.stdout).toContain("empty: It has no spec");
  const broken = await apis("check", "specs/broken.json");
  expect([broken.code, broken.stdout]).toEqual([1, expect.stringContaining("neither JSON nor YAML")]);
});

it("adds an API at which a person signs in, and signs in and out", async () => {
  await using authority = await AuthorizationServer.start({
    behind: "http://127.0.0.1:1",
    isApi: true,
    client: { id: "ours" },
  });
  const { origin } = authority;
  const flow = { authorizationUrl: `${origin}/authorize`, tokenUrl: `${origin}/token`, scopes: {} };
  const notes = {
    openapi: "3.1.0",
    paths: { "/notes": { get: { operationId: "list", security: [{ person: ["use"] }] } } },
    components: { securitySchemes: { person: { type: "oauth2", flows: { authorizationCode: flow } } } },
  };
  await workspace.write("specs/notes.json", JSON.stringify(notes));
  const words = ["--base-url", `${origin}/api`, "--auth", 'person={"clientId":"ours"}'];
  const added = await apis("add", "specs/notes.json", ...words);
  expect(added.stderr).toContain("notes: 1 tool of");
  expect(added.stderr).toContain("Sign in: toolrack apis login notes");
  expect((await apis("show", "notes")).stdout).toContain("sign-in    nobody has signed in");
  let page = "";
  const login = await runCli(["apis", "login", "notes", "--no-open"], {
    cwd: workspace.directory,
    when: {
      says: "code_challenge_method",
      act: ({ stdout }) => {
        stdout.once("data", (line) => {
          page = String(line).trim();
          void authority.agree(page);
        });
      },
    },
  });
  expect(login.stderr).toContain("Signed in. notes: ready");
  expect(page).toContain(`${origin}/authorize?`);
  expect((await apis("show", "notes")).stdout).toContain("sign-in    signed in");
  expect((await apis("logout", "notes")).code).toBe(0);
  expect((await apis("show", "notes")).stdout).toContain("nobody has signed in");
  const wrong = await apis("add", "specs/notes.json", "--key", "other", "--auth", "person={clientId");
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("begins like JSON")]);
  expect((await apis("login", "first")).stderr).toContain("names no client for that");
});

it("opens the APIs of a workspace for a single call where no server runs", async () => {
  const echo = createServer(({ url }, response) =>
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ url })),
  );
  await new Promise<void>((resolve) => echo.listen(0, "127.0.0.1", resolve));
  // A listening server at an address has a port.
  const baseUrl = `http://127.0.0.1:${(echo.address() as AddressInfo).port}`;
  await using alone = await TemporaryWorkspace.create({
    "shop.json": JSON.stringify(shop),
    "apis.json": JSON.stringify({ apis: { shop: { spec: "shop.json", baseUrl } } }),
  });
  const called = await runCli(["call", "api_shop_listPets"], { cwd: alone.directory });
  expect(called.stdout).toContain('"/pets"');
  expect(called.stderr).toMatch(/^Starting 1 API for this command: shop\./);
  expect((await runCli(["list"], { cwd: alone.directory })).stdout).toContain("api_shop_listPets");
  echo.close();
});
