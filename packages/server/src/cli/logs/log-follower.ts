import { type FileHandle, open, stat } from "node:fs/promises";

const CHUNK = 64 * 1024;
const NEWLINE = 0x0a;

interface FoundFile {
  readonly path: string;
  readonly inode: number;
}

/**
 * Reads what is appended to a log that is put aside when it grows: `file` becomes `file.1`, that `file.2`. No line
 * is lost or read twice when that happens between two reads, however often.
 */
export class LogFollower {
  readonly #file: string;
  #handle: FileHandle | undefined;
  #offset = 0;
  #rest = Buffer.alloc(0);

  private constructor(file: string) {
    this.#file = file;
  }

  /** Begins at the present end of the log. */
  static async atEnd(file: string): Promise<LogFollower> {
    const follower = new LogFollower(file);
    follower.#handle = await open(file, "r").catch(() => undefined);
    follower.#offset = (await follower.#handle?.stat())?.size ?? 0;
    return follower;
  }

  /** The whole lines that came since the last time. */
  async read(): Promise<string[]> {
    const lines: string[] = [];
    await this.#readOn(lines);
    while (await this.#moveOn(lines)) await this.#readOn(lines);
    return lines;
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    this.#handle = undefined;
  }

  async #readOn(lines: string[]): Promise<void> {
    const handle = this.#handle;
    if (handle === undefined) return;
    if ((await handle.stat()).size < this.#offset) {
      // Somebody emptied the file in place.
      this.#offset = 0;
      this.#rest = Buffer.alloc(0);
    }
    const buffer = Buffer.alloc(CHUNK);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, CHUNK, this.#offset);
      if (bytesRead === 0) return;
      this.#offset += bytesRead;
      this.#take(buffer.subarray(0, bytesRead), lines);
    }
  }

  /** Cuts at line ends only, so that no character is ever cut in two. */
  #take(bytes: Buffer, lines: string[]): void {
    const all = Buffer.concat([this.#rest, bytes]);
    const end = all.lastIndexOf(NEWLINE);
    if (end >= 0) lines.push(...all.toString("utf8", 0, end).split("\n"));
    this.#rest = Buffer.from(all.subarray(end + 1));
  }

  /** Goes on to the file that follows the one being read. False when that one is still the last. */
  async #moveOn(lines: string[]): Promise<boolean> {
    const current = (await this.#handle?.stat())?.ino;
    const next = await this.#fileAfter(current);
    if (next === undefined) return false;
    const handle = await open(next.path, "r").catch(() => undefined);
    if ((await handle?.stat())?.ino !== next.inode) {
      // Files were moved while we looked; the next look finds them in their places.
      await handle?.close();
      return false;
    }
    // What was written to the old file between our last read of it and its being put aside.
    await this.#readOn(lines);
    await this.close();
    this.#handle = handle;
    this.#offset = 0;
    this.#rest = Buffer.alloc(0);
    return true;
  }

  /** The files in order of age are `file`, `file.1`, `file.2`: what follows ours is the one met just before it. */
  async #fileAfter(inode: number | undefined): Promise<FoundFile | undefined> {
    let newer: FoundFile | undefined;
    for (let number = 0; ; number++) {
      const path = number === 0 ? this.#file : `${this.#file}.${number}`;
      const found = await inodeAt(path);
      if (found !== undefined && found === inode) return newer;
      if (found !== undefined) newer = { path, inode: found };
      // The file itself is missing for a moment while it is put aside; those aside have no gaps.
      else if (number > 0) break;
      if (inode === undefined) break;
    }
    // Ours is gone for good, or there was none: the oldest that is left comes next.
    return newer;
  }
}

async function inodeAt(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ ino }) => ino,
    () => undefined,
  );
}
