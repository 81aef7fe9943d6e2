import { watch } from "chokidar";

/** Editors write a file in several steps, and a checkout changes many: what comes together is one change. */
const QUIET = 40;

/**
 * Calls `onChange` after something below the paths changed. It says only that; what changed is found by looking,
 * so a missed or doubled event does no harm. Changes during a call lead to one more call after it.
 */
export function watchFiles(
  paths: readonly string[],
  onChange: () => Promise<unknown>,
): { close(): Promise<void> } {
  const watcher = watch([...paths], {
    ignoreInitial: true,
    ignored: (path) => /(?:^|[\\/])(?:node_modules|\.git|\.toolrack|log)(?:$|[\\/])/.test(path),
  });
  let timer: NodeJS.Timeout | undefined;
  let running = false;
  let again = false;

  const run = async () => {
    if (running) {
      again = true;
      return;
    }
    running = true;
    do {
      again = false;
      await onChange().catch(() => {});
    } while (again);
    running = false;
  };
  watcher.on("all", () => {
    clearTimeout(timer);
    timer = setTimeout(run, QUIET);
  });
  // A folder that cannot be watched is a worse watch, not a reason to end the process.
  watcher.on("error", () => {});

  return {
    async close() {
      clearTimeout(timer);
      await watcher.close();
    },
  };
}
