import { stat } from "node:fs/promises";
import { watch } from "chokidar";

interface LookoutOptions {
  /** What is done each time. May reject. */
  readonly look: () => Promise<void>;
  /** Is told when a look rejects. Must not throw. The next look comes all the same. */
  readonly failed: (error: unknown) => void;
  /** Milliseconds from one look to the next. Default: a second. */
  readonly interval?: number;
}

/**
 * Looks again and again, from `start` to `stop`, for what other processes did. While one look is under way no other is
 * begun, so that a store that hangs is not asked over and over. Does not keep the process alive.
 */
export class Lookout {
  readonly #look: LookoutOptions["look"];
  readonly #failed: LookoutOptions["failed"];
  readonly #interval: number;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor({ look, failed, interval = 1_000 }: LookoutOptions) {
    this.#look = look;
    this.#failed = failed;
    this.#interval = interval;
  }

  /** The first look comes after the interval. Does nothing when it has been started. */
  start(): void {
    this.#timer ??= setInterval(() => this.#lookAgain(), this.#interval).unref();
  }

  /** Can be started again. Resolves when the look under way, which goes on, has ended; never rejects. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#looking;
  }

  /**
   * Looks at once, whether it has been started or not. A look under way is not waited for: it may have seen what was
   * before. Never rejects.
   */
  async look(): Promise<void> {
    try {
      await this.#look();
    } catch (error) {
      this.#failed(error);
    }
  }

  #lookAgain(): void {
    this.#looking ??= this.look().finally(() => {
      this.#looking = undefined;
    });
  }
}

/**
 * Calls `onChange` after a file changed, came or went: at once where the system tells of it, and otherwise within about
 * a second. The system tells nothing of a link that is turned to another file, of a file behind a link that was away, and
 * of files on some network drives.
 */
export function watchFile(path: string, onChange: () => Promise<unknown>): { close(): Promise<void> } {
  let seen: string | undefined;
  const watcher = watchFiles([path], async () => {
    // Before it is read, so that a change in between is seen.
    seen = await fingerprintOf(path);
    await onChange();
  });
  const look = async () => {
    const now = await fingerprintOf(path);
    const isChanged = seen !== undefined && now !== seen;
    seen = now;
    if (isChanged) await onChange();
  };
  // Who is told of a change tells of its own failures.
  const lookout = new Lookout({ look, failed: () => {} });
  lookout.start();
  void lookout.look();
  return {
    async close() {
      await Promise.all([lookout.stop(), watcher.close()]);
    },
  };
}

/** Of the file that a link leads to. */
async function fingerprintOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(" ");
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code ?? "unreadable";
  }
}

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
