import type { LoadFailure } from "./loader/load-failure.ts";
import { type ScannedFile, sameContent, signFiles } from "./loader/scan-files.ts";

interface FailedFile {
  readonly failure: LoadFailure;
  /** What loading it looked at, as it was then. */
  readonly inputs: ReadonlyMap<string, ScannedFile>;
  readonly retry: Retry;
}

/**
 * When to try again: as soon as something that was looked at has changed, always (what is missing lies elsewhere),
 * or always but without evaluating it anew (only its name was taken).
 */
export type Retry = "changed" | "always" | "name";

/** The files that could not be loaded, and what would have to change before trying again makes sense. */
export class FailedFiles {
  #files = new Map<string, FailedFile>();

  get(path: string): LoadFailure | undefined {
    return this.#files.get(path)?.failure;
  }

  has(path: string): boolean {
    return this.#files.has(path);
  }

  paths(): string[] {
    return [...this.#files.keys()];
  }

  async add(path: string, failure: LoadFailure, inputs: Iterable<string>, retry: Retry): Promise<void> {
    this.#files.set(path, { failure, inputs: await signFiles([...inputs]), retry });
  }

  delete(path: string): void {
    this.#files.delete(path);
  }

  /** The files to try again, and what must be evaluated anew for it. */
  async worthTrying(): Promise<{ readonly files: Set<string>; readonly changed: Set<string> }> {
    const files = new Set<string>();
    const changed = new Set<string>();
    for (const [path, { inputs, retry }] of this.#files) {
      const now = await signFiles([...inputs.keys()], inputs);
      const different = [...now.values()].filter((file) => !sameContent(file, inputs.get(file.path)!));
      for (const file of different) changed.add(file.path);
      if (retry === "changed" && different.length === 0) continue;
      files.add(path);
      if (retry !== "name") changed.add(path);
    }
    return { files, changed };
  }
}
