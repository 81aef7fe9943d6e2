import { randomUUID } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeOwnFolder } from "../../host/make-own-folder.ts";
import { LoadError } from "../loader/load-failure.ts";

export interface ToolOwnersOptions {
  /** `.toolrack/tool-owners.json` of the workspace: names of tools, each with the file that had it first. */
  readonly file: string;
  /** Otherwise what is learned lasts as long as the process. */
  readonly isKept: boolean;
}

/**
 * Which file each sandboxed tool's name belongs to. What people set for a tool is kept under its name, so a file that
 * takes the name of another would be given the other's secrets, if nobody remembered whose they are.
 */
export class ToolOwners {
  readonly #options: ToolOwnersOptions;
  #owners = new Map<string, string>();

  constructor(options: ToolOwnersOptions) {
    this.#options = options;
  }

  /** Reads what was written by other processes, and by people. Throws `LoadError`. */
  async refresh(): Promise<void> {
    try {
      const text = await readFile(this.#options.file, "utf8");
      const entries = Object.entries(JSON.parse(text) as Record<string, unknown>);
      const known = entries.map(([name, file]) => [fold(name), String(file)] as const);
      this.#owners = new Map(this.#options.isKept ? known : [...known, ...this.#owners]);
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw unreadable(this.#options.file, thrown);
    }
  }

  ownerOf(name: string): string | undefined {
    return this.#owners.get(fold(name));
  }

  /** From now on these names belong to these files. */
  async claim(claims: ReadonlyMap<string, string>): Promise<void> {
    const fresh = [...claims].filter(([name, file]) => this.ownerOf(name) !== file);
    if (fresh.length === 0) return;
    for (const [name, file] of fresh) this.#owners.set(fold(name), file);
    if (!this.#options.isKept) return;
    const { file } = this.#options;
    makeOwnFolder(dirname(file));
    const temporary = join(dirname(file), `.owners-${randomUUID()}`);
    const sorted = Object.fromEntries([...this.#owners].sort(([one], [other]) => (one < other ? -1 : 1)));
    await writeFile(temporary, `${JSON.stringify(sorted, null, 2)}\n`, { mode: 0o600 });
    await rename(temporary, file);
  }
}

/** Names that differ by case only are one name on the rack. */
function fold(name: string): string {
  return name.toLowerCase();
}

function unreadable(file: string, cause: unknown): LoadError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new LoadError(
    `${file}, which says which file each sandboxed tool belongs to, cannot be read: ${reason}`,
    "Correct it, or delete it to begin anew.",
    { cause, retry: true },
  );
}
