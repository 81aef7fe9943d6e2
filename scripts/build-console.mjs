// Builds the web console: node scripts/build-console.mjs [FOLDER TO COPY IT TO]. `npm ci` runs it, and so does packing.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { findNode, root } from "./node-version.mjs";

const target = process.argv[2] && resolve(process.argv[2]);
const folder = join(root, "packages", "console");
const vite = join(root, "node_modules", "vite", "bin", "vite.js");

// Without development packages the sources do not run at all, so nobody misses the console.
if (!existsSync(vite)) {
  console.warn(
    "The console was not built: the development packages are not installed, without which the sources do not run.",
  );
  process.exit(0);
}
run(vite, "build", "--logLevel", "warn");
run(join(folder, "scripts", "compress.mjs"));
run(join(folder, "scripts", "check-size.mjs"));
if (target !== undefined) {
  const isWanted = (path) => !path.includes(`${join("dist", ".vite")}`);
  cpSync(join(folder, "dist"), target, { recursive: true, filter: isWanted });
}

function run(...args) {
  const { status } = spawnSync(findNode(), args, { cwd: folder, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
