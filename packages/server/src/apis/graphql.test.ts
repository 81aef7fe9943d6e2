import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { buildSchema, graphql, introspectionFromSchema } from "graphql";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createAddressRules } from "../access/index.ts";
import { GraphqlApi } from "./graphql.ts";

const { signal } = new AbortController();
const sdl = `
enum Kind { CAT DOG }
scalar Date
input Filter { kind: Kind, born: Date, and: [Filter!], limit: Int = 10 }
type Pet { id: ID!, name: String!, kind: Kind }
type Query { pet(id: ID!): Pet, pets(filter: Filter): [Pet!]!, broken: String }
type Mutation { rename(id: ID!, name: String!): Pet }
type Subscription { born: Pet }
`;
const documents = {
  "pets.graphql": `
# Finds one pet by its id.
query GetPet($id: ID!) { pet(id: $id) { ...Short } }
query ListPets($filter: Filter = { limit: 3 }) { pets(filter: $filter) { ...Short } }
mutation RenamePet($id: ID!, $name: String!) { rename(id: $id, name: $name) { ...Short } }
`,
  "fragments.graphql": "fragment Short on Pet { id name }",
  "wrong.graphql": "query Wrong { nothing }",
  "live.graphql": "subscription Live { born { id } }",
  "broken.graphql": "query Fails { broken }",
  "syntax.graphql": "query {",
};

const schema = buildSchema(sdl);
const seen: (string | undefined)[] = [];
const rootValue = {
  pet: ({ id }: { id: string }) => ({ id, name: "Rex" }),
  pets: () => [{ id: "1", name: "Rex" }],
  rename: ({ id, name }: { id: string; name: string }) => ({ id, name }),
  broken: () => {
    throw new Error("out of order");
  },
};
const server = createServer(async (request, response) => {
  seen.push(request.headers.authorization);
  if (request.headers.authorization === "Bearer old-token") return void response.writeHead(401).end();
  const { query, variables, operationName } = JSON.parse(await text(request));
  response.setHeader("content-type", "application/json");
  response.end(
    JSON.stringify(
      await graphql({ schema, source: query, rootValue, variableValues: variables, operationName }),
    ),
  );
});
let folder = "";
let endpoint = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "toolrack-graphql-"));
  await mkdir(join(folder, "graphql"));
  for (const [name, content] of Object.entries(documents))
    await writeFile(join(folder, "graphql", name), content);
  await writeFile(join(folder, "schema.graphql"), sdl);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening server at an address has a port.
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
});

afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true, force: true });
});

const usual = {
  credentials: new Map(),
  headers: { authorization: "Bearer token-1" },
  isReadOnly: false,
  rules: createAddressRules(["127.0.0.1"]),
};
const asked = () =>
  GraphqlApi.open(
    { ...usual, spec: { kind: "address", url: new URL(endpoint) } },
    join(folder, "graphql"),
    signal,
  );
const fromFile = () =>
  GraphqlApi.open(
    { ...usual, spec: { kind: "file", path: join(folder, "schema.graphql") }, baseUrl: endpoint },
    join(folder, "graphql"),
    signal,
  );

it.each([
  ["that the API tells", asked],
  ["in a file", fromFile],
])("makes each operation a tool, typed by the schema %s", async (_where, open) => {
  const api = await open();
  expect(api.tools.map(({ name, annotations }) => [name, annotations.readOnlyHint])).toEqual([
    ["Fails", true],
    ["GetPet", true],
    ["ListPets", true],
    ["RenamePet", false],
  ]);
  const [, one, many] = api.tools;
  expect(one).toMatchObject({
    description: "Finds one pet by its id.",
    inputSchema: { properties: { id: { type: "string" } }, required: ["id"], additionalProperties: false },
  });
  expect(many?.inputSchema).toMatchObject({
    properties: { filter: { anyOf: [{ $ref: "#/$defs/Filter" }, { type: "null" }], default: { limit: 3 } } },
    $defs: {
      Filter: {
        properties: {
          kind: { enum: ["CAT", "DOG", null] },
          and: { type: ["array", "null"], items: { $ref: "#/$defs/Filter" } },
        },
      },
    },
  });
  expect(api.skipped).toEqual([
    { name: "syntax.graphql", reason: expect.stringContaining("It cannot be read: Syntax Error") },
    { name: "Live", reason: expect.stringContaining("subscription") },
    { name: "Wrong", reason: expect.stringContaining('Cannot query field "nothing"') },
  ]);
});

it("sends the operation with its fragments and variables, and gives the data", async () => {
  const api = await asked();
  seen.length = 0;
  expect(await api.call("GetPet", { id: "7" }, signal)).toEqual({
    content: [{ type: "text", text: '{"pet":{"id":"7","name":"Rex"}}' }],
    structuredContent: { pet: { id: "7", name: "Rex" } },
  });
  expect((await api.call("ListPets", { filter: { kind: "CAT" } }, signal)).structuredContent).toMatchObject({
    pets: [{ id: "1" }],
  });
  expect(seen).toEqual(["Bearer token-1", "Bearer token-1"]);
});

it("gives an error in the words of the API", async () => {
  expect(await (await asked()).call("Fails", {}, signal)).toMatchObject({
    isError: true,
    content: [{ text: "out of order" }, { text: '{"broken":null}' }],
  });
});

it("refuses a schema that cannot be used, and a file without an address", async () => {
  await writeFile(join(folder, "bad.graphql"), "type {");
  const spec = { kind: "file" as const, path: join(folder, "bad.graphql") };
  const open = (more: object) =>
    GraphqlApi.open({ ...usual, spec, ...more }, join(folder, "graphql"), signal);
  await expect(open({ baseUrl: endpoint })).rejects.toThrow("bad.graphql cannot be used: Syntax Error");
  await expect(open({})).rejects.toThrow('Write it as "baseUrl"');
});

it("sends the entry's credential as a bearer's token, and asks for another once it is refused", async () => {
  const given = ["old-token", "new-token"];
  const refused: string[] = [];
  const person = {
    kind: "person" as const,
    token: async () => given[refused.length] ?? "",
    refuse: (token: string) => refused.push(token) === 1,
  };
  const credentials = new Map([["person", person]]);
  const api = await GraphqlApi.open(
    {
      ...usual,
      headers: {},
      credentials,
      spec: { kind: "file", path: join(folder, "schema.graphql") },
      baseUrl: endpoint,
    },
    join(folder, "graphql"),
    signal,
  );
  expect(api.signIn).toEqual({ server: new URL(endpoint).origin });
  seen.length = 0;
  const { structuredContent } = await api.call("GetPet", { id: "7" }, signal);
  expect(structuredContent).toEqual({ pet: { id: "7", name: "Rex" } });
  expect(seen).toEqual(["Bearer old-token", "Bearer new-token"]);
});

it.each(["data alone", "the whole answer"])(
  "reads a schema that was kept as an introspection: %s",
  async (form) => {
    const data = introspectionFromSchema(schema);
    const path = join(folder, "introspection.json");
    await writeFile(path, JSON.stringify(form === "data alone" ? data : { data }));
    const settings = { ...usual, spec: { kind: "file", path } as const, baseUrl: endpoint };
    const api = await GraphqlApi.open(settings, join(folder, "graphql"), signal);
    expect(api.tools.map(({ name }) => name)).toContain("GetPet");
  },
);
