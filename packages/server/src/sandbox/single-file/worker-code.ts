import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { ToolSource } from "./messages.ts";

let bundled: Promise<string> | undefined;

/** The module that a worker evaluates: our program, and the tool's file as text for it. None of it runs here. */
export async function workerCode(source: ToolSource): Promise<string> {
  bundled ??= bundleProgram();
  const program = await bundled;
  return `${program}\nmodule.exports = module.exports.createProgram(${literal(source)}, require);\n`;
}

/** Our own part alone: whatever it changes in, descriptions that were kept are made anew. */
export async function workerProgram(): Promise<string> {
  bundled ??= bundleProgram();
  return bundled;
}

async function bundleProgram(): Promise<string> {
  // In the sources it is TypeScript, and JavaScript in what is built of them.
  const [entry] = ["./worker/program.ts", "./worker/program.js"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .filter((path) => existsSync(path));
  const { outputFiles } = await build({
    entryPoints: [entry!],
    bundle: true,
    write: false,
    format: "cjs",
    platform: "node",
    target: "node24",
    logLevel: "silent",
  });
  return outputFiles[0]!.text;
}

/** JSON is JavaScript, and these two are line ends in older JavaScript only; escaped, nothing depends on it. */
function literal(source: ToolSource): string {
  return JSON.stringify(source).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}
