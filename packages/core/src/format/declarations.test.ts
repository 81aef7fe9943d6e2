import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { declarationsOf, signatureOf } from "./declarations.ts";

const typeOf = (inputSchema: object) => signatureOf({ name: "f", inputSchema: { ...inputSchema } });
const member = (schema: unknown) => typeOf({ type: "object", properties: { x: schema }, required: ["x"] });

describe("a signature", () => {
  it("has the arguments, which of them are needed, and their texts", () => {
    const inputSchema = {
      type: "object",
      properties: {
        city: { type: "string", description: "Where." },
        days: { type: "integer", default: 3, description: "How many.\nAt most 10." },
        "in-words": { type: "boolean" },
      },
      required: ["city"],
    };
    expect(signatureOf({ name: "weather", description: "Tells the weather.", inputSchema })).toBe(
      `/** Tells the weather. */
weather(args: {
  /** Where. */
  city: string;
  /**
   * How many.
   * At most 10.
   * @default 3
   */
  days?: number;
  "in-words"?: boolean;
}): Promise<unknown>;`,
    );
  });

  it("has no arguments where a tool takes none, and optional ones where none is needed", () => {
    expect(typeOf({ type: "object" })).toBe("f(): Promise<unknown>;");
    expect(typeOf({ type: "object", properties: {} })).toBe("f(): Promise<unknown>;");
    expect(typeOf({ type: "object", properties: { a: { type: "null" } } })).toContain("f(args?: {");
  });

  it("has the output's type where the tool declares one", () => {
    const outputSchema = { type: "array", items: { enum: ["a", 1, null] } };
    expect(signatureOf({ name: "f", inputSchema: { type: "object" }, outputSchema })).toBe(
      'f(): Promise<("a" | 1 | null)[]>;',
    );
  });

  it.each([
    [{ type: ["string", "null"] }, "x: string | null;"],
    [{ const: { kind: "a" } }, 'x: {"kind":"a"};'],
    [{ anyOf: [{ type: "string" }, { type: "array", items: { type: "number" } }] }, "x: string | number[];"],
    [{ oneOf: [{ type: "string" }, true] }, "x: unknown;"],
    [{ type: "object", additionalProperties: { type: "number" } }, "x: { [key: string]: number };"],
    [{ type: "object", additionalProperties: false }, "x: {};"],
    [{ type: "object" }, "x: { [key: string]: unknown };"],
    [
      { type: "array", prefixItems: [{ type: "string" }], items: { type: "number" } },
      "x: [string?, ...number[]];",
    ],
    [
      { type: "array", prefixItems: [{ type: "string" }, { type: "null" }], items: false, minItems: 2 },
      "x: [string, null];",
    ],
    [{ type: "array" }, "x: unknown[];"],
    [{ allOf: [{ type: "string" }, { minLength: 1 }] }, "x: string;"],
    [{ $ref: "#/nowhere" }, "x: unknown;"],
    [false, "x: never;"],
  ])("writes %j as %s", (schema, text) => {
    expect(member(schema)).toContain(text);
  });

  it("joins the parts of an `allOf`, with brackets around alternatives", () => {
    const part = (key: string) => ({ type: "object", properties: { [key]: true }, required: [key] });
    const text = member({ allOf: [part("a"), { anyOf: [part("b"), part("c")] }] });
    expect(text.replaceAll(/\s+/g, " ")).toContain(
      "x: { a: unknown; } & ({ b: unknown; } | { c: unknown; });",
    );
  });

  it("names a type that contains itself", () => {
    const inputSchema = {
      type: "object",
      properties: { root: { $ref: "#/$defs/node" } },
      $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } } } },
    };
    expect(signatureOf({ name: "walk_tree", inputSchema })).toBe(`walk_tree(args?: {
  root?: WalkTreeInputNode;
}): Promise<unknown>;
type WalkTreeInputNode = {
  next?: WalkTreeInputNode;
};
`);
  });
});

/** Compiles a module, and returns what the compiler says. */
async function compiled(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "toolrack-types-"));
  try {
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    const compiler = fileURLToPath(import.meta.resolve("typescript/package.json")).replace(
      "package.json",
      "bin/tsc",
    );
    const options = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--target", "esnext"];
    const paths = Object.keys(files).map((name) => join(folder, name));
    return await new Promise((resolve) => {
      execFile(process.execPath, [compiler, ...options, ...paths], { cwd: folder }, (_, output) =>
        resolve(output),
      );
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const awkward = fc.constantFrom("a", "a-b", "*/ }", "constructor", "中文", "1", "`$", "\u2028");
const schemas = fc.letrec<{ schema: unknown }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3 },
    fc.boolean(),
    fc.record({
      type: fc.constantFrom("string", "integer", "null", ["string", "boolean"]),
      description: awkward,
    }),
    fc.record({ enum: fc.array(fc.oneof(awkward, fc.integer(), fc.constant(null)), { minLength: 1 }) }),
    fc.record({ const: fc.jsonValue({ maxDepth: 2 }) }),
    fc.record({ $ref: fc.constantFrom("#", "#/$defs/a", "#/$defs/b", "#/$defs/missing") }),
    fc.record({
      type: fc.constant("object"),
      properties: fc.dictionary(awkward, tie("schema"), { maxKeys: 3 }),
      required: fc.array(awkward, { maxLength: 2 }),
      additionalProperties: tie("schema"),
    }),
    fc.record({
      type: fc.constant("array"),
      prefixItems: fc.array(tie("schema"), { maxLength: 2 }),
      items: tie("schema"),
    }),
    fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
    fc.record({ allOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
  ),
})).schema;

describe("declarations", () => {
  it("of any schemas compile", async () => {
    const defs = fc.record({ a: schemas, b: schemas });
    const inputs = fc.record({
      type: fc.constant("object"),
      properties: fc.dictionary(awkward, schemas, { maxKeys: 3 }),
      $defs: defs,
    });
    const tools = fc.sample(
      fc.record({ name: awkward, description: awkward, inputSchema: inputs, outputSchema: inputs }),
      { numRuns: 200, seed: 7 },
    );
    const numbered = tools.map((tool, at) => ({ ...tool, name: `${tool.name}_${at}` }));
    // Names that equal after letters were dropped must not become one type.
    expect(await compiled({ "rack.ts": declarationsOf(numbered) })).toBe("");
  });

  it("make a wrong argument an error of the compiler", async () => {
    const tools = [
      {
        name: "add",
        inputSchema: { type: "object", properties: { a: { type: "number" } }, required: ["a"] },
        outputSchema: { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] },
      },
    ];
    const use = `import type { Rack } from "./rack";
declare const rack: Rack;
export const right = async () => (await rack.add({ a: 1 })).sum.toFixed();
export const text = () => rack.add({ a: "1" });
export const more = () => rack.add({ a: 1, b: 2 });
export const other = () => rack.ad({ a: 1 });
`;
    const said = await compiled({ "rack.ts": declarationsOf(tools), "use.ts": use });
    expect(said.trim().split("\n")).toEqual([
      expect.stringMatching(/^use.ts\(4,.*is not assignable to type 'number'/),
      expect.stringMatching(/^use.ts\(5,.*'b' does not exist/),
      expect.stringMatching(/^use.ts\(6,.*'ad' does not exist/),
    ]);
  });
});
