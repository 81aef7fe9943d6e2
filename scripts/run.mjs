// Runs a TypeScript file of this repo: node scripts/run.mjs FILE ARGS…
import { spawn } from "node:child_process";
import { findNode } from "./node-version.mjs";

// Else Node would open its debugger to the whole machine when any process of the same user sends this signal.
process.on("SIGUSR1", () => {});

const [file, ...args] = process.argv.slice(2);
if (file === undefined) {
  console.error("Usage: node scripts/run.mjs FILE [ARGUMENT…]");
  process.exit(2);
}

const child = spawn(
  findNode(),
  [
    "--disable-sigusr1",
    "--conditions=toolrack-source",
    "--disable-warning=ExperimentalWarning",
    file,
    ...args,
  ],
  { stdio: "inherit" },
);
// The terminal sends Ctrl-C to both of us, so only the others are handed on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(signal === null ? code : 1));
