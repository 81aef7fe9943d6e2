import { expect, it } from "vitest";
import { resolveReference } from "../schema/visit.ts";
import { keepReferences } from "./provider-schema.ts";

const root = {
  $id: "https://example.com/tool",
  properties: {
    "a/b": { type: "string" },
    "100%": { type: "number" },
    list: { prefixItems: [{ type: "null" }] },
  },
  $defs: { named: { $anchor: "here", type: "boolean" } },
};

it("finds what a reference inside the document points to", () => {
  expect(resolveReference(root, "#")).toBe(root);
  expect(resolveReference(root, "https://example.com/tool")).toBe(root);
  expect(resolveReference(root, "#/properties/a~1b")).toEqual({ type: "string" });
  expect(resolveReference(root, "#/properties/100%")).toEqual({ type: "number" });
  expect(resolveReference(root, "#/properties/list/prefixItems/0")).toEqual({ type: "null" });
  expect(resolveReference(root, "#here")).toEqual(root.$defs.named);
  expect(resolveReference(root, "https://example.com/tool#/$defs/named")).toEqual(root.$defs.named);
});

it("finds nothing outside it, nor in what is no schema", () => {
  for (const reference of [
    "https://example.com/other",
    "#/properties/none",
    "#/constructor",
    "#nowhere",
    "#/$id",
  ]) {
    expect(resolveReference(root, reference)).toBeUndefined();
  }
});

it("gives a remark in place of a reference that leads nowhere", () => {
  const notes: string[] = [];
  const schema = {
    type: "object",
    properties: { x: { $ref: "https://example.com/other", description: "X" } },
  };
  const kept = keepReferences(schema, schema, (path, keyword, action) =>
    notes.push(`${path} ${keyword} ${action}`),
  );
  expect(kept.properties).toEqual({ x: { description: "X (schema: https://example.com/other)" } });
  expect(notes).toEqual(["/properties/x $ref described"]);
});
