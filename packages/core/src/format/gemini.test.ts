import { describe, expect, it } from "vitest";
import { isRecord, type JsonSchemaObject } from "../schema/visit.ts";
import { parseGeminiFunctionCalls, toGeminiFunctionResponse, toGeminiTools } from "./gemini.ts";

const define = (name: string, inputSchema: JsonSchemaObject) => ({ name, inputSchema, metadata: {} });

/** The `parameters` for one property. */
function lowered(property: unknown, $defs: JsonSchemaObject = {}): unknown {
  const schema = { type: "object", properties: { p: property }, $defs };
  const { tools } = toGeminiTools([define("tool", schema)]);
  expect(strange(tools[0]!.parameters)).toEqual([]);
  return (tools[0]!.parameters!.properties as Record<string, unknown>).p;
}

describe("toGeminiTools", () => {
  it("keeps what Gemini knows and says the rest in the description", () => {
    expect(lowered({ type: "string", format: "email", minLength: 3, description: "Whom" })).toEqual({
      type: "string",
      minLength: 3,
      description: "Whom (format: email)",
    });
    expect(lowered({ type: "string", format: "date-time" })).toEqual({ type: "string", format: "date-time" });
    expect(lowered({ type: "number", exclusiveMinimum: 0, multipleOf: 0.5 })).toEqual({
      type: "number",
      description: "(more than 0) (multiple of 0.5)",
    });
    expect(lowered({ type: "integer", exclusiveMinimum: 0, maximum: 9, default: 1 })).toEqual({
      type: "integer",
      minimum: 1,
      maximum: 9,
      default: 1,
    });
  });

  it("lists choices for strings, and puts other choices into words", () => {
    expect(lowered({ enum: ["a", "b", null] })).toEqual({ type: "string", enum: ["a", "b"], nullable: true });
    expect(lowered({ const: "a" })).toEqual({ type: "string", enum: ["a"] });
    expect(lowered({ enum: [1, 2] })).toEqual({ type: "integer", description: "(one of: 1, 2)" });
    expect(lowered({ enum: ["", "x"] })).toEqual({ type: "string", description: '(one of: "", "x")' });
    expect(lowered({ anyOf: [{ const: "a" }, { const: "b" }], description: "Which" })).toEqual({
      type: "string",
      enum: ["a", "b"],
      description: "Which",
    });
  });

  it("says nullable, and lists types as alternatives with nothing beside them", () => {
    expect(lowered({ type: ["string", "null"] })).toEqual({ type: "string", nullable: true });
    expect(lowered({ anyOf: [{ type: "number" }, { type: "null" }], title: "N", default: null })).toEqual({
      type: "number",
      title: "N",
      default: null,
      nullable: true,
    });
    expect(
      lowered({ oneOf: [{ type: "string" }, { type: "integer", minimum: 1 }], description: "Id or name" }),
    ).toEqual({
      anyOf: [
        { type: "string", description: "Id or name" },
        { type: "integer", minimum: 1, description: "Id or name" },
      ],
    });
    expect(lowered({ type: ["string", "array", "null"], items: { type: "string" } })).toEqual({
      anyOf: [
        { type: "string", nullable: true },
        { type: "array", items: { type: "string" }, nullable: true },
      ],
    });
  });

  it("describes maps and tuples", () => {
    expect(lowered({ type: "object", additionalProperties: { type: "number" } })).toEqual({
      type: "object",
      description: '(every further property: {"type":"number"})',
    });
    expect(
      lowered({ type: "array", items: [{ type: "number" }, { type: "string", title: "Unit" }] }),
    ).toEqual({
      type: "array",
      minItems: 2,
      maxItems: 2,
      description: "(items in this order: 1. number, 2. string (Unit))",
      items: { anyOf: [{ type: "number" }, { type: "string", title: "Unit" }] },
    });
  });

  it("writes references out, and cuts recursion with a note", () => {
    const place = { type: "object", properties: { city: { type: "string" } }, required: ["city", "ghost"] };
    expect(lowered({ $ref: "#/$defs/place", description: "Where to" }, { place })).toEqual({
      type: "object",
      description: "Where to (also required: ghost)",
      properties: { city: { type: "string" } },
      required: ["city"],
    });
    const node = { type: "object", properties: { next: { $ref: "#/$defs/node" } } };
    expect(lowered({ $ref: "#/$defs/node" }, { node })).toEqual({
      type: "object",
      properties: {
        next: {
          type: "object",
          properties: { next: { type: "object", description: "(same shape as node)" } },
        },
      },
    });
    const { notes } = toGeminiTools([define("walk", { ...node, $defs: { node } })]);
    expect(notes).toContainEqual(expect.objectContaining({ keyword: "$ref", action: "described" }));
  });

  it("stays small when references multiply each other", () => {
    const names = Array.from({ length: 20 }, (_, index) => `d${index}`);
    const properties = Object.fromEntries(names.map((name) => [name, { $ref: `#/$defs/${name}` }]));
    const $defs = Object.fromEntries(names.map((name) => [name, { type: "object", properties }]));
    const { tools } = toGeminiTools([define("web", { type: "object", properties, $defs })]);
    expect(JSON.stringify(tools).length).toBeLessThan(200_000);
  });

  it("merges parts", () => {
    expect(
      lowered(
        {
          allOf: [
            { $ref: "#/$defs/base" },
            { properties: { size: { type: "integer", minimum: 2 } }, required: ["size"] },
            { properties: { size: { type: "number", minimum: 5 } } },
          ],
        },
        { base: { type: "object", properties: { id: { type: "string" } } } },
      ),
    ).toEqual({
      type: "object",
      properties: { id: { type: "string" }, size: { type: "integer", minimum: 5 } },
      required: ["size"],
    });
  });

  it("offers every type where any value is accepted", () => {
    const any = lowered({ description: "Anything" }) as { anyOf: JsonSchemaObject[] };
    expect(any.anyOf.map((branch) => branch.type)).toEqual([
      "string",
      "number",
      "boolean",
      "object",
      "array",
    ]);
    expect(any.anyOf.every((branch) => branch.nullable && branch.description === "Anything")).toBe(true);
    expect(lowered({ type: "array" })).toHaveProperty("items.anyOf");
  });

  it("leaves parameters out when there are none, and always describes the function", () => {
    expect(toGeminiTools([define("now", { type: "object" })]).tools).toEqual([
      { name: "now", description: "now" },
    ]);
  });

  it("renames functions and arguments it does not take, and renames them back", () => {
    const formatted = toGeminiTools([
      define("21st_builder", {
        type: "object",
        properties: { "user-id": { type: "string" } },
        required: ["user-id"],
      }),
    ]);
    const [tool] = formatted.tools;
    expect(tool!.name).toMatch(/^_21st_builder_[a-z0-9]+$/);
    expect(tool!.parameters).toMatchObject({
      properties: { user_id: { type: "string" } },
      required: ["user_id"],
    });
    expect(formatted.restore({ id: "1", name: tool!.name, arguments: { user_id: "u" } })).toEqual({
      id: "1",
      name: "21st_builder",
      arguments: { "user-id": "u" },
    });
  });

  it("sends JSON Schema where the endpoint takes it", () => {
    const inputSchema = {
      type: "object",
      properties: { p: { $ref: "#/$defs/n" } },
      $defs: { n: { type: "object", properties: { n: { $ref: "#/$defs/n" } }, additionalProperties: false } },
    };
    const { tools, notes } = toGeminiTools([define("tree", inputSchema)], {
      schemaField: "parametersJsonSchema",
    });
    expect(tools[0]).toEqual({ name: "tree", description: "tree", parametersJsonSchema: inputSchema });
    expect(notes).toEqual([]);
  });
});

