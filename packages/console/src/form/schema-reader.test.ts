import { compileSchema } from "@toolrack/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type FieldNode, fits, optionFor } from "./field-node.ts";
import { normalise } from "./schema-reader.ts";
import { startValue } from "./start-value.ts";

describe("the shapes that tools really have", () => {
  it("reads plain types with their facts", () => {
    const node = object({
      properties: {
        name: { type: "string", title: "Name", description: "Whose.", default: "Ada" },
        age: { type: "integer", minimum: 1 },
        rate: { type: "number" },
        on: { type: "boolean" },
        size: { enum: ["s", "m"] },
      },
      required: ["name"],
    });
    expect(node.properties.map(({ key, required, node: child }) => [key, required, child().kind])).toEqual([
      ["name", true, "text"],
      ["age", false, "number"],
      ["rate", false, "number"],
      ["on", false, "boolean"],
      ["size", false, "choice"],
    ]);
    expect(node.properties[0]!.node()).toMatchObject({
      title: "Name",
      description: "Whose.",
      default: "Ada",
      nullable: false,
    });
  });

  it("takes a choice or null, as zod and pydantic write it, for a nullable choice", () => {
    const node = normalise({ anyOf: [{ type: "string", enum: ["a", "b"] }, { type: "null" }] });
    expect(node).toMatchObject({ kind: "choice", nullable: true });
    expect(fits(node, null)).toBe(true);
    expect(normalise({ type: ["string", "null"] })).toMatchObject({ kind: "text", nullable: true });
    expect(normalise({ enum: ["a", null] })).toMatchObject({
      kind: "choice",
      nullable: true,
      choices: [{ value: "a" }],
    });
    expect(normalise({ type: "string", nullable: true })).toMatchObject({ kind: "text", nullable: true });
  });

  it("does not offer null where a keyword beside the union forbids it", () => {
    expect(normalise({ type: "string", anyOf: [{ minLength: 1 }, { type: "null" }] }).nullable).toBe(false);
    expect(normalise({ type: "string", enum: ["a", null] }).nullable).toBe(false);
  });

  it("offers the kinds of a union, and knows which one a value is", () => {
    const node = union({
      oneOf: [
        {
          type: "object",
          properties: { kind: { const: "file" }, path: { type: "string" } },
          required: ["kind", "path"],
        },
        {
          type: "object",
          properties: { kind: { const: "mail" }, to: { type: "string" } },
          required: ["kind", "to"],
        },
        { type: "string" },
      ],
    });
    expect(node.options.map(({ label }) => label)).toEqual(["file", "mail", "string"]);
    expect(optionFor(node, { kind: "mail", to: "a@b" })).toBe(1);
    expect(optionFor(node, { kind: "file" })).toBe(0);
    expect(optionFor(node, "plain")).toBe(2);
    expect(optionFor(node, 7)).toBe(-1);
    expect(union({ anyOf: [{ type: "string" }, { type: "number" }] }).options).toHaveLength(2);
    expect(union({ type: ["string", "integer", "null"] }).nullable).toBe(true);
  });

  it("makes one choice of branches that are each a constant", () => {
    const node = normalise({
      oneOf: [
        { const: 1, title: "One" },
        { const: 2, title: "Two" },
      ],
    });
    expect(node).toMatchObject({
      kind: "choice",
      choices: [
        { value: 1, label: "One" },
        { value: 2, label: "Two" },
      ],
    });
  });

  it("reads lists, tuples of both drafts, maps, sets of choices, files and anything", () => {
    expect(normalise({ type: "array", items: { type: "object", properties: { a: {} } } }).kind).toBe("list");
    expect(
      normalise({ type: "array", prefixItems: [{ type: "number" }, { type: "string" }], items: false }),
    ).toMatchObject({ kind: "tuple", rest: undefined });
    expect(normalise({ type: "array", items: [{ type: "number" }] })).toMatchObject({ kind: "tuple" });
    expect(normalise({ type: "object", additionalProperties: { type: "number" } }).kind).toBe("map");
    expect(normalise({ type: "array", uniqueItems: true, items: { enum: ["x", "y"] } }).kind).toBe("choices");
    expect(normalise({ type: "string", contentEncoding: "base64" })).toMatchObject({
      kind: "file",
      as: "base64",
    });
    expect(normalise({}).kind).toBe("any");
    expect(normalise(true).kind).toBe("any");
    expect(normalise({ type: "object", properties: {}, additionalProperties: false })).toMatchObject({
      kind: "object",
      properties: [],
    });
  });

  it("follows references, also in circles, and merges allOf", () => {
    const tree = {
      $ref: "#/$defs/node",
      $defs: {
        node: {
          type: "object",
          properties: {
            name: { type: "string" },
            children: { type: "array", items: { $ref: "#/$defs/node" } },
          },
        },
      },
    };
    let node = normalise(tree);
    for (let depth = 0; depth < 5; depth++) {
      if (node.kind !== "object") throw new Error(node.kind);
      const children = node.properties.find(({ key }) => key === "children")!.node();
      if (children.kind !== "list") throw new Error(children.kind);
      node = children.item();
    }
    expect(node.kind).toBe("object");
    expect(normalise({ $ref: "#" }).kind).toBe("any");
    expect(normalise({ $ref: "#/nowhere" }).kind).toBe("any");
    expect(normalise({ $ref: "https://example.com/schema.json" }).kind).toBe("any");
    const merged = object({
      allOf: [
        { properties: { a: { type: "string" } }, required: ["a"] },
        { properties: { b: { type: "number" } } },
      ],
      type: "object",
    });
    expect(merged.properties.map(({ key, required }) => [key, required])).toEqual([
      ["a", true],
      ["b", false],
    ]);
  });

  it("guesses long texts and secrets from their names", () => {
    const node = object({
      properties: {
        content: { type: "string" },
        code: { type: "string", maxLength: 6 },
        apiKey: { type: "string" },
      },
    });
    expect(node.properties.map(({ node: child }) => child())).toMatchObject([
      { multiline: true },
      { multiline: false },
      { secret: true },
    ]);
  });
});

