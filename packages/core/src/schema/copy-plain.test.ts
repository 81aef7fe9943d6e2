import vm from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { copyPlain, tooMuchJson, withoutPrototypeKeys } from "./copy.ts";
import { UnsafeValue } from "./issue.ts";

const polluted = () =>
  JSON.parse('{"a":{"__proto__":{"admin":true},"b":1},"list":[{"__proto__":1}],"__proto__":{"x":1}}');

describe("copyPlain", () => {
  it("makes an equal copy that shares nothing", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const before = JSON.stringify(value);
        const copy = copyPlain(value);
        expect(JSON.stringify(copy)).toBe(before.includes("__proto__") ? JSON.stringify(copy) : before);
        if (typeof copy === "object" && copy !== null) expect(copy).not.toBe(value);
        expect(JSON.stringify(value)).toBe(before);
      }),
    );
  });

  it("drops own __proto__ keys and undefined members at every depth", () => {
    expect(JSON.stringify(copyPlain(polluted()))).toBe('{"a":{"b":1},"list":[{}]}');
    expect(Object.keys(copyPlain({ a: undefined, b: { c: undefined } }) as object)).toEqual(["b"]);
    expect(Object.getPrototypeOf(copyPlain(polluted()))).toBe(Object.prototype);
  });

  it("copies objects without prototype, of other realms and of classes as plain objects", () => {
    class Point {
      x = 1;
      get y() {
        return 2;
      }
    }
    const bare = Object.assign(Object.create(null), { a: 1 });
    const foreign = vm.runInNewContext("({ a: { b: [1] } })");
    const copy = copyPlain({ bare, foreign, point: new Point() }) as Record<string, object>;
    expect(copy).toEqual({ bare: { a: 1 }, foreign: { a: { b: [1] } }, point: { x: 1 } });
    for (const part of Object.values(copy)) expect(Object.getPrototypeOf(part)).toBe(Object.prototype);
  });

  it("leaves dates, maps and bytes as they are", () => {
    const value = { date: new Date(), map: new Map(), bytes: new Uint8Array(2) };
    const copy = copyPlain(value) as typeof value;
    expect(copy.date).toBe(value.date);
    expect(copy.map).toBe(value.map);
    expect(copy.bytes).toBe(value.bytes);
  });

  it("refuses circular, endless and huge values, saying where", () => {
    const circular: Record<string, unknown> = { list: [{ name: "x" }] };
    (circular.list as unknown[]).push({ self: circular, again: circular });
    expect(issueOf(() => copyPlain(circular))).toMatchObject({ path: "list[1].self" });
    expect(issueOf(() => withoutPrototypeKeys(circular))).toMatchObject({ path: "list[1].self" });

    let deep: unknown = {};
    for (let level = 0; level < 100_000; level++) deep = { a: deep };
    expect(issueOf(() => copyPlain(deep)).expected).toBe("at most 500 levels of nesting");

    let wide: unknown = "x";
    for (let level = 0; level < 40; level++) wide = [wide, wide];
    expect(issueOf(() => copyPlain(wide)).expected).toContain("members");
    expect(issueOf(() => copyPlain(new Array(2 ** 32 - 1))).expected).toContain("members");
  });

  it("copies a part that appears twice both times", () => {
    const shared = { x: 1 };
    const copy = copyPlain([shared, shared]) as object[];
    expect(copy).toEqual([{ x: 1 }, { x: 1 }]);
    expect(copy[0]).not.toBe(copy[1]);
  });
});

describe("withoutPrototypeKeys", () => {
  it("gives back a harmless value itself", () => {
    const value = { a: [{ b: 1 }], date: new Date() };
    expect(withoutPrototypeKeys(value)).toBe(value);
  });

  it("copies where it has to, and leaves instances of classes alone", () => {
    class Secret {}
    const secret = new Secret();
    const value = { ...polluted(), secret };
    const clean = withoutPrototypeKeys(value) as Record<string, unknown>;
    expect(JSON.stringify(clean)).toBe('{"a":{"b":1},"list":[{}],"secret":{}}');
    expect(clean.secret).toBe(secret);
    expect(Object.hasOwn(value.a, "__proto__")).toBe(true);
  });
});

function issueOf(run: () => unknown) {
  try {
    run();
  } catch (error) {
    if (error instanceof UnsafeValue) return error.issue;
    throw error;
  }
  throw new Error("it was not refused");
}

describe("tooMuchJson", () => {
  it("finds brackets and keys beyond what is read, and only those outside of texts", () => {
    const keys = (count: number) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1])));
    const filler = JSON.stringify("x".repeat(70_000));
    expect(tooMuchJson(`[${filler},${"[".repeat(500)}`)).toBe("more than 500 levels of nesting");
    expect(tooMuchJson(`[${filler},${"[".repeat(499)}`)).toBeUndefined();
    expect(tooMuchJson("[{},".repeat(400) + filler)).toBeUndefined();
    expect(tooMuchJson(keys(100_001))).toBe("more than 100,000 keys");
    expect(tooMuchJson(keys(100_000))).toBeUndefined();
    expect(tooMuchJson(JSON.stringify({ text: '\\"[:{'.repeat(200_000) }))).toBeUndefined();
  });
});
