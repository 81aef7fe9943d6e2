import { describe, expect, it } from "vitest";
import { resolveEnvironment, setCommand } from "./settings.ts";

const schema = {
  type: "object",
  properties: {
    KEY: { type: "string", description: "the key", writeOnly: true },
    LIMIT: { type: "number", minimum: 10, default: 50 },
    COUNT: { type: "integer" },
    VERBOSE: { type: "boolean" },
    LIST: { type: "array", items: { type: "string" } },
    MODE: { enum: ["a", "b"] },
  },
  required: ["KEY"],
};

function resolve(set: Record<string, string>, isLenient = false) {
  return resolveEnvironment({ tool: "t", schema, lookUp: async (name) => set[name], isLenient });
}

describe("the environment of a tool", () => {
  it("has the types that it declares, and its defaults", async () => {
    expect(await resolve({ KEY: "123", COUNT: " 7 ", VERBOSE: "yes", LIST: '["x"]', MODE: "b" })).toEqual({
      KEY: "123",
      LIMIT: 50,
      COUNT: 7,
      VERBOSE: true,
      LIST: ["x"],
      MODE: "b",
    });
    expect(await resolve({ KEY: "k", LIMIT: "12.5", VERBOSE: "0" })).toMatchObject({
      LIMIT: 12.5,
      VERBOSE: false,
    });
  });

  it("names what is missing, what it is for and the command that sets it", async () => {
    await expect(resolve({})).rejects.toMatchObject({
      code: "business_error",
      message: expect.stringMatching(/MISSING_ENV_VAR.*KEY \(the key\).*toolrack secrets set t KEY/),
      data: { code: "MISSING_ENV_VAR", missing: ["KEY"] },
    });
  });

  it.each<Record<string, string>>([
    { LIMIT: "5" },
    { LIMIT: "many" },
    { COUNT: "1.5" },
    { VERBOSE: "perhaps" },
    { LIST: "not json" },
    { MODE: "c" },
  ])("names %j as wrong, without the value", async (wrong) => {
    const [[name, value]] = Object.entries(wrong) as [[string, string]];
    const error = await resolve({ KEY: "k", ...wrong }).catch((thrown) => thrown);
    expect(error.data).toMatchObject({ code: "INVALID_ENV_VAR", wrong: [name] });
    expect(error.message).toContain(`toolrack settings set t ${name}`);
    expect(error.message).not.toMatch(new RegExp(`\\b${value}\\b`));
  });

  it("is taken as far as it goes for a dry run", async () => {
    expect(await resolve({ COUNT: "3" }, true)).toEqual({ LIMIT: 50, COUNT: 3 });
  });
});

it.each([
  ["settings", "TIMEOUT", { type: "number" }],
  ["secrets", "PIN", { type: "string", format: "password" }],
  ["secrets", "PIN", { writeOnly: true }],
  // The schema of the seed says nothing about its API_KEY.
  ["secrets", "API_KEY", { type: "string" }],
])("is set with toolrack %s for %s", (kind, name, property) => {
  expect(setCommand("t", name, property)).toBe(`toolrack ${kind} set t ${name}`);
});
