import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { z } from "zod";
import { type Serving, serve } from "../../rack/serve.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { TestServer } from "../server.fixture.ts";

let server: TestServer;
beforeAll(async () => {
  vi.stubEnv("TOOLRACK_KEYRING", "off");
  server = await TestServer.start();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  vi.unstubAllEnvs();
});

const put = (name: string, body: unknown) =>
  server.ask(`/api/secrets/${encodeURIComponent(name)}`, { method: "PUT", body });

it("sets, replaces, lists and deletes secrets without ever showing a value", async () => {
  const first = await put("API_KEY", { value: "first-value" });
  expect(first.body).toEqual({
    name: "API_KEY",
    createdAt: expect.any(Number),
    updatedAt: expect.any(Number),
  });
  const second = await put("API_KEY", { value: "second-value" });
  expect(second.body.createdAt).toBe(first.body.createdAt);
  await put("weather/API_KEY", { value: "third-value" });

  const text = await (await server.fetch("/api/secrets")).text();
  expect(text).not.toContain("value");
  expect(JSON.parse(text).items.map(({ name }: { name: string }) => name)).toEqual([
    "API_KEY",
    "weather/API_KEY",
  ]);

  const path = `/api/secrets/${encodeURIComponent("weather/API_KEY")}`;
  expect((await server.ask(path, { method: "DELETE" })).body).toEqual({ name: "weather/API_KEY" });
  const again = await server.ask(path, { method: "DELETE" });
  expect([again.status, again.body.error.code]).toEqual([404, "secret_not_found"]);
});

it("refuses names and values that cannot be kept, without repeating a value", async () => {
  const tooLong = "long-secret ".repeat(10_000);
  for (const [name, value] of [
    ["1st", "abc-secret"],
    ["a b", "abc-secret"],
    ["a/b/c", "abc-secret"],
    ["LONG", tooLong],
  ] as const) {
    const { status, body } = await put(name, { value });
    expect([name, status, body.error.code]).toEqual([name, 400, "secret_invalid"]);
    expect(JSON.stringify(body)).not.toContain("-secret");
  }
  for (const body of [{}, { value: "" }, { value: 7 }, { value: "x", more: 1 }]) {
    expect((await put("OK", body)).body.error.code).toBe("invalid_request");
  }
  expect((await server.ask("/api/secrets/OK")).body.error.code).toBe("method_not_allowed");
});

it("keeps a value that is set for an alias under the name of its tool", async () => {
  const parameters = z.object({});
  const execute = async () => "";
  await using other = await TestServer.start({
    tools: [Tool.define({ name: "opened", aliases: ["unlocked"], description: "d", parameters, execute })],
  });
  for (const [kind, value] of [
    ["secrets", "long-enough"],
    ["settings", "5000"],
  ] as const) {
    const path = `/api/${kind}/${encodeURIComponent(`unlocked/${kind}`)}`;
    const { body } = await other.ask(path, { method: "PUT", body: { value } });
    expect(body.name).toBe(`opened/${kind}`);
  }
});

it("masks a value from the moment it is set", async () => {
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
  });
  const say = () => {};
  const logger = { debug: say, info: say, warn: say, error: say };
  const serving: Serving = await serve(workspace.directory, { logger, port: 0 });
  try {
    serving.app.registry.register(
      Tool.define({
        name: "tells",
        description: "Tells.",
        parameters: z.object({}),
        execute: async () => ["k3y", "of", "the", "house"].join("-"),
      }),
    );
    const headers = { authorization: `Bearer ${serving.token}`, "content-type": "application/json" };
    const ask = async (method: string, path: string, body: object) =>
      (await fetch(serving.url + path, { method, headers, body: JSON.stringify(body) })).text();
    expect(await ask("POST", "/api/tools/tells/calls", {})).toContain("k3y-of-the-house");
    await ask("PUT", "/api/secrets/HOUSE", { value: "k3y-of-the-house" });
    expect(await ask("POST", "/api/tools/tells/calls", {})).not.toContain("k3y-of-the-house");
  } finally {
    await serving.close();
  }
});
