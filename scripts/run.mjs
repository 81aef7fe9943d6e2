// Runs a TypeScript file of this repo: node scripts/run.mjs FILE ARGS…
import { spawn } from "node:child_process";
import { findNode } from "./node-version.mjs";

const [file, ...args] = process.argv.slice(2);
if (file === undefined) {
  console.error("Usage: node scripts/run.mjs FILE [ARGUMENT…]");
  process.exit(2);
}

const child = spawn(
  findNode(),
  ["--conditions=toolrack-source", "--disable-warning=ExperimentalWarning", file, ...args],
  { stdio: "inherit" },
);
// The terminal sends Ctrl-C to both of us, so only the others are handed on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(signal === null ? code : 1));
