import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileSchema } from "./compile-schema.ts";
import { isMultipleOf } from "./json-schema-validator.ts";

describe("isMultipleOf", () => {
  it.each([
    [19.99, 0.01],
    [4.35, 0.05],
    [0.3, 0.1],
    [-19.99, 0.01],
    [0, 0.1],
    [-0, 7],
    [123_456_789.99, 0.01],
    [9_007_199_254_740_991, 1],
    [1e300, 1e299],
    [1e300, 0.5],
    [12_391_239_123, 1e-8],
    [3e-7, 1e-7],
    [5e-324, 5e-324],
    [7.5, 2.5],
    [35, 5],
  ])("%d is a multiple of %d", (value, divisor) => {
    expect(isMultipleOf(value, divisor)).toBe(true);
  });

  it.each([
    [19.995, 0.01],
    [4.36, 0.05],
    [0.30000000000000004, 0.1],
    [1e-9, 1],
    [0.00751, 0.0001],
    [1e308, 0.123456789],
    [9_007_199_254_740_991, 2],
    [2.5, 1e300],
    [36, 5],
    [Number.POSITIVE_INFINITY, 1],
    [Number.NaN, 1],
  ])("%d is no multiple of %d", (value, divisor) => {
    expect(isMultipleOf(value, divisor)).toBe(false);
  });

  it("knows every price in cents, of any size that a number holds exactly enough", () => {
    fc.assert(
      fc.property(fc.integer({ min: -1e13, max: 1e13 }), (cents) => {
        expect(isMultipleOf(Number(`${cents}e-2`), 0.01)).toBe(true);
        expect(isMultipleOf(Number(`${cents}5e-3`), 0.01)).toBe(false);
      }),
    );
  });
});

describe("multipleOf in a JSON Schema", () => {
  it.each(["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"])(
    "counts in decimals, as people write them, in %s",
    async ($schema) => {
      const price = { type: "number", multipleOf: 0.01 };
      const schema = { $schema, type: "object", properties: { price } };
      expect(await compileSchema(schema).validate({ price: 19.99 })).toMatchObject({ ok: true });
      expect(await compileSchema(schema).validate({ price: 19.995 })).toMatchObject({
        ok: false,
        issues: [{ path: "price", expected: "number, a multiple of 0.01", received: "number 19.995" }],
      });
    },
  );
});
