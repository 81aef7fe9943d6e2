import { afterAll, beforeAll, expect, it } from "vitest";
import { TestServer } from "../server.fixture.ts";

let server: TestServer;
let limited: string;

const offers = `import { Prompt, Resource } from "@toolrack/core";
export const all = [
  Prompt.define({ name: "greet", arguments: [{ name: "who", required: true }], messages: ({ who }) => "Hello " + who }),
  Prompt.define({ name: "broken", messages: () => { throw new Error("no words today"); } }),
  Resource.define({ uri: "note://one", name: "one", mimeType: "text/plain", read: () => "first" }),
  Resource.define({ uriTemplate: "many://{id}", name: "many", read: ({ id }) => "number " + id }),
];
`;

beforeAll(async () => {
  server = await TestServer.start({ files: { "tools/offers.ts": offers } });
  limited = await server.issue({ tools: ["none"] }, { name: "limited" });
});
afterAll(() => server[Symbol.asyncDispose]());

it("lists prompts, and gives the messages of one", async () => {
  const { body } = await server.ask("/api/prompts");
  expect(body.items).toMatchObject([{ name: "broken" }, { name: "greet", arguments: [{ name: "who" }] }]);
  const asked = { method: "POST", body: { arguments: { who: "Ada" } } };
  expect((await server.ask("/api/prompts/greet", asked)).body.messages).toEqual([
    { role: "user", content: { type: "text", text: "Hello Ada" } },
  ]);
});

it("says what is missing and what failed", async () => {
  const post = { method: "POST", body: {} };
  const missing = await server.ask("/api/prompts/nothing", post);
  expect([missing.status, missing.body.error.code]).toEqual([404, "prompt_not_found"]);
  const broken = await server.ask("/api/prompts/broken", post);
  expect([broken.status, broken.body.error.code]).toEqual([502, "offering_failed"]);
  expect(broken.body.error.message).toContain("no words today");
  const nowhere = await server.ask("/api/resources/content?uri=note://two");
  expect([nowhere.status, nowhere.body.error.code]).toEqual([404, "resource_not_found"]);
});

it("lists resources and templates, and reads both", async () => {
  const { body } = await server.ask("/api/resources");
  expect(body.items).toMatchObject([
    { uri: "note://one", mimeType: "text/plain" },
    { uriTemplate: "many://{id}" },
  ]);
  const read = async (uri: string) =>
    (await server.ask(`/api/resources/content?uri=${encodeURIComponent(uri)}`)).body.contents[0];
  expect(await read("note://one")).toMatchObject({ uri: "note://one", text: "first" });
  expect(await read("many://7")).toMatchObject({ text: "number 7" });
});

it("hides from a limited token what it may not use", async () => {
  const ask = (path: string, more: object = {}) => server.ask(path, { token: limited, ...more });
  expect((await ask("/api/prompts")).body.items).toEqual([]);
  expect((await ask("/api/resources")).body.items).toEqual([]);
  expect((await ask("/api/prompts/greet", { method: "POST", body: {} })).status).toBe(404);
  expect((await ask("/api/resources/content?uri=note://one")).status).toBe(404);
  expect((await ask("/api/resources/content?uri=many://7")).status).toBe(404);
});
