import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";

type Encoding = "latin1" | "utf16le";

/** What a record keeps of a blob: the name and size of its file. */
export interface Blob {
  readonly name: string;
  readonly bytes: number;
}

/** Returns those of the given names to which a record refers. */
type FindReferenced = (names: readonly string[]) => Promise<ReadonlySet<string>>;

const NAMES_AT_ONCE = 500;
/** Milliseconds. A younger blob may belong to a record that is just being written. */
const LEAST_AGE_TO_DELETE = 60 * 60 * 1000;

/**
 * Keeps long texts as files named by the hash of their content, so that the same text is kept once. Every character
 * takes the same number of bytes, one or two, so that any page can be read without the pages before it.
 */
export class BlobDirectory {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Resolves when the whole file is on the disk under its final name. Works in slices, because hashing and copying a long
   * text at once would stop everything else, and take its size in memory a second time.
   */
  async write(text: string): Promise<Blob> {
    const encoding = await encodingOf(text);
    const hash = createHash("sha256");
    for await (const bytes of slicesOf(text, encoding)) hash.update(bytes);
    const name = `${hash.digest("hex")}.${encoding}`;
    const path = this.#pathOf(name);
    const blob = { name, bytes: text.length * widthOf(encoding) };
    if (await refresh(path)) return blob;
    await mkdir(join(path, ".."), { recursive: true, mode: 0o700 });
    const temporary = join(this.#directory, `${randomUUID()}.tmp`);
    try {
      await writeFile(temporary, slicesOf(text, encoding), { mode: 0o600, flag: "wx", flush: true });
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    return blob;
  }

  /** Reads a page of the text, offset and limit in characters. Undefined when the file is not here. */
  async read(name: string, offset = 0, limit = Number.POSITIVE_INFINITY): Promise<string | undefined> {
    const encoding: Encoding = name.endsWith(".latin1") ? "latin1" : "utf16le";
    const width = widthOf(encoding);
    const file = await open(this.#pathOf(name), "r").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (file === undefined) return undefined;
    try {
      const { size } = await file.stat();
      const start = Math.min(offset * width, size);
      const length = Math.min(limit * width, size - start);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, start);
      return buffer.toString(encoding, 0, bytesRead);
    } finally {
      await file.close();
    }
  }

  /**
   * Deletes old files that no record refers to, a folder at a time. Calls `findReferenced` after listing the files of a
   * folder, so that a file written in between is not deleted.
   */
  async collect(findReferenced: FindReferenced): Promise<void> {
    const entries = await readdir(this.#directory, { withFileTypes: true }).catch(() => []);
    for (const { name } of entries.filter((entry) => entry.isDirectory())) {
      const names = await readdir(join(this.#directory, name)).catch(() => []);
      for (let at = 0; at < names.length; at += NAMES_AT_ONCE)
        await this.remove(names.slice(at, at + NAMES_AT_ONCE), findReferenced);
    }
    for (const file of entries.filter((entry) => entry.isFile())) {
      const path = join(this.#directory, file.name);
      if (await isOld(path)) await rm(path, { force: true });
    }
  }

  /** Deletes those of the files that are old and that no record refers to. */
  async remove(names: readonly string[], findReferenced: FindReferenced): Promise<void> {
    if (names.length === 0) return;
    const referenced = await findReferenced(names);
    for (const path of names.filter((name) => !referenced.has(name)).map((name) => this.#pathOf(name)))
      if (await isOld(path)) await rm(path, { force: true });
  }

  #pathOf(name: string): string {
    return join(this.#directory, name.slice(0, 2), name);
  }
}

/** Characters that are read in one turn of the event loop: some milliseconds. */
const SLICE = 2 * 1024 * 1024;

async function encodingOf(text: string): Promise<Encoding> {
  for (let from = 0; from < text.length; from += SLICE) {
    if (from > 0) await nextTurn();
    if (!fitsLatin1(text.slice(from, from + SLICE))) return "utf16le";
  }
  return "latin1";
}

async function* slicesOf(text: string, encoding: Encoding): AsyncGenerator<Buffer> {
  for (let from = 0; from < text.length; from += SLICE) {
    if (from > 0) await nextTurn();
    yield Buffer.from(text.slice(from, from + SLICE), encoding);
  }
}

function widthOf(encoding: Encoding): number {
  return encoding === "latin1" ? 1 : 2;
}

function fitsLatin1(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the class is all that one byte can hold.
  return !/[^\x00-\xff]/.test(text);
}

/** Sets the file's time to now, so that it is not collected. False when there is no such file. */
async function refresh(path: string): Promise<boolean> {
  const now = new Date();
  return utimes(path, now, now).then(
    () => true,
    () => false,
  );
}

async function isOld(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && Date.now() - found.mtimeMs > LEAST_AGE_TO_DELETE;
}
