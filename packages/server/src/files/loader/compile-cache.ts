import { appendFile, mkdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { asRecord, parsedJson } from "../../helpers/index.ts";

/** A file compiled to CommonJS for `vm.compileFunction`. */
export interface CompiledFile {
  readonly code: string;
  /** The source map, as JSON text. */
  readonly map: string;
}

/** Bytes of the cache file. When it grows larger, the versions that have not been used for the longest time are dropped. */
const LARGEST = 64 * 1024 * 1024;
/** The part of `LARGEST` that is kept then, so that the file is not written anew for every further version. */
const KEPT = 0.75;

/**
 * Compiled files by content, in one file: each line is a key, a tab and the JSON of the compiled file. Thousands of
 * small files would cost more time than compiling. Unreadable lines or an unwritable cache only make the next start
 * slower.
 */
export class CompileCache {
  readonly #file: string;
  readonly #largest: number;
  #known: Promise<Map<string, Buffer>> | undefined;
  /** The keys that this process has used. */
  readonly #used = new Set<string>();
  #fresh: string[] = [];
  #writing: Promise<void> | undefined;

  constructor(file: string, largest = LARGEST) {
    this.#file = file;
    this.#largest = largest;
  }

  async get(key: string): Promise<CompiledFile | undefined> {
    this.#known ??= readLines(this.#file).catch(() => new Map());
    const line = (await this.#known).get(key);
    if (line !== undefined) this.#used.add(key);
    return line === undefined ? undefined : parse(line, key);
  }

  /** Frees the lines, up to `LARGEST` bytes. The next `get` reads them again. */
  forget(): void {
    this.#known = undefined;
  }

  add(key: string, compiled: CompiledFile): void {
    this.#fresh.push(`${key}\t${JSON.stringify(compiled)}\n`);
    this.#writing ??= new Promise<void>((resolve) => setTimeout(resolve, 50)).then(() => this.#write());
  }

  async settle(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  async #write(): Promise<void> {
    const lines = this.#fresh.join("");
    this.#fresh = [];
    try {
      // This may create `.toolrack` itself, which other users must be able to pass through.
      await mkdir(dirname(this.#file), { recursive: true, mode: 0o711 });
      const size = await stat(this.#file).then(
        (found) => found.size,
        () => 0,
      );
      if (size > 0 && size + Buffer.byteLength(lines) > this.#largest) await this.#trim();
      await appendFile(this.#file, lines, { mode: 0o600 });
    } catch {
      // A missing cache only costs time.
    }
    this.#writing = this.#fresh.length === 0 ? undefined : this.#write();
  }

  /** Keeps what this process has used, then the newest lines, as many as there is room for. */
  async #trim(): Promise<void> {
    // A file that cannot be read is dropped.
    const lines = await readLines(this.#file).catch(() => new Map<string, Buffer>());
    const newest = [...lines].reverse();
    const wanted = [
      ...newest.filter(([key]) => this.#used.has(key)),
      ...newest.filter(([key]) => !this.#used.has(key)),
    ];
    const kept: Buffer[] = [];
    let left = this.#largest * KEPT;
    for (const [, line] of wanted) {
      left -= line.length;
      if (left < 0) break;
      kept.push(line);
    }
    const temporary = `${this.#file}.${process.pid}`;
    await writeFile(temporary, joined(kept.reverse()), { mode: 0o600 });
    await rename(temporary, this.#file);
  }
}

/** The lines by their keys, the oldest first. They stay bytes: to read 64 MB of text would hold up everything else. */
async function readLines(file: string): Promise<Map<string, Buffer>> {
  const lines = new Map<string, Buffer>();
  const bytes = await readFile(file);
  for (let start = 0, end = 0; start < bytes.length; start = end) {
    const next = bytes.indexOf("\n", start);
    end = next === -1 ? bytes.length : next + 1;
    const tab = bytes.indexOf("\t", start);
    // A process may have ended while it wrote the last line.
    if (tab <= start || tab >= end || next === -1) continue;
    const key = bytes.toString("latin1", start, tab);
    lines.delete(key);
    lines.set(key, bytes.subarray(start, end));
  }
  return lines;
}

/** Some lines at a time: one by one they take longer, and all at once hold up everything else. */
function* joined(lines: readonly Buffer[]): Generator<Buffer> {
  for (let at = 0; at < lines.length; at += LINES_AT_ONCE)
    yield Buffer.concat(lines.slice(at, at + LINES_AT_ONCE));
}
const LINES_AT_ONCE = 200;

function parse(line: Buffer, key: string): CompiledFile | undefined {
  const { code, map } = asRecord(parsedJson(line.toString("utf8", key.length + 1)));
  return typeof code === "string" && typeof map === "string" ? { code, map } : undefined;
}
