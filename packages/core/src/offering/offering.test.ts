import { describe, expect, it } from "vitest";
import { DefinitionError } from "../tool/define.ts";
import * as Prompt from "../tool/prompt.ts";
import * as Resource from "../tool/resource.ts";

describe("Prompt.define", () => {
  it("makes a prompt that is recognised, also by another copy of this package", () => {
    const prompt = Prompt.define({ name: "greet", messages: () => "Hello" });
    expect(Prompt.is(prompt)).toBe(true);
    expect(prompt.arguments).toEqual([]);
    expect(Prompt.is({ name: "greet", messages: () => "Hello" })).toBe(false);
    expect(Resource.is(prompt)).toBe(false);
  });

  it.each<[object, string]>([
    [{ name: " ", messages: () => "" }, "name"],
    [{ name: "a" }, "messages"],
    [{ name: "a", messages: () => "", arguments: [{ name: "x" }, { name: "x" }] }, "arguments"],
  ])("refuses what could not be served: %o", (config, field) => {
    expect(() => Prompt.define(config as Prompt.Config)).toThrow(DefinitionError);
    expect(() => Prompt.define(config as Prompt.Config)).toThrow(expect.objectContaining({ field }));
  });
});

describe("Resource.define", () => {
  it("makes fixed resources and templates that are recognised", () => {
    expect(Resource.is(Resource.define({ uri: "note://1", name: "one", read: () => "text" }))).toBe(true);
    expect(
      Resource.is(Resource.define({ uriTemplate: "note://{id}", name: "any", read: ({ id }) => id })),
    ).toBe(true);
  });

  it.each<[object, string]>([
    [{ uri: "note://1", read: () => "" }, "name"],
    [{ uri: "no scheme", name: "a", read: () => "" }, "uri"],
    [{ name: "a", read: () => "" }, "uriTemplate"],
    [{ uri: "note://1", name: "a" }, "read"],
  ])("refuses what could not be served: %o", (config, field) => {
    expect(() => Resource.define(config as unknown as Resource.FixedConfig)).toThrow(
      expect.objectContaining({ field }),
    );
  });
});
