import { unwatchFile, watchFile as watchStat } from "node:fs";

/** Milliseconds from one look at a file to the next. */
const INTERVAL = 250;
/**
 * Milliseconds without a further change after which `onChange` is called. Editors write a file in several
 * steps, and a checkout changes many files: these count as one change.
 */
const QUIET = 40;

interface Watcher {
  close(): Promise<void>;
}

/**
 * Calls `onChange` within a second after the file was changed, added or removed. Polls the file, because
 * systems do not report a link that now points to another file, a file behind a link that was missing, and
 * files on some network drives.
 */
export function watchFile(path: string, onChange: () => Promise<unknown>): Watcher {
  const { run, settle } = oneAtATime(onChange);
  const look = (now: { ino: number }, before: { ino: number }) => {
    // Node calls this once for a file that is missing from the start, which is no change.
    if (now.ino !== 0 || before.ino !== 0) void run();
  };
  watchStat(path, { interval: INTERVAL, persistent: false }, look);
  return {
    close() {
      unwatchFile(path, look);
      return settle();
    },
  };
}

/**
 * Calls `onChange` after something below the paths changed, without saying what: `onChange` looks for itself, so a
 * missed or repeated event does no harm.
 */
export function watchFiles(paths: readonly string[], onChange: () => Promise<unknown>): Watcher {
  const { run } = oneAtATime(onChange);
  let timer: NodeJS.Timeout | undefined;
  // Loaded here, because most commands watch nothing.
  const watching = import("chokidar").then(({ watch }) => {
    const watcher = watch([...paths], {
      ignoreInitial: true,
      ignored: (path) => /(?:^|[\\/])(?:node_modules|\.git|\.toolrack|log)(?:$|[\\/])/.test(path),
    });
    watcher.on("all", () => {
      clearTimeout(timer);
      timer = setTimeout(run, QUIET);
    });
    // A folder that cannot be watched must not end the process.
    watcher.on("error", () => {});
    return watcher;
  });
  return {
    async close() {
      await (await watching).close();
      clearTimeout(timer);
    },
  };
}

/**
 * Runs `onChange` one call at a time: changes during a call lead to one more call after it. `onChange`
 * reports its failures itself, so its rejections are ignored.
 */
function oneAtATime(onChange: () => Promise<unknown>) {
  let running: Promise<void> | undefined;
  let again = false;
  const repeat = async () => {
    do {
      again = false;
      await onChange().catch(() => {});
    } while (again);
    running = undefined;
  };
  const run = () => {
    again = true;
    running ??= repeat();
    return running;
  };
  return { run, settle: async () => running };
}
