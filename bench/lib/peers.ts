import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Brings in the peers on first use, and again when the lockfile has changed since. */
export function installPeers(say: (line: string) => void): void {
  const directory = fileURLToPath(new URL("..", import.meta.url));
  const wanted = modifiedAt(`${directory}package-lock.json`);
  const installed = modifiedAt(`${directory}node_modules/.package-lock.json`);
  if (installed >= wanted) return;
  say("Installing the peers into bench/node_modules (npm ci); this happens once.");
  const { status } = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], {
    cwd: directory,
    stdio: ["ignore", process.stderr, process.stderr],
    shell: process.platform === "win32",
  });
  if (status !== 0) throw new Error("npm ci in bench/ failed; its output is above.");
}

function modifiedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
