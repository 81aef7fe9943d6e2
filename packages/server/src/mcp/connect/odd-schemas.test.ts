import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/client/validators/ajv";
import { toMcpTools } from "@toolrack/core/format";
import { expect, it, vi } from "vitest";

import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));
const object = (properties: object, rest: object = {}) => ({ type: "object", properties, ...rest });

const tools = [
  { name: "echo", inputSchema: object({ text: { type: "string", pattern: "(?i)abc", minLength: 2 } }) },
  { name: "type", inputSchema: object({ a: { type: "strnig" }, n: { type: "integer" } }) },
  { name: "far", inputSchema: object({ a: { $ref: "http://127.0.0.1:9/x.json" } }) },
  {
    name: "answer",
    inputSchema: object({}),
    outputSchema: object({ x: { $ref: "#/nope" }, n: { type: "integer" } }),
  },
  { name: "bare", inputSchema: { city: { type: "string" } } },
  { name: "fine", inputSchema: object({ a: { type: "string", pattern: "^a" } }) },
  { name: "list", inputSchema: { type: "array" } },
];

async function open(rack: UpstreamRack): Promise<void> {
  const file = join(rack.directory, "tools.json");
  await writeFile(file, JSON.stringify(tools));
  await rack.open({ odd: { command: process.execPath, args: [odd], env: { ODD_TOOLS_FILE: file } } });
  await rack.until("odd", "ready");
}

it("a tool is offered although a part of its schema cannot be checked, and the part is named", async () => {
  await using rack = await UpstreamRack.create();
  await open(rack);
  const said = rack.servers.tools("odd").map(({ name, offered, unchecked }) => [name, offered, unchecked]);
  expect(said).toEqual([
    [
      "echo",
      true,
      [
        {
          part: "inputSchema.properties.text.pattern",
          reason: expect.stringMatching(/^It is not a regular expression: /),
        },
      ],
    ],
    [
      "type",
      true,
      [
        {
          part: "inputSchema.properties.a.type",
          reason: expect.stringMatching(/^It must be one of .*"strnig"/),
        },
      ],
    ],
    [
      "far",
      true,
      [
        {
          part: "inputSchema.properties.a.$ref",
          reason: expect.stringMatching(/^It points to another document/),
        },
      ],
    ],
    [
      "answer",
      true,
      [
        {
          part: "outputSchema.properties.x.$ref",
          reason: 'It points to "#/nope", which is not in this schema.',
        },
      ],
    ],
    ["bare", true, [{ part: "inputSchema", reason: "It has no keyword of JSON Schema." }]],
    ["fine", true, []],
    ["list", false, []],
  ]);
  expect(rack.servers.list()).toMatchObject([{ tools: 6, leftOut: 1, refused: [{ name: "list" }] }]);
});

it("what can be checked of such a schema is checked, and the rest is the server's affair", async () => {
  await using rack = await UpstreamRack.create();
  await open(rack);
  const codeOf = async (name: string, input: object) => (await rack.call(name, input)).error?.code;
  expect(await rack.call("mcp_odd_echo", { text: "xyz" })).toMatchObject({ content: "xyz" });
  expect(await codeOf("mcp_odd_echo", { text: "x" })).toBe("invalid_arguments");
  expect(await rack.call("mcp_odd_type", { a: 5, n: 1 })).toMatchObject({ content: "called type" });
  expect(await codeOf("mcp_odd_type", { a: 5, n: "one" })).toBe("invalid_arguments");
  expect(await rack.call("mcp_odd_far", { a: [1] })).toMatchObject({ content: "called far" });
  expect(await rack.call("mcp_odd_bare", { city: "Ulm" })).toMatchObject({ content: "called bare" });
  expect(await codeOf("mcp_odd_fine", { a: "b" })).toBe("invalid_arguments");
});

it("clients are shown schemas that they can compile, and others as the server wrote them", async () => {
  await using rack = await UpstreamRack.create();
  await open(rack);
  const { tools: shown } = toMcpTools(rack.registry.list());
  expect(shown).toHaveLength(6);
  const validator = new AjvJsonSchemaValidator();
  for (const { inputSchema, outputSchema } of shown) {
    validator.getValidator(inputSchema);
    if (outputSchema !== undefined) validator.getValidator(outputSchema);
  }
  const schemaOf = (name: string) => shown.find((tool) => tool.name === name)?.inputSchema;
  expect(schemaOf("mcp_odd_fine")).toEqual(tools.find(({ name }) => name === "fine")?.inputSchema);
  expect(schemaOf("mcp_odd_echo")).toEqual(object({ text: { type: "string", minLength: 2 } }));
});
