import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { TestServer } from "../server.fixture.ts";

let server: TestServer;

const tool = (name: string, description: string) =>
  Tool.define({ name, description, parameters: { type: "object" }, execute: () => "" });

beforeAll(async () => {
  server = await TestServer.start({
    files: {
      "tools/tidy.js": `// toolrack lint off: description_vague
        module.exports = { name: "tidy", description: "TODO", inputSchema: { type: "object" }, handler: async () => "" };`,
    },
    tools: [
      tool("get_weather", "Gets the weather for a place on the map."),
      tool("fetch_weather", "Fetches the weather for a place on the map."),
      tool("empty", ""),
    ],
  });
});
afterAll(() => server[Symbol.asyncDispose]());

it("answers what is found, for all tools or for those of a pattern", async () => {
  const { status, body } = await server.ask("/api/lint?tools=*_weather");
  expect(status).toBe(200);
  expect(body).toMatchObject({
    total: 1,
    tools: 2,
    items: [{ code: "near_twin", remedy: expect.any(String) }],
  });
  const one = await server.ask("/api/lint?tools=empty");
  expect(one.body.items).toEqual([
    { code: "description_missing", tool: "empty", reason: expect.any(String), remedy: expect.any(String) },
  ]);
  const all = await server.ask("/api/lint?limit=1");
  expect(all.body.items).toHaveLength(1);
  expect(all.body.total).toBeGreaterThan(1);
});

it("tells of the twin on the page of either tool", async () => {
  for (const [name, twin] of [
    ["get_weather", "fetch_weather"],
    ["fetch_weather", "get_weather"],
  ])
    expect((await server.ask(`/api/lint?tools=${name}`)).body.items).toMatchObject([{ tool: name, twin }]);
});

it("obeys comments of tool files, and follows the rack", async () => {
  expect((await server.ask("/api/lint?tools=internal_*")).body).toMatchObject({ total: 0 });
  server.app.registry.update("empty", { description: "Counts the stars of a galaxy." });
  expect((await server.ask("/api/lint?tools=empty")).body.items).toEqual([]);
});

it("tells a limited token nothing of tools that it may not use", async () => {
  const token = await server.issue({ tools: ["get_weather"] });
  const { body } = await server.ask("/api/lint", { token });
  expect(body).toEqual({ items: [], total: 0, tools: 1 });
});

it("tells all about one tool in one answer, and values only to admins", async () => {
  await server.ask("/api/settings/REGION", { method: "PUT", body: { value: "eu" } });
  await server.ask("/api/secrets/get_weather%2FKEY", { method: "PUT", body: { value: "long enough" } });
  await server.ask("/api/settings/other%2FREGION", { method: "PUT", body: { value: "us" } });
  const { body } = await server.ask("/api/tools/get_weather?about=true");
  expect(body.about).toEqual({
    findings: [expect.objectContaining({ code: "near_twin" })],
    values: [expect.objectContaining({ name: "REGION", value: "eu" }), { name: "get_weather/KEY" }],
  });
  const token = await server.issue({ tools: ["get_weather"] });
  expect((await server.ask("/api/tools/get_weather?about=true", { token })).body.about).toEqual({
    findings: [],
  });
  expect((await server.ask("/api/tools/get_weather")).body.about).toBeUndefined();
});
