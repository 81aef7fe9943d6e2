import { describe, expect, it } from "vitest";
import { differencesOf, problemsOf, showPair } from "./expectation.ts";
import { type Expectation, secretReference } from "./saved-call.ts";

const told = async (expected: Expectation, value: unknown, ignore: string[] = []) => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return (await problemsOf(expected, { value, text }, ignore)).map(({ kind }) => kind);
};

describe("an expectation", () => {
  it("compares values in any order of keys, and names the paths that differ", async () => {
    expect(await told({ equals: { a: 1, b: [1, 2] } }, { b: [1, 2], a: 1 })).toEqual([]);
    expect(differencesOf({ a: 1, "x/y": [1, { c: 2 }] }, { a: 1, "x/y": [1, { c: 3, d: 4 }] })).toEqual([
      { path: "/x~1y/1/c", expected: 2, actual: 3 },
      { path: "/x~1y/1/d", expected: undefined, actual: 4 },
    ]);
  });

  it("names the line of a long text, and shows where two long values part", () => {
    const lines = Array.from({ length: 200 }, (_, index) => `line ${index}`);
    const other = lines.with(120, "another");
    expect(differencesOf(lines.join("\n"), other.join("\n"))).toEqual([
      { path: "line 121", expected: "line 120", actual: "another" },
    ]);
    const long = "x".repeat(5_000);
    const [left, right] = showPair(`${long}a${long}`, `${long}b${long}`);
    expect(left.length).toBeLessThan(400);
    expect(left).toContain("xa");
    expect(right).toContain("xb");
  });

  it("finds parts of values, and texts", async () => {
    const value = {
      items: [
        { id: 1, name: "a" },
        { id: 2, name: "b" },
      ],
      total: 2,
    };
    expect(await told({ contains: { items: [{ name: "b" }] } }, value)).toEqual([]);
    expect(await told({ contains: { items: [{ name: "c" }] } }, value)).toEqual(["contains"]);
    expect(await told({ contains: "b" }, "abc")).toEqual([]);
    expect(await told({ contains: "x" }, "abc")).toEqual(["contains"]);
  });

  it("checks a schema, a status and a code", async () => {
    expect(await told({ matches: { type: "object", required: ["n"] } }, { n: 1 })).toEqual([]);
    expect(await told({ matches: { type: "object", required: ["n"] } }, {})).toEqual(["matches"]);
    const error = { name: "E", code: "timed_out", message: "late", recoverable: true } as const;
    const failed = { value: "late", text: "late", error };
    expect(await problemsOf({ code: "timed_out" }, failed, [])).toEqual([]);
    expect((await problemsOf({}, failed, []))[0]?.message).toContain("timed_out: late");
    expect((await problemsOf({ code: "cancelled" }, failed, []))[0]?.kind).toBe("code");
    expect(await told({ status: "error" }, "fine")).toEqual(["status"]);
  });

  it("does not compare ids, times and listed places", async () => {
    const value = (id: string, at: string, epoch: number) => ({
      id,
      note: `made ${at}`,
      createdAt: epoch,
      n: [{ v: id }],
    });
    const before = value("5f0c2c6e-8a5b-4c62-9f0b-1c5b5e6f7a81", "2026-01-01T10:00:00Z", 1_767_261_600_000);
    const after = value(
      "b7a3c1d2-0000-4000-8000-000000000001",
      "2026-05-01T10:00:00.123Z",
      1_777_000_000_000,
    );
    expect(await told({ equals: before }, after)).toEqual(["equals"]);
    expect(await told({ equals: before }, after, ["ids", "times"])).toEqual([]);
    expect(await told({ equals: before }, after, ["/id", "/note", "/createdAt", "/n/*/v"])).toEqual([]);
    expect(await told({ snapshot: null }, after)).toEqual(["snapshot"]);
  });

  it("takes a reference to a secret for any text", async () => {
    const [key, other] = [secretReference("KEY"), secretReference("OTHER")];
    expect(await told({ equals: { key } }, { key: "[redacted]" })).toEqual([]);
    expect(await told({ equals: { key } }, { key: { a: 1 } })).toEqual([]);
    expect(await told({ equals: `Bearer ${key} of ${other}.` }, "Bearer x of y.")).toEqual([]);
    expect(await told({ equals: `Bearer ${key} of ${other}.` }, "Basic x of y.")).toEqual(["equals"]);
    expect(await told({ equals: `$${key}` }, key)).toEqual([]);
    expect(await told({ equals: `$${key}` }, "anything")).toEqual(["equals"]);
  });
});
