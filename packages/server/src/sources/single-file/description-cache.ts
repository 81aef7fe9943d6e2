import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RawDescription } from "./messages.ts";

/** What tools said about themselves, by the content of their files: so that a start needs no sandbox for it. */
export class DescriptionCache {
  readonly #folder: string | undefined;
  readonly #known = new Map<string, RawDescription>();

  /** Without a folder it lasts as long as the process. */
  constructor(folder: string | undefined) {
    this.#folder = folder;
  }

  async get(key: string): Promise<RawDescription | undefined> {
    const known = this.#known.get(key);
    if (known !== undefined || this.#folder === undefined) return known;
    try {
      return JSON.parse(await readFile(join(this.#folder, `${key}.json`), "utf8"));
    } catch {
      return undefined;
    }
  }

  /** A cache that cannot be written costs time and nothing else. */
  async add(key: string, description: RawDescription): Promise<void> {
    this.#known.set(key, description);
    if (this.#folder === undefined) return;
    try {
      await mkdir(this.#folder, { recursive: true });
      const temporary = join(this.#folder, `.${randomUUID()}`);
      await writeFile(temporary, JSON.stringify(description));
      await rename(temporary, join(this.#folder, `${key}.json`));
    } catch {
      // The next start asks the tool again.
    }
  }
}
