import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ProviderError } from "./errors.ts";
import { Providers } from "./providers.ts";

const reference = (name: string) => `\${${name}}`;

const make = (
  providers: ConstructorParameters<typeof Providers>[0]["providers"],
  environment: Record<string, string> = {},
  model?: string,
  models?: ConstructorParameters<typeof Providers>[0]["models"],
) =>
  new Providers({
    providers,
    environment,
    model,
    models,
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
    expect(await providers.resolve("local/old")).toMatchObject({ provider: "local", model: "old" });
    expect(await providers.resolve("old")).toMatchObject({ toolCalls: "tags", images: false });
    expect(await providers.resolve(undefined)).toMatchObject({
      model: "qwen",
      url: { origin: "http://127.0.0.1:1", path: "/v1", query: "" },
    });
    expect(await make(two, {}, "far/big").resolve("")).toMatchObject({ provider: "far" });
    await expect(providers.resolve("nothing")).rejects.toThrow("There are: local/qwen, local/old, far/big.");
  });

  it("may be any where a provider does not list its own", async () => {
    const providers = make({}, { OPENAI_API_KEY: "sk-1" });
    expect(await providers.resolve("gpt-x")).toMatchObject({
      provider: "openai",
      url: { origin: "https://api.openai.com", path: "/v1", query: "" },
      apiKey: "sk-1",
    });
    const own = make({}, { OPENAI_BASE_URL: "http://127.0.0.1:1/v1" });
    const url = { origin: "http://127.0.0.1:1", path: "/v1", query: "" };
    expect(await own.resolve("x")).toMatchObject({ url, apiKey: undefined });
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

describe("a model that nobody has", () => {
  const local = { baseURL: "http://127.0.0.1:1/v1", models: ["qwen"] };
  const found = async (providers: Providers, name: string) => {
    const { provider, model } = await providers.resolve(name);
    return [provider, model];
  };

  it("is not found, also when its provider is named", async () => {
    const providers = make({ local });
    for (const name of ["nothing", "local/nothing"]) {
      await expect(providers.resolve(name)).rejects.toMatchObject({
        code: "model_not_found",
        message: expect.stringContaining("catchAll"),
      });
    }
  });

  it("is asked for at the provider that takes all", async () => {
    const any = { baseURL: "http://127.0.0.1:1/v1", models: ["big"], catchAll: true };
    const providers = make({ local, any });
    expect(await found(providers, "nothing")).toEqual(["any", "nothing"]);
    expect(await found(providers, "any/of/them")).toEqual(["any", "of/them"]);
    expect(await found(providers, "qwen")).toEqual(["local", "qwen"]);
    await expect(providers.resolve("local/nothing")).rejects.toMatchObject({ code: "model_not_found" });
  });

  it("may still be at a provider that does not list its models, which is asked for the list once a minute", async () => {
    let asked = 0;
    const server = createServer((_incoming, outgoing) => {
      asked++;
      outgoing.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    const providers = make({ local, silent: { baseURL } });
    for (let at = 0; at < 3; at++) expect(await found(providers, "nothing")).toEqual(["silent", "nothing"]);
    expect(await found(providers, "silent/x")).toEqual(["silent", "x"]);
    expect(asked).toBe(1);
    await expect(providers.resolve("local/nothing")).rejects.toMatchObject({ code: "model_not_found" });
    server.close();
  });
});

describe("a name for several models", () => {
  const provider = { baseURL: "http://127.0.0.1:1/v1", models: ["big", "small"] };
  const keyless = { ...provider, apiKey: reference("MISSING_KEY") };
  const providers = () =>
    make({ one: provider, two: provider, keyless }, {}, "best", {
      best: ["one/big", "keyless/big", "two/big", "two/lost"],
      lost: ["one/lost"],
    });
  const order = async (all: Providers) => {
    const { alternatives = [], ...first } = await all.resolve(undefined);
    return [first, ...alternatives].map((one) => `${one.provider}/${one.model}`);
  };
  const failed = (retryAfter?: number) => new ProviderError("failed", "one", "away", {}, retryAfter);
  const one = { provider: "one", model: "big" };
  const two = { provider: "two", model: "big" };
  afterEach(() => void vi.useRealTimers());

  it("leads to those that can be asked, in their order", async () => {
    expect(await order(providers())).toEqual(["one/big", "two/big"]);
    await expect(providers().resolve("lost")).rejects.toMatchObject({ code: "model_not_found" });
  });

  it("leads to one that failed only after the others, for a time that grows with its failures", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const all = providers();
    const minutes = (count: number) => vi.setSystemTime(Date.now() + count * 60_000);
    all.health.noteFailure(one, failed());
    // Requests that failed at the same time count once.
    all.health.noteFailure(one, failed());
    expect(await order(all)).toEqual(["two/big", "one/big"]);
    minutes(0.51);
    expect(await order(all)).toEqual(["one/big", "two/big"]);
    all.health.noteFailure(one, failed());
    minutes(0.51);
    expect(await order(all)).toEqual(["two/big", "one/big"]);
    all.health.noteFailure(two, failed(3600));
    expect(await order(all)).toEqual(["one/big", "two/big"]);
    minutes(30);
    expect(await order(all)).toEqual(["one/big", "two/big"]);
    all.health.noteSuccess(two);
    all.health.noteFailure(one, failed());
    expect(await order(all)).toEqual(["two/big", "one/big"]);
  });

  it("is listed with how each of them is", async () => {
    const all = providers();
    all.health.noteFailure(one, failed());
    const [best] = await all.list();
    expect(best).toMatchObject({
      id: "best",
      providers: [
        { id: "one/big", health: "cooling", reason: "away", until: expect.any(Number) },
        { id: "keyless/big", health: "missing", reason: expect.stringContaining("MISSING_KEY") },
        { id: "two/big", health: "ok" },
        { id: "two/lost", health: "missing" },
      ],
    });
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
    expect(await found(providers, "local/x")).toEqual(["local", "x"]);
    await expect(found(providers, "local/any")).rejects.toMatchObject({ code: "model_not_found" });
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
      `The model provider "p" (http://127.0.0.1:1/v1/${reference("secret:KEPT")}) cannot be reached: ECONNREFUSED.`,
    );
  });
});
