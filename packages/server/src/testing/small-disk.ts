import { execFileSync } from "node:child_process";
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Why no disk of its own can be had here; undefined when one can. Only root may mount one. */
export function smallDiskMissing(): string | undefined {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "Only root on Linux may mount one.";
  return undefined;
}

/** A small disk of its own, in memory, that can be filled to the last byte and be given room again. For tests. */
export class SmallDisk implements AsyncDisposable {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async mount(megabytes: number): Promise<SmallDisk> {
    const directory = await mkdtemp(join(tmpdir(), "toolrack-disk-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", directory]);
    return new SmallDisk(directory);
  }

  /** Leaves no byte free. */
  fill(): void {
    const file = openSync(this.#filler, "a");
    try {
      for (;;) writeSync(file, Buffer.alloc(4096));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    } finally {
      closeSync(file);
    }
  }

  makeRoom(): void {
    rmSync(this.#filler, { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Also while somebody still has a file of it open.
    execFileSync("umount", ["-l", this.directory]);
    await rm(this.directory, { recursive: true, force: true });
  }

  get #filler(): string {
    return join(this.directory, "filler");
  }
}
