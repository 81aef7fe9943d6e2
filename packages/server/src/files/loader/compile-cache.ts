import { appendFile, mkdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

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
  #known: Promise<Map<string, string>> | undefined;
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
    const text = (await this.#known).get(key);
    if (text !== undefined) this.#used.add(key);
    return text === undefined ? undefined : parse(text);
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
    const lines = await readLines(this.#file).catch(() => new Map<string, string>());
    const newest = [...lines].reverse();
    const wanted = [
      ...newest.filter(([key]) => this.#used.has(key)),
      ...newest.filter(([key]) => !this.#used.has(key)),
    ];
    const kept: string[] = [];
    let left = this.#largest * KEPT;
    for (const [key, text] of wanted) {
      const line = `${key}\t${text}\n`;
      left -= Buffer.byteLength(line);
      if (left < 0) break;
      kept.push(line);
    }
    const temporary = `${this.#file}.${process.pid}`;
    await writeFile(temporary, kept.reverse().join(""), { mode: 0o600 });
    await rename(temporary, this.#file);
  }
}

/** The lines by their keys, the oldest first. */
async function readLines(file: string): Promise<Map<string, string>> {
  const lines = new Map<string, string>();
  for (const line of (await readFile(file, "utf8")).split("\n")) {
    const tab = line.indexOf("\t");
    if (tab <= 0) continue;
    const key = line.slice(0, tab);
    lines.delete(key);
    lines.set(key, line.slice(tab + 1));
  }
  return lines;
}

function parse(text: string): CompiledFile | undefined {
  try {
    const { code, map } = JSON.parse(text);
    return typeof code === "string" && typeof map === "string" ? { code, map } : undefined;
  } catch {
    return undefined;
  }
}
