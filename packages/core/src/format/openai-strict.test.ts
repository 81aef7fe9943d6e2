import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { isRecord, type JsonSchemaObject } from "../schema/visit.ts";
import { type OpenAITool, toOpenAITools } from "./openai.ts";
import { fromStrictArguments } from "./openai-strict.ts";

const person = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1 },
    email: { type: "string", format: "email" },
    homepage: { type: "string", format: "uri", description: "Where to read more" },
    age: { type: "integer", minimum: 0, default: 18 },
    nickname: { type: ["string", "null"] },
  },
  required: ["name"],
};

const recursive = {
  type: "object",
  properties: { tree: { $ref: "#/definitions/node", description: "The whole tree" } },
  required: ["tree"],
  definitions: {
    node: {
      type: "object",
      properties: {
        value: { type: "number" },
        children: { type: "array", items: { $ref: "#/definitions/node" } },
      },
      required: ["value"],
    },
  },
};

const compliant: Record<string, JsonSchemaObject> = {
  empty: { type: "object" },
  person,
  recursive,
  self: { type: "object", properties: { parent: { $ref: "#" }, id: { type: "string" } }, required: ["id"] },
  nested: {
    type: "object",
    properties: { who: person, tags: { type: "array", items: { type: "string" }, uniqueItems: true } },
  },
  shared: {
    type: "object",
    properties: {
      from: { $ref: "#/$defs/place" },
      to: { $ref: "#/$defs/place", description: "Destination" },
    },
    required: ["from", "to"],
    $defs: { place: { type: "object", properties: { city: { type: "string" }, zip: { type: "string" } } } },
  },
  union: {
    type: "object",
    properties: {
      target: {
        oneOf: [
          {
            type: "object",
            properties: { kind: { const: "file" }, path: { type: "string" } },
            required: ["kind"],
          },
          {
            type: "object",
            properties: { kind: { const: "url" }, url: { type: "string" } },
            required: ["kind", "url"],
          },
        ],
      },
      either: { type: ["string", "integer"], minimum: 3, pattern: "^a" },
      level: { enum: ["low", "high", null] },
      choice: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
    },
  },
  intersection: {
    type: "object",
    properties: {
      record: {
        allOf: [
          { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
          { $ref: "#/$defs/stamped" },
        ],
      },
    },
    $defs: { stamped: { type: "object", properties: { at: { type: "string", format: "date-time" } } } },
  },
  tuple: {
    type: "object",
    properties: {
      point: { type: "array", items: [{ type: "number" }, { type: "number" }, { type: "string" }] },
    },
    required: ["point"],
  },
  branches: {
    type: "object",
    properties: {
      where: {
        type: "object",
        properties: { id: { type: "string" }, name: { type: "string" } },
        anyOf: [{ required: ["id"] }, { required: ["name"] }],
      },
    },
  },
  requirements: {
    type: "object",
    properties: { id: { type: "string" }, name: { type: "string" } },
    anyOf: [{ required: ["id"] }, { required: ["name"] }],
  },
  lookaround: {
    type: "object",
    properties: { code: { type: "string", pattern: "^(?!x)y$" } },
    required: ["code"],
  },
};

const incapable: Record<string, [JsonSchemaObject, path: string, keyword: string]> = {
  "an open map": [
    { type: "object", properties: { headers: { type: "object", additionalProperties: { type: "string" } } } },
    "/properties/headers",
    "additionalProperties",
  ],
  "a free object": [
    { type: "object", properties: { data: { type: "object" } } },
    "/properties/data",
    "properties",
  ],
  "any value": [
    { type: "object", properties: { value: { description: "Anything" } } },
    "/properties/value",
    "type",
  ],
  "patterned properties": [
    { type: "object", properties: {}, patternProperties: { "^x-": { type: "string" } } },
    "",
    "patternProperties",
  ],
  "parts that do not merge": [
    {
      type: "object",
      properties: {
        code: {
          allOf: [
            { type: "string", pattern: "^a" },
            { type: "string", pattern: "b$" },
          ],
        },
      },
    },
    "/properties/code",
    "allOf",
  ],
  "a root of alternatives": [
    {
      oneOf: [
        { type: "object", properties: { a: { type: "string" } } },
        { type: "object", properties: { b: { type: "string" } } },
      ],
    },
    "",
    "oneOf",
  ],
  "items of any kind": [
    { type: "object", properties: { list: { type: "array" } } },
    "/properties/list",
    "items",
  ],
  "too many levels": [{ type: "object", properties: { deep: levels(11) }, required: ["deep"] }, "", "schema"],
  "too many choices": [
    {
      type: "object",
      properties: { pick: { enum: Array.from({ length: 1001 }, (_, index) => `v${index}`) } },
    },
    "",
    "schema",
  ],
  "a required name that is not listed": [
    { type: "object", properties: {}, required: ["ghost"] },
    "",
    "required",
  ],
};

describe("OpenAI strict schemas", () => {
  it.each(Object.entries(compliant))("obeys the rules of strict mode: %s", (name, inputSchema) => {
    const original = JSON.stringify(inputSchema);
    const tool = format(name, inputSchema);
    expect(tool.function.strict).toBe(true);
    expect(violations(tool.function.parameters)).toEqual([]);
    expect(() =>
      new Ajv2020({ strict: false, logger: false }).compile(tool.function.parameters),
    ).not.toThrow();
    expect(JSON.stringify(inputSchema)).toBe(original);
  });

  it.each(Object.entries(incapable))(
    "sends %s without strict mode and says why",
    (_name, [schema, path, keyword]) => {
      const { tools, notes } = toOpenAITools([{ name: "tool", inputSchema: schema, metadata: {} }], {
        strict: true,
      });
      expect(tools[0]?.function.strict).toBe(false);
      expect(notes).toContainEqual(
        expect.objectContaining({ tool: "tool", path, keyword, action: "not_strict" }),
      );
    },
  );

  it("keeps what strict mode cannot check in the description", () => {
    const properties = propertiesOf(format("person", person).function.parameters);
    expect(properties.name).toEqual({ type: "string", description: "(at least 1 character)" });
    expect(properties.homepage).toEqual({
      type: ["string", "null"],
      description: "Where to read more (format: uri)",
    });
    expect(properties.age).toEqual({ type: ["integer", "null"], minimum: 0, description: "(default: 18)" });
    expect(properties.email).toEqual({ type: ["string", "null"], format: "email" });
    expect(properties.nickname).toEqual({ type: ["string", "null"] });
  });

  it("writes no keyword beside a reference, and keeps recursion", () => {
    const { parameters } = format("recursive", recursive).function;
    expect(propertiesOf(parameters).tree).toEqual({
      description: "The whole tree",
      anyOf: [{ $ref: "#/$defs/node" }],
    });
    const node = (parameters.$defs as Record<string, JsonSchemaObject>).node!;
    expect(propertiesOf(node).children).toEqual({
      anyOf: [{ type: "array", items: { $ref: "#/$defs/node" } }, { type: "null" }],
    });
  });

  it("keeps alternatives that differ only in required names, as branches or in words", () => {
    const branches = propertiesOf(format("branches", compliant.branches!).function.parameters).where!;
    expect(branches.anyOf).toHaveLength(3);
    expect(format("requirements", compliant.requirements!).function.parameters.description).toBe(
      "(at least one of these sets of arguments is needed: {id}; {name})",
    );
  });

  it("notes everything it changed", () => {
    const { notes } = toOpenAITools([{ name: "person", inputSchema: person, metadata: {} }], {
      strict: true,
    });
    expect(notes.map((note) => `${note.path} ${note.keyword} ${note.action}`)).toEqual([
      " additionalProperties rewritten",
      "/properties/name minLength described",
      "/properties/email required rewritten",
      "/properties/homepage format described",
      "/properties/homepage required rewritten",
      "/properties/age default described",
      "/properties/age required rewritten",
    ]);
  });
});

describe("fromStrictArguments", () => {
  const restore = (args: unknown, inputSchema: JsonSchemaObject) =>
    fromStrictArguments(args, { inputSchema });

  it("takes out a null that says not given, and keeps one that is meant", () => {
    const args = { name: "Ada", email: null, homepage: null, age: null, nickname: null };
    expect(restore(args, person)).toEqual({ name: "Ada", nickname: null });
    expect(restore(JSON.stringify(args), person)).toEqual({ name: "Ada", nickname: null });
  });

  it("leaves a null where the property is required, for validation to refuse", () => {
    expect(restore({ name: null }, person)).toEqual({ name: null });
  });

  it("leaves text that is not a JSON object as it is", () => {
    expect(restore('{"name": "Ad', person)).toBe('{"name": "Ad');
    expect(restore("", person)).toBe("");
    expect(restore(undefined, person)).toBe(undefined);
  });

  it("goes through references, lists, tuples and recursion", () => {
    const leaf = { value: 1, children: null };
    expect(
      restore({ tree: { value: 0, children: [leaf, { value: 2, children: [leaf] }] } }, recursive),
    ).toEqual({
      tree: { value: 0, children: [{ value: 1 }, { value: 2, children: [{ value: 1 }] }] },
    });
    const tuple = {
      properties: {
        pair: { items: [{ type: "object", properties: { a: { type: "string" } } }, { type: "null" }] },
      },
    };
    expect(restore({ pair: [{ a: null }, null] }, tuple)).toEqual({ pair: [{}, null] });
  });

  it("judges a branch by the value that tells it apart", () => {
    const schema = {
      type: "object",
      properties: {
        target: {
          oneOf: [
            {
              type: "object",
              properties: { kind: { const: "a" }, x: { type: "string" } },
              required: ["kind"],
            },
            {
              type: "object",
              properties: { kind: { const: "b" }, x: { type: ["string", "null"] } },
              required: ["kind"],
            },
          ],
        },
      },
    };
    expect(restore({ target: { kind: "a", x: null } }, schema)).toEqual({ target: { kind: "a" } });
    expect(restore({ target: { kind: "b", x: null } }, schema)).toEqual({ target: { kind: "b", x: null } });
  });

  it("is applied by the formatted list to strict tools only", () => {
    const open = { type: "object", properties: { data: { type: "object" }, name: { type: "string" } } };
    const formatted = toOpenAITools(
      [
        { name: "strict", inputSchema: person, metadata: {} },
        { name: "open", inputSchema: open, metadata: {} },
      ],
      { strict: true },
    );
    expect(formatted.restore({ id: "1", name: "strict", arguments: '{"name":"A","age":null}' })).toEqual({
      id: "1",
      name: "strict",
      arguments: { name: "A" },
    });
    const call = { id: "2", name: "open", arguments: '{"name":null}' };
    expect(formatted.restore(call)).toEqual(call);
  });
});

function format(name: string, inputSchema: JsonSchemaObject): OpenAITool {
  return toOpenAITools([{ name, inputSchema, metadata: {} }], { strict: true }).tools[0]!;
}

function propertiesOf(schema: JsonSchemaObject): Record<string, JsonSchemaObject> {
  return schema.properties as Record<string, JsonSchemaObject>;
}

function levels(count: number): JsonSchemaObject {
  if (count === 0) return { type: "string" };
  return { type: "object", properties: { in: levels(count - 1) }, required: ["in"] };
}

/** The published rules of strict mode, written down independently of the code that follows them. */
function violations(root: JsonSchemaObject): string[] {
  const found: string[] = [];
  const allowed = [
    ...["type", "title", "description", "enum", "anyOf", "$ref", "$defs", "properties", "required", "items"],
    ...[
      "additionalProperties",
      "pattern",
      "format",
      "minItems",
      "maxItems",
      "multipleOf",
      "minimum",
      "maximum",
    ],
    ...["exclusiveMinimum", "exclusiveMaximum"],
  ];
  const formats = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
  if (root.type !== "object") found.push("the root is not an object");
  if (root.anyOf !== undefined) found.push("the root is an anyOf");
  visit(root, "#");
  return found;

  function visit(schema: unknown, at: string): void {
    if (!isRecord(schema)) return void found.push(`${at}: not a schema object`);
    for (const keyword of Object.keys(schema))
      if (!allowed.includes(keyword)) found.push(`${at}: ${keyword}`);
    if (schema.$ref !== undefined) {
      if (Object.keys(schema).length > 1) found.push(`${at}: keywords beside $ref`);
      const name = String(schema.$ref).replace("#/$defs/", "");
      const definitions = isRecord(root.$defs) ? root.$defs : {};
      if (schema.$ref !== "#" && !Object.hasOwn(definitions, name))
        found.push(`${at}: dangling ${schema.$ref}`);
      return;
    }
    if (schema.type === undefined && schema.anyOf === undefined) found.push(`${at}: no type`);
    if (schema.format !== undefined && !formats.includes(String(schema.format))) found.push(`${at}: format`);
    if (typeof schema.pattern === "string" && schema.pattern.includes("(?")) found.push(`${at}: lookaround`);
    if (schema.type === "array" && schema.items === undefined) found.push(`${at}: no items`);
    if (schema.type === "object") {
      const names = Object.keys(isRecord(schema.properties) ? schema.properties : {});
      if (schema.additionalProperties !== false) found.push(`${at}: open`);
      if (JSON.stringify(schema.required) !== JSON.stringify(names)) found.push(`${at}: not all required`);
    }
    for (const keyword of ["properties", "$defs"]) {
      if (!isRecord(schema[keyword])) continue;
      for (const [key, member] of Object.entries(schema[keyword])) visit(member, `${at}/${keyword}/${key}`);
    }
    if (schema.items !== undefined) visit(schema.items, `${at}/items`);
    if (Array.isArray(schema.anyOf))
      schema.anyOf.forEach((branch, index) => void visit(branch, `${at}/anyOf/${index}`));
  }
}
