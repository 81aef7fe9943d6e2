// Plain JavaScript that any Node understands: it must be able to say that this Node is too old.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

const NEEDED = 24;

/** The Node to run the repo with: this one when it is new enough, else the one that `npm ci` brought. */
export function findNode() {
  if (majorVersion() >= NEEDED) return process.execPath;
  const own = join(root, "node_modules", ".bin", process.platform === "win32" ? "node.cmd" : "node");
  if (existsSync(own)) return own;
  console.error(
    `Toolrack needs Node ${NEEDED} or newer; this is Node ${process.versions.node}.\n` +
      "On Linux and on Apple silicon `npm ci` brings a fitting one: run `npm ci` without --omit=optional.\n" +
      "On other systems install Node 26 from your usual place and run the command again.",
  );
  process.exit(1);
}

function majorVersion() {
  return Number(process.versions.node.split(".")[0]);
}
