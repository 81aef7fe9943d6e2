import { mkdir, writeFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import analyze from "./analyze.ts";

interface Analysis {
  readonly language: string;
  readonly counts: object;
  readonly symbols: readonly { readonly kind: string; readonly name: string; readonly exported: boolean }[];
  readonly imports: readonly object[];
  readonly exports: readonly string[];
  readonly problems: readonly { readonly line: number; readonly message: string }[];
  readonly files: readonly { readonly path: string }[];
  readonly truncated: boolean;
  readonly note?: string;
}

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace();
});

afterEach(() => space[Symbol.asyncDispose]());

async function analyzed(name: string, text: string): Promise<Analysis> {
  await writeFile(space.path(name), text);
  return space.structured<Analysis>(analyze, { path: name });
}

const typescript = `import type { Stats } from "node:fs";
import all, { one as two } from "./other.ts";
import "./effects.ts";

/** Says hello. */
export async function greet(name: string, times = 1): Promise<void> {
  // Here.
  console.log(name);
}

export abstract class Shape<T> extends Base {
  readonly sides = 3;
  #secret = 1;
  constructor(private readonly size: number) {
    super();
  }
  get area(): number {
    return 1;
  }
  abstract draw(): void;
  handle = (event: Event) => {};
}

interface Options {
  depth: number;
  visit(node: Node): void;
}
type Id = string | number;
enum Color {
  Red,
  Green,
}
const limit = 10,
  double = (value: number) => value * 2;
namespace Inner {
  export function deep() {}
}
export { limit as maximum, Options };
export * from "./more.ts";
export default Shape;
`;

describe("a TypeScript file", () => {
  it("shows functions, classes with members, interfaces, types, enums, variables and namespaces", async () => {
    const { symbols, language } = await analyzed("shape.ts", typescript);
    expect(language).toBe("TypeScript");
    expect(symbols.map(({ kind, name, exported }) => `${exported ? "export " : ""}${kind} ${name}`)).toEqual([
      "export function greet",
      "export class Shape",
      "export interface Options",
      "type Id",
      "enum Color",
      "export variable limit",
      "function double",
      "namespace Inner",
    ]);
    expect(symbols[0]).toMatchObject({
      line: 6,
      endLine: 9,
      signature: "async function greet(name: string, times = 1): Promise<void>",
    });
    expect(symbols[1]).toMatchObject({
      members: [
        { kind: "property", name: "sides", line: 12 },
        { kind: "property", name: "#secret" },
        { kind: "constructor", name: "constructor", line: 14, endLine: 16 },
        { kind: "getter", name: "area" },
        { kind: "method", name: "draw" },
        { kind: "method", name: "handle" },
      ],
    });
    expect(symbols[4]).toMatchObject({ members: [{ name: "Red" }, { name: "Green" }] });
    expect(symbols[7]).toMatchObject({ members: [{ kind: "function", name: "deep", exported: true }] });
  });

  it("shows imports and exports", async () => {
    const { imports, exports } = await analyzed("shape.ts", typescript);
    expect(imports).toEqual([
      { from: "node:fs", names: ["Stats"], line: 1 },
      { from: "./other.ts", names: ["all", "one as two"], line: 2 },
      { from: "./effects.ts", names: [], line: 3 },
    ]);
    expect(exports).toEqual(["greet", "Shape", "maximum", "Options", '* from "./more.ts"', "default"]);
  });

  it("counts lines of code, comments and blanks", async () => {
    const text = "// one\n\nconst a = 1; // two\n/* three\n\n four */ const b = `\n// no comment\n`;\n";
    expect((await analyzed("count.ts", text)).counts).toEqual({ lines: 8, code: 4, comments: 2, blank: 2 });
    expect((await analyzed("empty.ts", "")).counts).toEqual({ lines: 0, code: 0, comments: 0, blank: 0 });
  });

  it("reads to a model as an outline with the lines to read", async () => {
    await writeFile(space.path("shape.ts"), typescript);
    const text = await space.text(analyze, { path: "shape.ts" });
    expect(text).toContain("shape.ts: TypeScript, 40 lines (35 code, 2 comments, 3 blank)");
    expect(text).toContain("  6-9  export async function greet(name: string, times = 1): Promise<void>");
    expect(text).toContain("    17-19  get area(): number");
    expect(text).toContain("  34  function double = (value: number)");
    expect(text).toContain('Exports: greet, Shape, maximum, Options, * from "./more.ts", default');
  });

  it("goes on after a syntax error and tells its line", async () => {
    const { problems, symbols } = await analyzed(
      "bad.ts",
      "const a = 1;\nconst a = 2;\nfunction fine() {}\n",
    );
    expect(problems).toEqual([{ line: 2, column: 7, message: "Identifier 'a' has already been declared." }]);
    expect(symbols.map(({ name }) => name)).toContain("fine");
  });

  it("tells the line when nothing can be saved, and still counts", async () => {
    const { problems, symbols, note, counts } = await analyzed("broken.ts", "let x = 1;\nfunction f( {\n");
    expect(problems).toMatchObject([{ line: 3 }]);
    expect(symbols).toBeUndefined();
    expect(note).toContain("too broken");
    expect(counts).toMatchObject({ lines: 2, code: 2 });
  });
});

