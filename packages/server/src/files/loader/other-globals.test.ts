import { createRequire } from "node:module";
import { join } from "node:path";
import vm from "node:vm";
import { build } from "esbuild";
import { expect, it } from "vitest";

it("loads files where the test runner has given it globals of its own, as Jest does", async () => {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, "compile.ts")],
    ...{ bundle: true, platform: "node", format: "cjs", packages: "external", write: false },
    define: { "import.meta.url": JSON.stringify(import.meta.url) },
  });
  const context = vm.createContext({ process, console, setTimeout, URL, Buffer });
  const load = vm.runInContext(`(function (module, require) {${outputFiles[0]?.text}\n})`, context);
  const module: { exports: { withinTime?: (call: () => void, limit: number) => void } } = { exports: {} };
  load(module, createRequire(import.meta.url));
  let ran = false;
  module.exports.withinTime?.(() => {
    ran = true;
  }, 1_000);
  expect(ran).toBe(true);
});
