#!/usr/bin/env node
// Plain JavaScript that any Node understands: it must be able to say that this Node is too old.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

// Else Node would open its debugger to the whole machine when any process of the same user sends this signal.
process.on("SIGUSR1", () => {});

const NEEDED = 24;
const source = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const isOld = Number(process.versions.node.split(".")[0]) < NEEDED;
// A checkout of the repo runs the sources themselves, so that nothing needs building first; where this Node is too old,
// with the one that `npm ci` brought.
const brought = fileURLToPath(new URL("../../../node_modules/.bin/node", import.meta.url));
const node = isOld && existsSync(source) && existsSync(brought) ? brought : process.execPath;
if (isOld && node === process.execPath) {
  console.error(
    `toolrack needs Node ${NEEDED} or newer; this is Node ${process.versions.node}. Install a newer Node and run it again.`,
  );
  process.exit(1);
}

if (existsSync(source)) runSources();
else await import("../dist/main.js");

function runSources() {
  const child = spawn(
    node,
    [
      "--disable-sigusr1",
      "--conditions=toolrack-source",
      "--disable-warning=ExperimentalWarning",
      source,
      ...process.argv.slice(2),
    ],
    { stdio: "inherit" },
  );
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  // Ctrl-C reaches the child from the terminal itself; handed on as well, it would count as pressed twice.
  process.on("SIGINT", () => {});
  child.on("error", (error) => {
    console.error(error.message);
    process.exit(1);
  });
  child.on("exit", (code) => process.exit(code ?? 1));
}
