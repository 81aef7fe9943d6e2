import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";

const core = dirname(fileURLToPath(import.meta.url));

function sources(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => /\.ts$/.test(file) && !/\.test(-d)?\.ts$/.test(file) && !file.includes("node_modules"))
    .map((file) => join(folder, file));
}

function importsOf(file: string): string[] {
  const text = readFileSync(file, "utf8");
  const statements = /^(?:import|export|\}).* from "([^"]+)";$|\bimport\(\s*"([^"]+)"\s*\)/gm;
  return [...text.matchAll(statements)].map((match) => (match[1] ?? match[2])!);
}

describe("boundaries", () => {
  it("core imports no Node built-in and no other package of ours", () => {
    const builtins = new Set(builtinModules);
    const offences = sources(core).flatMap((file) =>
      importsOf(file)
        .filter(
          (name) => name.startsWith("node:") || builtins.has(name) || /^(toolrack|@toolrack\/)/.test(name),
        )
        .map((name) => `${relative(core, file)} imports ${name}`),
    );
    expect(offences).toEqual([]);
  });

  it("core takes from npm only what its package.json names", () => {
    const manifest = JSON.parse(readFileSync(join(core, "../package.json"), "utf8"));
    // These are bundled into the packed product, so that whoever installs it does not fetch them.
    const bundled = ["ajv", "ajv-formats", "jsonrepair", "re2js"];
    expect(Object.keys(manifest.devDependencies)).toEqual(expect.arrayContaining(bundled));
    const allowed = [...Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies }), ...bundled];
    const taken = sources(core)
      .flatMap(importsOf)
      .filter((name) => !name.startsWith("."));
    const foreign = taken.filter(
      (name) => !allowed.some((known) => name === known || name.startsWith(`${known}/`)),
    );
    expect(foreign).toEqual([]);
  });

  it.each([
    ["a program with a registry", 'export { Tool, ToolRegistry } from "./index.ts"', 74],
    ["all of its root entry", 'export * from "./index.ts"', 75],
    ["the formats of all providers", 'export * from "./format/index.ts"', 37],
  ])("core bundles without Node, and stays small: %s", async (_what, contents, limit) => {
    const { outputFiles } = await build({
      stdin: { contents, resolveDir: core },
      bundle: true,
      minify: true,
      write: false,
      format: "esm",
      platform: "neutral",
      external: ["ajv", "ajv-formats", "jsonrepair", "re2js", "zod"],
      logLevel: "silent",
    });
    const bytes = gzipSync(outputFiles[0]!.contents).length;
    expect(bytes).toBeLessThan(limit * 1024);
    expect(bytes).toBeGreaterThan(10 * 1024);
  });

  it("importing core loads no validator: that waits for the first call", async () => {
    const script = `await import(${JSON.stringify(join(core, "index.ts"))});
      const loaded = process.moduleLoadList?.length ?? 0;
      console.log(JSON.stringify({ loaded, ajv: Object.keys(require.cache).filter((path) => path.includes("ajv")).length }));`;
    const { stdout } = await promisify(execFile)(process.execPath, [
      "--conditions=toolrack-source",
      "--input-type=commonjs",
      "--eval",
      `(async () => {${script}})()`,
    ]);
    expect(JSON.parse(stdout).ajv).toBe(0);
  });

  it("nothing is exported wholesale", () => {
    const wholesale = sources(core).filter((file) => /^export \* from/m.test(readFileSync(file, "utf8")));
    expect(wholesale).toEqual([]);
  });
});
