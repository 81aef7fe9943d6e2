import { describe, expect, it } from "vitest";
import { describingSchemas, mapSchemas, visitMembers, walkSchemas } from "./visit.ts";

const tool = {
  type: "object",
  properties: { name: { type: "string", default: { type: "x" } }, tree: { $ref: "#/$defs/tree" } },
  items: [{ const: 1 }, true],
  dependencies: { name: ["tree"], tree: { required: ["name"] } },
  $defs: { tree: { anyOf: [{ type: "null" }, { items: { $ref: "#/$defs/tree" } }] } },
  constructor: { not: "a keyword" },
};

describe("visitMembers", () => {
  it("sees what stands wherever a schema belongs, in the order it is written", () => {
    const seen: string[] = [];
    visitMembers(tool, (_, steps) => seen.push(steps.join("/")));
    const members = ["properties/name", "properties/tree", "items/0", "items/1"];
    expect(seen).toEqual([...members, "dependencies/name", "dependencies/tree", "$defs/tree"]);
  });

  it("passes over lists, maps and schemas that are of another kind than their keyword wants", () => {
    const seen: unknown[] = [];
    visitMembers({ allOf: {}, properties: [], not: "x", items: 3 }, (member) => seen.push(member));
    expect(seen).toEqual(["x", 3]);
  });
});

describe("mapSchemas", () => {
  it("replaces the schemas directly inside one and leaves values and the original alone", () => {
    const before = JSON.stringify(tool);
    const mapped = mapSchemas(tool, (_, steps) => ({ title: steps.join("/") }));
    expect(mapped).toEqual({
      type: "object",
      properties: { name: { title: "properties/name" }, tree: { title: "properties/tree" } },
      items: [{ title: "items/0" }, { title: "items/1" }],
      dependencies: { name: ["tree"], tree: { title: "dependencies/tree" } },
      $defs: { tree: { title: "$defs/tree" } },
      constructor: { not: "a keyword" },
    });
    expect(JSON.stringify(tool)).toBe(before);
  });

  it("keeps a property named __proto__", () => {
    const mapped = mapSchemas(JSON.parse('{"properties":{"__proto__":{"type":"string"}}}'), () => true);
    expect(JSON.stringify(mapped)).toBe('{"properties":{"__proto__":true}}');
  });
});

describe("walkSchemas", () => {
  it("goes through all schemas, also deeper than the stack, and not below where it is told", () => {
    const seen: string[] = [];
    walkSchemas(tool, ({ steps, depth }) => {
      seen.push(`${depth} ${steps.join("/")}`);
      return steps[0] !== "$defs";
    });
    const members = ["1 properties/name", "1 properties/tree", "1 items/0", "1 dependencies/tree"];
    expect(seen).toEqual(["0 ", ...members, "1 $defs/tree"]);
    let deep: Record<string, unknown> = {};
    for (let level = 0; level < 100_000; level++) deep = { not: deep };
    let count = 0;
    walkSchemas(deep, () => ++count > 0);
    expect(count).toBe(100_001);
  });
});

describe("describingSchemas", () => {
  it("gathers what speaks of the same value, and ends where references go in circles", () => {
    const root = { $defs: { a: { $ref: "#/$defs/b", title: "a" }, b: { allOf: [{ $ref: "#/$defs/a" }] } } };
    const found = describingSchemas({ anyOf: [{ $ref: "#/$defs/a" }, { type: "null" }] }, root);
    expect(found.map((schema) => Object.keys(schema).join())).toEqual([
      "anyOf",
      "$ref",
      "$ref,title",
      "allOf",
      "$ref",
      "type",
    ]);
  });
});