describe("any schema at all", () => {
  const key = fc.constantFrom("a", "b", "__proto__", "x-id", "");
  const { schema } = fc.letrec((tie) => ({
    schema: fc.oneof(
      { depthSize: "small" },
      fc.boolean(),
      fc.record({
        type: fc.constantFrom("string", "number", "integer", "boolean", "null", "object", "array"),
      }),
      fc.record({ type: fc.subarray(["string", "number", "null", "array"], { minLength: 1 }) }),
      fc.record({ enum: fc.array(fc.jsonValue({ maxDepth: 1 }), { minLength: 1, maxLength: 4 }) }),
      fc.record({
        $ref: fc.constantFrom("#", "#/$defs/a", "#/properties/a", "#anchor", "other.json", "#/%E0%A4%A"),
      }),
      fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
      fc.record({
        oneOf: fc.array(tie("schema"), { maxLength: 3 }),
        type: fc.constantFrom("string", "object"),
      }),
      fc.record({ allOf: fc.array(tie("schema"), { maxLength: 3 }) }),
      fc.record({
        type: fc.constant("object"),
        properties: fc.dictionary(key, tie("schema"), { maxKeys: 3 }),
        required: fc.array(key, { maxLength: 2 }),
      }),
      fc.record({ type: fc.constant("object"), additionalProperties: tie("schema") }),
      fc.record({ type: fc.constant("array"), items: tie("schema"), uniqueItems: fc.boolean() }),
      fc.record({ prefixItems: fc.array(tie("schema"), { maxLength: 3 }), items: tie("schema") }),
      fc.jsonValue({ maxDepth: 2 }), // Whatever somebody takes for a schema.
    ),
  }));

  it("becomes a field that can be walked, can be asked about any value, and never throws", () => {
    fc.assert(
      fc.property(schema, fc.jsonValue(), (wanted, value) => {
        const node = normalise(wanted, { $defs: { a: wanted }, properties: { a: wanted } });
        walk(node, 3);
        expect(fits(node, undefined)).toBe(true);
        expect(typeof fits(node, value)).toBe("boolean");
        if (node.kind === "union") expect(optionFor(node, value)).toBeLessThan(node.options.length);
      }),
      { numRuns: 500 },
    );
  });

  it("starts with a value that is JSON", () => {
    fc.assert(
      fc.property(schema, (wanted) => {
        // As text: JSON has one zero, and a schema may hold the other.
        const text = JSON.stringify(startValue(normalise(wanted)));
        expect(JSON.stringify(JSON.parse(text))).toBe(text);
      }),
      { numRuns: 300 },
    );
  });

  const plain = fc.letrec((tie) => ({
    schema: fc.oneof(
      { depthSize: "small" },
      fc.record({ type: fc.constantFrom("string", "number", "integer", "boolean", "object", "array") }),
      fc.record({
        enum: fc.uniqueArray(fc.oneof(fc.string(), fc.integer()), { minLength: 1, maxLength: 3 }),
      }),
      fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
      fc.record({ type: fc.constant("array"), items: tie("schema") }),
      fc.record({
        type: fc.constant("array"),
        prefixItems: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }),
      }),
      fc
        .dictionary(fc.constantFrom("a", "b", "c"), tie("schema"), { minKeys: 1, maxKeys: 3 })
        .map((properties) => ({ type: "object", properties, required: Object.keys(properties).slice(0, 2) })),
    ),
  })).schema;

  it("starts with a value that the schema accepts, where the schema asks for kinds and required keys only", async () => {
    await fc.assert(
      fc.asyncProperty(plain, async (wanted) => {
        // Every schema of this kind is an object; fast-check's recursion does not know.
        const outcome = await compileSchema(wanted as Record<string, unknown>).validate(
          startValue(normalise(wanted)),
        );
        expect(outcome.ok).toBe(true);
      }),
      { numRuns: 200 },
    );
  });
});

function walk(node: FieldNode, depth: number): void {
  if (depth === 0) return;
  const children = {
    object: () => (node.kind === "object" ? node.properties.map((property) => property.node) : []),
    union: () => (node.kind === "union" ? node.options.map((option) => option.node) : []),
    tuple: () => (node.kind === "tuple" ? node.items : []),
    list: () => (node.kind === "list" ? [node.item] : []),
    map: () => (node.kind === "map" ? [node.value] : []),
  };
  const mine = node.kind in children ? children[node.kind as keyof typeof children]() : []; // The key was just checked.
  for (const child of mine) walk(child(), depth - 1);
}

function object(schema: object): Extract<FieldNode, { kind: "object" }> {
  const node = normalise(schema);
  if (node.kind !== "object") throw new Error(`It became ${node.kind}.`);
  return node;
}

function union(schema: object): Extract<FieldNode, { kind: "union" }> {
  const node = normalise(schema);
  if (node.kind !== "union") throw new Error(`It became ${node.kind}.`);
  return node;
}
