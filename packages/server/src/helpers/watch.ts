import { stat } from "node:fs/promises";
import { watch } from "chokidar";

/**
 * Calls `onChange` after a file was changed, added or removed: at once if the system reports it, otherwise within about
 * a second. Systems do not report a link that now points to another file, a file behind a link that was missing, and
 * files on some network drives.
 */
export function watchFile(path: string, onChange: () => Promise<unknown>): { close(): Promise<void> } {
  let seen: string | undefined;
  const watcher = watchFiles([path], async () => {
    // Taken before `onChange` reads the file, so that a change in between is seen.
    seen = await fingerprintOf(path);
    await onChange();
  });
  const look = async () => {
    const now = await fingerprintOf(path);
    const isChanged = seen !== undefined && now !== seen;
    seen = now;
    if (isChanged) await onChange();
  };
  let looking: Promise<void> | undefined;
  const lookAgain = () => {
    // `onChange` reports its own failures.
    looking ??= look()
      .catch(() => {})
      .finally(() => {
        looking = undefined;
      });
  };
  const timer = setInterval(lookAgain, 1_000).unref();
  lookAgain();
  return {
    async close() {
      clearInterval(timer);
      await Promise.all([looking, watcher.close()]);
    },
  };
}

/** Follows links. */
async function fingerprintOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(" ");
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code ?? "unreadable"; // `stat` throws nothing else.
  }
}

/**
 * Milliseconds. Editors write a file in several steps, and a checkout changes many files: these count as one change.
 */
const QUIET = 40;

/**
 * Calls `onChange` after something below the paths changed, without saying what: `onChange` looks for itself, so a
 * missed or repeated event does no harm. Changes during a call lead to one more call after it.
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
  // A folder that cannot be watched must not end the process.
  watcher.on("error", () => {});

  return {
    async close() {
      clearTimeout(timer);
      await watcher.close();
    },
  };
}
