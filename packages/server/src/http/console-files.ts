import { existsSync } from "node:fs";
import { join } from "node:path";

/** Where the built console is: beside the program when it was packed with it, or in the repository. */
export function findConsole(): string {
  const packed = join(import.meta.dirname, "files");
  const built = join(import.meta.dirname, "..", "..", "..", "console", "dist");
  return existsSync(join(packed, "index.html")) ? packed : built;
}
