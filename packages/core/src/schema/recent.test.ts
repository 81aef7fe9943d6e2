import { describe, expect, it } from "vitest";
import { Recent } from "./json-schema-validator.ts";

describe("Recent", () => {
  it("makes a value once and forgets the one not used for longest", () => {
    const recent = new Recent<number>(2);
    let made = 0;
    const get = (key: string) => recent.get(key, () => ++made);
    expect([get("a"), get("b"), get("a"), get("c"), get("a"), get("b")]).toEqual([1, 2, 1, 3, 1, 4]);
    expect(recent.size).toBe(2);
  });

  it("remembers nothing of a value that could not be made", () => {
    const recent = new Recent<number>(2);
    expect(() =>
      recent.get("a", () => {
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(recent.get("a", () => 1)).toBe(1);
  });
});
