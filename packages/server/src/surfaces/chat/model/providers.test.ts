import { describe, expect, it } from "vitest";
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
