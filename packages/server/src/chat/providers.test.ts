import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Providers } from "./providers.ts";

const reference = (name: string) => `\${${name}}`;

const make = (
  providers: ConstructorParameters<typeof Providers>[0]["providers"],
  environment: Record<string, string> = {},
  model?: string,
) =>
  new Providers({
    providers,
    environment,
    model,
    readSecret: async (name) => (name === "KEPT" ? "from-the-store" : undefined),
  });

describe("a model", () => {
  const two = {
    local: {
      baseURL: "http://127.0.0.1:1/v1/",
      models: ["qwen", { id: "old", toolCalls: "tags", images: false }],
    },
    far: { baseURL: "https://models.example/v1", models: ["big"], contextTokens: 200_000 },
  } as const;

  it("is found by its name, or with its provider's before it", async () => {
    const providers = make(two);
    expect(await providers.resolve("big")).toMatchObject({
      provider: "far",
      model: "big",
      contextTokens: 200_000,
    });
    expect(await providers.resolve("local/other/name")).toMatchObject({
      provider: "local",
      model: "other/name",
    });
    expect(await providers.resolve("old")).toMatchObject({ toolCalls: "tags", images: false });
    expect(await providers.resolve(undefined)).toMatchObject({
      model: "qwen",
      baseURL: "http://127.0.0.1:1/v1",
    });
    expect(await make(two, {}, "far/big").resolve("")).toMatchObject({ provider: "far" });
    await expect(providers.resolve("nothing")).rejects.toThrow("There are: local/qwen, local/old, far/big.");
  });

  it("may be any where a provider does not list its own", async () => {
    const providers = make({}, { OPENAI_API_KEY: "sk-1" });
    expect(await providers.resolve("gpt-x")).toMatchObject({
      provider: "openai",
      baseURL: "https://api.openai.com/v1",
      apiKey: "sk-1",
    });
    const own = make({}, { OPENAI_BASE_URL: "http://127.0.0.1:1/v1" });
    expect(await own.resolve("x")).toMatchObject({ baseURL: "http://127.0.0.1:1/v1", apiKey: undefined });
  });

  it("cannot be had without a provider, or without its key", async () => {
    await expect(make({}).resolve("x")).rejects.toMatchObject({ code: "provider_missing" });
    const keyed = (apiKey: string, environment = {}) =>
      make(
        { p: { baseURL: "https://x.example", apiKey, headers: { "x-org": `a-${reference("ORG")}` } } },
        { ORG: "1", ...environment },
      );
    expect(await keyed(reference("KEY"), { KEY: "k" }).resolve("m")).toMatchObject({
      apiKey: "k",
      headers: { "x-org": "a-1" },
    });
    expect(await keyed(reference("secret:KEPT")).resolve("m")).toMatchObject({ apiKey: "from-the-store" });
    await expect(keyed(reference("KEY")).resolve("m")).rejects.toThrow("Set the variable KEY.");
    await expect(keyed(reference("secret:LOST")).resolve("m")).rejects.toThrow("toolrack secrets set LOST");
  });
});

it("lists what can be listed", async () => {
  const providers = make({
    down: { baseURL: "http://127.0.0.1:1/v1" },
    up: { baseURL: "http://127.0.0.1:1/v1", models: ["a"] },
  });
  expect(await providers.list()).toEqual([{ id: "up/a", provider: "up" }]);
});

describe("a name that begins like a provider's", () => {
  let server: Server;
  let listed: string[] = [];
  let asked = 0;
  beforeEach(async () => {
    asked = 0;
    server = createServer((_incoming, outgoing) => {
      asked++;
      outgoing.end(JSON.stringify({ data: listed.map((id) => ({ id })) }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  });
  afterEach(() => void server.close());
  const address = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const found = async (providers: Providers, name: string | undefined) => {
    const { provider, model } = await providers.resolve(name);
    return [provider, model];
  };

  it("is that of the model where the only provider lists it so, and every listed id leads to itself", async () => {
    listed = ["openai/gpt-4o", "gpt-4o", "mistral/small"];
    const providers = make({}, { OPENAI_BASE_URL: address() });
    for (const { id } of await providers.list()) expect(await found(providers, id)).toEqual(["openai", id]);
    expect(await found(providers, "openai/openai/gpt-4o")).toEqual(["openai", "openai/gpt-4o"]);
    expect(await found(providers, "openai/mistral/small")).toEqual(["openai", "mistral/small"]);
    expect(await found(providers, "openai/other")).toEqual(["openai", "other"]);
    expect(await found(providers, undefined)).toEqual(["openai", "openai/gpt-4o"]);
    expect(await providers.reopen("openai", "gpt-4o")).toMatchObject({ provider: "openai", model: "gpt-4o" });
    await expect(providers.reopen("gone", "gpt-4o")).rejects.toThrow("no longer configured");
    expect(asked).toBe(1);
  });

  it("is that of a provider where there are several, unless only a model is called so", async () => {
    listed = ["openai/gpt-4o", "small"];
    const providers = make({
      openai: { baseURL: address() },
      local: { baseURL: "http://127.0.0.1:1/v1", models: ["openai/own", "x"] },
    });
    for (const { id, provider } of await providers.list()) {
      expect(await found(providers, id)).toEqual([provider, id.slice(provider.length + 1)]);
    }
    expect(await found(providers, "openai/small")).toEqual(["openai", "small"]);
    expect(await found(providers, "openai/gpt-4o")).toEqual(["openai", "openai/gpt-4o"]);
    expect(await found(providers, "openai/own")).toEqual(["local", "openai/own"]);
    expect(await found(providers, "local/any")).toEqual(["local", "any"]);
  });
});

describe("an address", () => {
  it("with a password is not asked, wherever it comes from, and the password is not shown", async () => {
    const address = "http://user:PASSWORDX@127.0.0.1:1/v1";
    for (const providers of [
      make({}, { OPENAI_BASE_URL: address }),
      make({ p: { baseURL: reference("BASE") } }, { BASE: address }),
    ]) {
      const error = (await providers.resolve("m").catch((thrown) => thrown)) as Error;
      expect(error).toMatchObject({ code: "provider_missing", message: expect.stringContaining("headers") });
      expect(error.message).not.toContain("PASSWORDX");
    }
  });

  it("is shown unfilled where models cannot be listed", async () => {
    const providers = make({ p: { baseURL: `http://127.0.0.1:1/v1/${reference("secret:KEPT")}` } });
    const error = (await providers.resolve(undefined).catch((thrown) => thrown)) as Error;
    expect(error.message).toBe(
      `The model provider "p" (http://127.0.0.1:1/v1/${reference("secret:KEPT")}) does not list its models: bad port.`,
    );
  });
});
