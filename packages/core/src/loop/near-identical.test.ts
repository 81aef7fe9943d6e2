import { describe, expect, it } from "vitest";
import { argumentTokens, similarity } from "./arguments.ts";

const alike = (one: unknown, other: unknown) => similarity(argumentTokens(one), argumentTokens(other));

describe("near-identical arguments", () => {
  it("are those with the same words in another order, case or punctuation", () => {
    expect(alike({ query: "Proxy settings, build server" }, { query: "build-server proxy SETTINGS" })).toBe(
      1,
    );
  });

  it("are measured by the words they share, without the names of the arguments", () => {
    expect(alike({ query: "one two three" }, { query: "one two four" })).toBe(0.5);
    expect(alike({ query: "one", limit: 5 }, { query: "two", limit: 6 })).toBe(0);
  });

  it("may be nested and in any script", () => {
    expect(alike({ a: [{ b: "代理 设置" }] }, { c: "设置 代理" })).toBe(1);
  });

  it("cost a bounded amount, whatever their size and depth", () => {
    const huge = Array.from({ length: 5000 }, (_, index) => `word${index}`);
    expect(argumentTokens(huge).length).toBe(128);
    const ring: unknown[] = [];
    ring.push(ring);
    expect(argumentTokens(ring)).toEqual([]);
  });

  it("are equal when both are empty", () => {
    expect(alike({}, {})).toBe(1);
  });
});
