import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { BlobMissingError } from "./errors.ts";

type Encoding = "latin1" | "utf16le";

/** What a record keeps of a blob: its name and size. */
export interface Blob {
  readonly name: string;
  readonly bytes: number;
}

/** Returns those of the given names to which a record refers. */
type FindReferenced = (names: readonly string[]) => Promise<ReadonlySet<string>>;

/** Where blobs lie: a folder, a table, or S3-compatible storage. Every method may reject with the storage's error. */
export interface BlobPlace {
  /** Notes that the blob is used now, so that it is not deleted. False when it has to be written. */
  touch(name: string): Promise<boolean>;
  /** Resolves when the whole blob is there under its name. May be called twice for one name, also at once. */
  write(name: string, slices: () => AsyncIterable<Buffer>, bytes: number): Promise<void>;
  /** Reads up to `length` bytes, which may be infinite, from `start` on. Undefined when there is no such blob. */
  read(name: string, start: number, length: number): Promise<Buffer | undefined>;
  /** All blobs, some at a time. */
  list(): AsyncIterable<readonly string[]>;
  /** Deletes those of the blobs that were last used before this time, in milliseconds. */
  remove(names: readonly string[], usedBefore: number): Promise<void>;
}

/** Milliseconds. A younger blob may belong to a record that is just being written. */
const LEAST_AGE_TO_DELETE = 60 * 60 * 1000;
const NAMES_AT_ONCE = 500;

/**
 * Keeps long texts under the hash of their content, so that the same text is kept once. Every character takes the same
 * number of bytes, one or two, so that any page can be read without the pages before it.
 */
export class Blobs {
  readonly #place: BlobPlace;
  /** Where blobs of a size of at least `from` bytes lie instead. Their names have a mark. */
  readonly #large: { readonly place: BlobPlace; readonly from: number } | undefined;
  /** A folder that may have blobs of an older version. */
  readonly #old: BlobPlace | undefined;

  constructor(
    place: BlobPlace,
    large?: { readonly place: BlobPlace; readonly from: number },
    old?: BlobPlace,
  ) {
    this.#place = place;
    this.#large = large;
    this.#old = old;
  }

  /**
   * Resolves when the whole text is kept. Works in slices, because hashing and copying a long text at once would stop
   * everything else, and take its size in memory a second time.
   */
  async write(text: string): Promise<Blob> {
    const encoding = await encodingOf(text);
    const hash = createHash("sha256");
    for await (const bytes of slicesOf(text, encoding)) hash.update(bytes);
    const bytes = text.length * widthOf(encoding);
    const mark = this.#large !== undefined && bytes >= this.#large.from ? LARGE : "";
    const name = `${hash.digest("hex")}${mark}.${encoding}`;
    const place = this.#placeOf(name);
    if (!(await place.touch(name))) await place.write(name, () => slicesOf(text, encoding), bytes);
    return { name, bytes };
  }

  /** Reads a page of the text, offset and limit in characters. Throws `BlobMissingError` when it is not there. */
  async read(name: string, offset = 0, limit = Number.POSITIVE_INFINITY): Promise<string> {
    const encoding: Encoding = name.endsWith(".latin1") ? "latin1" : "utf16le";
    const width = widthOf(encoding);
    const [start, length] = [offset * width, limit * width];
    const bytes =
      (await this.#placeOf(name).read(name, start, length)) ?? (await this.#old?.read(name, start, length));
    if (bytes === undefined) throw new BlobMissingError(name);
    return bytes.toString(encoding);
  }

  /**
   * Deletes old blobs that no record refers to, some at a time. Calls `findReferenced` after listing them, so that one
   * that is written in between is not deleted.
   */
  async collect(findReferenced: FindReferenced): Promise<void> {
    for (const place of [this.#place, this.#large?.place]) {
      if (place === undefined) continue;
      for await (const names of place.list())
        for (let at = 0; at < names.length; at += NAMES_AT_ONCE)
          await this.remove(names.slice(at, at + NAMES_AT_ONCE), findReferenced);
    }
  }

  /** Deletes those of the blobs that are old and that no record refers to. */
  async remove(names: readonly string[], findReferenced: FindReferenced): Promise<void> {
    if (names.length === 0) return;
    const referenced = await findReferenced(names);
    const unused = names.filter((name) => !referenced.has(name));
    for (const [place, some] of Map.groupBy(unused, (name) => this.#placeOf(name)))
      await place.remove(some, Date.now() - LEAST_AGE_TO_DELETE);
  }

  #placeOf(name: string): BlobPlace {
    if (!name.includes(LARGE)) return this.#place;
    if (this.#large !== undefined) return this.#large.place;
    throw new BlobMissingError(name, "It lies in S3-compatible storage, and BLOBS_URL does not name any.");
  }
}

/** Marks the name of a blob that lies in the storage for large ones. */
const LARGE = ".s3";

/** Blobs as files of a folder. */
export class BlobFolder implements BlobPlace {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Sets the file's time to now. */
  touch(name: string): Promise<boolean> {
    const now = new Date();
    return utimes(this.#pathOf(name), now, now).then(
      () => true,
      () => false,
    );
  }

  async write(name: string, slices: () => AsyncIterable<Buffer>): Promise<void> {
    const path = this.#pathOf(name);
    await mkdir(join(path, ".."), { recursive: true, mode: 0o700 });
    const temporary = join(this.#directory, `${randomUUID()}.tmp`);
    try {
      await writeFile(temporary, slices(), { mode: 0o600, flag: "wx", flush: true });
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  async read(name: string, from: number, most: number): Promise<Buffer | undefined> {
    const file = await open(this.#pathOf(name), "r").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (file === undefined) return undefined;
    try {
      const { size } = await file.stat();
      const start = Math.min(from, size);
      const length = Math.min(most, size - start);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, start);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }

  async *list(): AsyncGenerator<readonly string[]> {
    const entries = await readdir(this.#directory, { withFileTypes: true }).catch(() => []);
    for (const { name } of entries.filter((entry) => entry.isDirectory()))
      yield await readdir(join(this.#directory, name)).catch(() => []);
    // What a process that was killed had not finished.
    for (const file of entries.filter((entry) => entry.isFile()))
      await removeOld(join(this.#directory, file.name), Date.now() - LEAST_AGE_TO_DELETE);
  }

  async remove(names: readonly string[], usedBefore: number): Promise<void> {
    for (const name of names) await removeOld(this.#pathOf(name), usedBefore);
  }

  #pathOf(name: string): string {
    return join(this.#directory, name.slice(0, 2), name);
  }
}

async function removeOld(path: string, usedBefore: number): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found !== undefined && found.mtimeMs < usedBefore) await rm(path, { force: true });
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
