#!/usr/bin/env node
// Plain JavaScript that any Node understands: it must be able to say that this Node is too old.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const NEEDED = 24;
if (Number(process.versions.node.split(".")[0]) < NEEDED) {
  console.error(
    `toolrack needs Node ${NEEDED} or newer; this is Node ${process.versions.node}. Install a newer Node and run it again.`,
  );
  process.exit(1);
}

const source = fileURLToPath(new URL("../src/main.ts", import.meta.url));
if (existsSync(source)) {
  // A checkout of the repo: run the sources themselves, so that nothing needs building first.
  const { status } = spawnSync(
    process.execPath,
    ["--conditions=toolrack-source", source, ...process.argv.slice(2)],
    {
      stdio: "inherit",
    },
  );
  process.exit(status ?? 1);
}
await import("../dist/main.js");
