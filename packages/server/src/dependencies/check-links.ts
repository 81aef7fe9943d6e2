import { readdir, readlink, realpath } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";
import { DependencyError } from "./dependency-error.ts";

/** Refuses a folder with a link that leads out of it, where a tool could follow it. Throws `DependencyError`. */
export async function checkLinks(folder: string): Promise<void> {
  const root = await realpath(folder);
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    // One that leads nowhere may lead somewhere later.
    const target = await realpath(path).catch(async () => resolve(dirname(path), await readlink(path)));
    if (target === root || target.startsWith(root + sep)) continue;
    const name = path.slice(root.length + 1);
    throw new DependencyError(
      `The packages were not installed: ${name} is a link to a place outside of them.`,
      "Find the package that brings it, and use another version of it.",
    );
  }
}
