import { appendFile, mkdir, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { CompiledFile } from "./compile.ts";

/** A cache that outgrew this holds more old versions than new ones, and begins anew. */
const LARGEST = 64 * 1024 * 1024;

/**
 * Compiled files by content, in one file: a line is a key, a tab and the JSON of what was compiled. Thousands of
 * small files would cost more time than compiling. Lines that cannot be read, and a cache that cannot be written,
 * only make the next start slower.
 */
export class CompileCache {
  readonly #file: string;
  #known: Promise<Map<string, string>> | undefined;
  #fresh: string[] = [];
  #writing: Promise<void> | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  async get(key: string): Promise<CompiledFile | undefined> {
    this.#known ??= readLines(this.#file);
    const text = (await this.#known).get(key);
    return text === undefined ? undefined : parse(text);
  }

  add(key: string, compiled: CompiledFile): void {
    this.#fresh.push(`${key}\t${JSON.stringify(compiled)}\n`);
    this.#writing ??= new Promise<void>((resolve) => setTimeout(resolve, 50)).then(() => this.#write());
  }

  /** Waits for what has not been written yet. */
  async settle(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  async #write(): Promise<void> {
    const lines = this.#fresh.join("");
    this.#fresh = [];
    try {
      // It may be the first in the folder of the workspace's server, through which others have to pass.
      await mkdir(dirname(this.#file), { recursive: true, mode: 0o711 });
      await appendFile(this.#file, lines, { mode: 0o600 });
    } catch {
      // See above: a cache may be missing.
    }
    this.#writing = this.#fresh.length === 0 ? undefined : this.#write();
  }
}

async function readLines(file: string): Promise<Map<string, string>> {
  const lines = new Map<string, string>();
  try {
    const text = await readFile(file, "utf8");
    if (text.length > LARGEST) {
      await rm(file, { force: true });
      return lines;
    }
    for (const line of text.split("\n")) {
      const tab = line.indexOf("\t");
      if (tab > 0) lines.set(line.slice(0, tab), line.slice(tab + 1));
    }
  } catch {
    // There is no cache yet.
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