describe("calls from Gemini and results to it", () => {
  it("reads function calls among other parts", () => {
    const parts = [
      { text: "hm" },
      { functionCall: { id: "f1", name: "read", args: { path: "a" } } },
      { functionCall: { name: "now" } },
    ];
    const expected = [
      { id: "f1", name: "read", arguments: { path: "a" } },
      { id: "call_at_2", name: "now", arguments: {} },
    ];
    expect(parseGeminiFunctionCalls(parts)).toEqual(expected);
    expect(parseGeminiFunctionCalls({ role: "model", parts })).toEqual(expected);
    for (const odd of [undefined, null, 3, [null, {}], { parts: {} }])
      expect(parseGeminiFunctionCalls(odd)).toEqual([]);
  });

  it("answers by name, and by id where Gemini gave one", () => {
    expect(toGeminiFunctionResponse({ id: "f1", name: "read" }, { type: "text", content: "ok" })).toEqual({
      functionResponse: { id: "f1", name: "read", response: { output: "ok" } },
    });
    const error = {
      name: "ToolExecutionError",
      code: "execution_failed",
      message: "No.",
      recoverable: true,
    } as const;
    expect(
      toGeminiFunctionResponse({ id: "call_at_2", name: "now" }, { type: "error", content: "No.", error }),
    ).toEqual({
      functionResponse: { name: "now", response: { error: "No." } },
    });
  });
});

/** Fields that Gemini's `Schema` does not have, and `anyOf` that does not stand alone. */
function strange(schema: unknown, at = "#"): string[] {
  if (!isRecord(schema)) return [`${at}: not a schema`];
  const known = [
    ...[
      "type",
      "format",
      "title",
      "description",
      "nullable",
      "enum",
      "items",
      "minItems",
      "maxItems",
      "default",
    ],
    ...["properties", "required", "anyOf", "minimum", "maximum", "minLength", "maxLength", "pattern"],
    ...["minProperties", "maxProperties"],
  ];
  const found = Object.keys(schema)
    .filter((key) => !known.includes(key))
    .map((key) => `${at}: ${key}`);
  if (typeof schema.type !== "string" && schema.anyOf === undefined) found.push(`${at}: no type`);
  if (schema.type === "array" && schema.items === undefined) found.push(`${at}: no items`);
  if (schema.anyOf !== undefined && Object.keys(schema).length > 1) found.push(`${at}: fields beside anyOf`);
  const members = [
    ...Object.entries(isRecord(schema.properties) ? schema.properties : {}),
    ...(Array.isArray(schema.anyOf)
      ? schema.anyOf.map((branch, index): [string, unknown] => [`${index}`, branch])
      : []),
    ...(schema.items === undefined ? [] : [["items", schema.items] as [string, unknown]]),
  ];
  return [...found, ...members.flatMap(([key, member]) => strange(member, `${at}/${key}`))];
}
