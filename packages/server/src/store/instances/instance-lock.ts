import { closeSync, existsSync, mkdirSync, openSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** Milliseconds. */
const LONGEST_PROBE = 1_000;
const BEING_MADE = 10_000;

/**
 * A file that is locked as long as its process lives: the system lets go of the lock however the process ends, and no
 * reused process id can be mistaken for it. Node has no file locks of its own, but SQLite does, on every platform.
 */
export class InstanceLock implements Disposable {
  readonly #path: string;
  readonly #holder: DatabaseSync;

  constructor(directory: string, id: string) {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.#path = join(directory, `${id}.lock`);
    closeSync(openSync(this.#path, "a", 0o600));
    // Whoever looks for locks that nobody holds may hold this one for a moment.
    this.#holder = new DatabaseSync(this.#path, { timeout: LONGEST_PROBE });
    this.#holder.exec("begin exclusive");
  }

  [Symbol.dispose](): void {
    this.#holder.close();
    rmSync(this.#path, { force: true });
  }
}

/** `absent`: no process with this id has its locks in this directory, or it ended in order. */
export function probeInstanceLock(directory: string, id: string): "held" | "free" | "absent" {
  const path = join(directory, `${id}.lock`);
  if (!existsSync(path)) return "absent";
  const probe = new DatabaseSync(path);
  try {
    probe.exec("begin exclusive");
    return "free";
  } catch {
    return "held";
  } finally {
    probe.close();
  }
}

/** The ids of all instances that have, or left, a lock here. One that is just being made is held by nobody yet. */
export function lockedInstances(directory: string): string[] {
  const youngest = Date.now() - BEING_MADE;
  return readdirSync(directory)
    .filter((name) => name.endsWith(".lock") && madeAt(join(directory, name)) < youngest)
    .map((name) => name.slice(0, -".lock".length));
}

/** Infinity when it is gone meanwhile. */
function madeAt(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Number.POSITIVE_INFINITY;
}

export function removeInstanceLock(directory: string, id: string): void {
  rmSync(join(directory, `${id}.lock`), { force: true });
}