describe("other scripts", () => {
  it("reads JSX and TSX", async () => {
    const { symbols } = await analyzed("view.tsx", "export const View = <T,>(props: T) => <p>{1}</p>;\n");
    expect(symbols).toMatchObject([{ kind: "function", name: "View", exported: true }]);
    expect((await analyzed("view.jsx", "export default () => <p/>;\n")).symbols).toMatchObject([
      { name: "default" },
    ]);
  });

  it("reads casts of .ts files and declarations of .d.ts files", async () => {
    expect((await analyzed("cast.ts", "const a = <string>b;\n")).problems).toEqual([]);
    expect((await analyzed("x.d.ts", "export const a: 1;\nexport function f(): void;\n")).problems).toEqual(
      [],
    );
  });

  it("reads CommonJS", async () => {
    const text =
      '#!/usr/bin/env node\nconst { join } = require("path");\nfunction run() {}\nmodule.exports = { run };\nexports.more = 1;\n';
    const { imports, exports, symbols, problems } = await analyzed("tool.cjs", text);
    expect(imports).toEqual([{ from: "path", names: ["{ join }"], line: 2 }]);
    expect(exports).toEqual(["module.exports", "more"]);
    expect(symbols).toMatchObject([{ name: "run", exported: true }]);
    expect(problems).toEqual([]);
  });

  it("reads decorators and Flow", async () => {
    expect((await analyzed("a.ts", "@entity() class A { @column() name!: string }\n")).problems).toEqual([]);
    expect((await analyzed("b.js", "// @flow\ntype A = {| x: number |};\n")).symbols).toMatchObject([
      { kind: "type" },
    ]);
  });
});

describe("another language", () => {
  it("is counted only, and the answer says so", async () => {
    const analysis = await analyzed("tool.py", "# comment\n\ndef run():\n    return 1  # why\n");
    expect(analysis).toMatchObject({
      language: "Python",
      counts: { lines: 4, code: 2, comments: 1, blank: 1 },
    });
    expect(analysis.note).toContain("Only lines are counted");
    expect(analysis.symbols).toBeUndefined();
    expect((await analyzed("a.sql", "-- x\nselect 1;\n")).counts).toMatchObject({ code: 1, comments: 1 });
    expect((await analyzed("a.what", "x\n")).language).toBe("unknown");
  });

  it("is refused when it is binary", async () => {
    await writeFile(space.path("a.bin"), Buffer.from([1, 0, 2]));
    expect(await space.failure(analyze, { path: "a.bin" })).toContain("binary file");
  });
});

describe("a folder", () => {
  beforeEach(async () => {
    await mkdir(space.path("src/node_modules/x"), { recursive: true });
    await writeFile(space.path("src/a.ts"), "export const one = 1;\n");
    await writeFile(space.path("src/b.ts"), "const a = 1;\nconst a = 2;\n");
    await writeFile(space.path("src/c.py"), "x = 1\n");
    await writeFile(space.path("src/node_modules/x/index.js"), "");
    await writeFile(space.path("src/picture.png"), "");
  });

  it("is summed up file by file", async () => {
    const analysis = await space.structured<Analysis>(analyze, { path: "src" });
    expect(analysis.counts).toEqual({ lines: 4, code: 4, comments: 0, blank: 0 });
    expect(analysis.files).toMatchObject([
      { path: "src/a.ts", language: "TypeScript", symbols: 1, exports: ["one"], problems: 0 },
      { path: "src/b.ts", problems: 1 },
      { path: "src/c.py", language: "Python" },
    ]);
    expect(await space.text(analyze, { path: "src" })).toBe(
      [
        "src/: 3 files, 4 lines (4 code, 0 comments, 0 blank)",
        "  TypeScript: 2 files, 3 lines of code",
        "  Python: 1 file, 1 line of code",
        "",
        "src/a.ts  1 line; exports one",
        "src/b.ts  2 lines; 1 syntax error, first at line 2: Identifier 'a' has already been declared.",
        "src/c.py  1 line",
      ].join("\n"),
    );
  });

  it("stops at the limit and says so", async () => {
    expect(await space.structured<Analysis>(analyze, { path: "src", limit: 2 })).toMatchObject({
      truncated: true,
    });
    expect(await space.text(analyze, { path: "src", limit: 2 })).toContain(
      "[Stopped at 2 files; there are more.",
    );
  });

  it("may hold no code", async () => {
    await mkdir(space.path("void"));
    expect(await space.text(analyze, { path: "void" })).toBe("void/ has no code to analyse.");
  });
});

it("refuses what lies outside", async () => {
  expect(await space.failure(analyze, { path: "/etc" })).toContain("lies outside");
});
