import { compileSchema } from "@toolrack/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { configSchema } from "./config.ts";
import { surelyFits } from "./surely-fits.ts";

const judge = compileSchema(configSchema);
const values = fc.oneof(
  fc.constantFrom(true, false, 0, 1, 2, 3, 80, 1024, 65_536, -1, 0.5, "", "on", "off", "main", null),
  fc.array(fc.constantFrom("tools", "", 1), { maxLength: 2 }),
  fc.dictionary(fc.constantFrom("main", "port", "host", "level"), fc.constantFrom("x", 2, true), {
    maxKeys: 2,
  }),
);
const groups = configSchema as { properties: Record<string, { properties?: Record<string, unknown> }> };
const keys = Object.keys(groups.properties);
/** Configs with real keys, with values that sometimes fit. */
const configs = fc
  .subarray([...keys, "unknown"], { maxLength: 3 })
  .chain((chosen) => fc.record(Object.fromEntries(chosen.map((key) => [key, valueFor(key)]))));

function valueFor(key: string): fc.Arbitrary<unknown> {
  const inner = Object.keys(groups.properties[key]?.properties ?? {});
  if (inner.length === 0) return values;
  const members = fc
    .subarray(inner, { minLength: 1, maxLength: Math.min(2, inner.length) })
    .chain((chosen) => fc.record(Object.fromEntries(chosen.map((name) => [name, values]))));
  return fc.oneof({ weight: 4, arbitrary: members }, values);
}

describe("a config that surely fits its schema", () => {
  it("is accepted by the schema's validator too", async () => {
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(configs, async (config) => {
        if (!surelyFits(configSchema, config)) return;
        accepted++;
        expect(await judge.validate(config)).toMatchObject({ ok: true });
      }),
      { numRuns: 2_000 },
    );
    expect(accepted).toBeGreaterThan(100);
  });

  it("is each of the usual ones, so that no validator is loaded for them", () => {
    for (const config of [
      {},
      { builtins: false },
      { tools: ["src/tools"], server: { port: 4000, host: "127.0.0.1" }, timeout: 30 },
      { databases: { main: "sqlite:main.db" }, sandbox: { require: 3 }, permissions: ["*"] },
    ])
      expect([config, surelyFits(configSchema, config)]).toEqual([config, true]);
  });

  it("is none with a wrong type, an unknown key or a number out of bounds", () => {
    for (const config of [
      { toools: [] },
      { timeout: "soon" },
      { server: { port: 70_000 } },
      { server: { port: undefined } },
      { tools: "tools" },
      "no config",
    ])
      expect([config, surelyFits(configSchema, config)]).toEqual([config, false]);
  });
});
