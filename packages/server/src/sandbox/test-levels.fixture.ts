import { existsSync } from "node:fs";

const hasBubblewrap = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"].some((path) => existsSync(path));
if (!hasBubblewrap)
  console.warn("\nSKIPPED: the sandbox's tests at level 3. Install bubblewrap to run them.\n");

/** Both levels, where bubblewrap is there. */
export const levelsToTest: readonly (3 | 2)[] = hasBubblewrap ? [3, 2] : [2];

const ignore = () => {};
export const quietLogger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
