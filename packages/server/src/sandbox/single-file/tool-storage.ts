import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { redact } from "@toolrack/core/internal";
import { CallLog, type CallLogOptions } from "../../calls/index.ts";
import { asRecord, defined, LoadError, makeOwnFolder, reasonOf, replaceFile } from "../../helpers/index.ts";
import type { LogLine } from "../sandbox-types.ts";
import { STORAGE_LIMIT, type StorageChange, type StorageSnapshot } from "./messages.ts";

const MOST_ITEMS = 10_000;
const LONGEST_KEY = 1_000;
/** Within this many milliseconds a folder may change again without a new modification time. */
const TIME_RESOLUTION_MS = 50;

interface Item {
  readonly key: string;
  readonly value: unknown;
  /** The whole text of the item's file. */
  readonly text: string;
}

/**
 * The stored data of one tool, one file per item. A file is written elsewhere and moved into place, so that an item is
 * complete or missing, and two processes can write different items.
 */
export class KeptItems {
  readonly #folder: string;
  #items = new Map<string, Item>();
  #size = 0;
  #version = 0;
  /** Identifies the state of the folder at the last read; undefined when the folder must be read again. */
  #stamp: string | undefined;
  #writing: Promise<void> = Promise.resolve();
  #problem: unknown;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Reads the items again if another process has changed the folder. Returns the current version. */
  async refresh(): Promise<number> {
    if (this.#stamp !== undefined && this.#stamp === this.#stampNow()) return this.#version;
    await this.#writing;
    const stamp = this.#stampNow();
    if (stamp !== this.#stamp || stamp === undefined) await this.#read();
    this.#stamp = stamp;
    return this.#version;
  }

  snapshot(): StorageSnapshot {
    const items = Object.fromEntries([...this.#items].map(([key, { value }]) => [key, value]));
    return { version: this.#version, items };
  }

  /** Applies a change and begins to write it. `settle` reports failures. */
  apply(change: StorageChange): void {
    const fail = (thrown: unknown) => {
      this.#problem ??= thrown;
    };
    this.#version++;
    try {
      const write = this.#changeMemory(change);
      this.#writing = this.#writing.then(write).catch(fail);
    } catch (thrown) {
      fail(thrown);
    }
  }

  /**
   * Waits until everything is written; throws the first failure. Called for a worker that knew `version` and
   * then made `changes` changes. Returns the worker's new version, or -1 when others made changes too: then
   * the worker must read all items again.
   */
  async settle(version: number, changes: number): Promise<number> {
    const isAlone = this.#version === version + changes;
    await this.#writing;
    const problem = this.#problem;
    this.#problem = undefined;
    if (problem !== undefined) throw problem;
    this.#stamp = this.#stampNow();
    return isAlone ? version + changes : -1;
  }

  /** Changes the copy in memory at once. Returns a function that writes the change to disk. */
  #changeMemory(change: StorageChange): () => Promise<void> {
    if (change.type === "clear") {
      this.#items.clear();
      this.#size = 0;
      return () => rm(this.#folder, { recursive: true, force: true });
    }
    const { key } = change;
    const name = createHash("sha256").update(key).digest("hex").slice(0, 40);
    const path = join(this.#folder, `${name}.json`);
    const before = sizeOf(this.#items.get(key));
    if (change.type === "remove") {
      this.#items.delete(key);
      this.#size -= before;
      return () => rm(path, { force: true });
    }
    const { value } = change;
    const item = { key, value, text: JSON.stringify({ key, value }) };
    const size = this.#size - before + sizeOf(item);
    this.#checkRoom(key, size);
    this.#items.set(key, item);
    this.#size = size;
    return async () => {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await replaceFile(path, item.text, 0o600);
    };
  }

  #checkRoom(key: string, size: number): void {
    if (key.length > LONGEST_KEY) throw new Error(`Keys of the storage may have ${LONGEST_KEY} characters.`);
    if (!this.#items.has(key) && this.#items.size >= MOST_ITEMS) {
      throw new Error(`The storage holds ${MOST_ITEMS} items already. Remove some first.`);
    }
    // The host also counts the JSON around each value, so it allows a little more than the worker does.
    if (size > STORAGE_LIMIT * 1.1) {
      const limit = STORAGE_LIMIT / 1024 / 1024;
      throw new Error(`The storage would be larger than ${limit} MiB. Remove something first.`);
    }
  }

  async #read(): Promise<void> {
    const version = this.#version;
    const items = new Map<string, Item>();
    for (const name of (await readdir(this.#folder).catch(() => [])).sort()) {
      const item = name.endsWith(".json") ? await readItem(join(this.#folder, name)) : undefined;
      if (item !== undefined) items.set(item.key, item);
    }
    // When a change was made during the read, the items in memory are newer than those that were read.
    const isSame =
      items.size === this.#items.size &&
      [...items].every(([key, { text }]) => this.#items.get(key)?.text === text);
    if (this.#version !== version || isSame) return;
    this.#items = items;
    this.#size = [...items.values()].reduce((sum, item) => sum + sizeOf(item), 0);
    this.#version++;
  }

  #stampNow(): string | undefined {
    const found = statSync(this.#folder, { throwIfNoEntry: false });
    if (found === undefined) return "none";
    return Date.now() - found.mtimeMs < TIME_RESOLUTION_MS ? undefined : `${found.ino}:${found.mtimeMs}`;
  }
}

/** Undefined for a file that was removed meanwhile, or that Toolrack did not write. */
async function readItem(path: string): Promise<Item | undefined> {
  try {
    const text = await readFile(path, "utf8");
    const { key, value } = asRecord(JSON.parse(text));
    return typeof key === "string" ? { key, value, text } : undefined;
  } catch {
    return undefined;
  }
}

function sizeOf(item: Item | undefined): number {
  return item === undefined ? 0 : Buffer.byteLength(item.text);
}

interface ToolOwnersOptions {
  /** The path of `.toolrack/tool-owners.json`, which maps each tool's name to the file that had it first. */
  readonly file: string;
  /** Whether owners are written to the file; otherwise they last as long as the process. */
  readonly isKept: boolean;
}

/**
 * Which file each sandboxed tool's name belongs to. Secrets are stored under a tool's name, so another file that takes
 * the name would get them. Names that differ only by case are the same name on the rack.
 */
export class ToolOwners {
  readonly #options: ToolOwnersOptions;
  #owners = new Map<string, string>();

  constructor(options: ToolOwnersOptions) {
    this.#options = options;
  }

  /** Reads the file, which other processes and people may have changed. Throws `LoadError`. */
  async refresh(): Promise<void> {
    const { file, isKept } = this.#options;
    try {
      const entries = Object.entries(asRecord(JSON.parse(await readFile(file, "utf8"))));
      const known = entries.map(([name, owner]) => [name.toLowerCase(), String(owner)] as const);
      this.#owners = new Map(isKept ? known : [...known, ...this.#owners]);
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException; // `code` is undefined when the text is no JSON.
      if (code === "ENOENT") return;
      throw new LoadError(
        `${file}, which says which file each sandboxed tool belongs to, cannot be read: ${reasonOf(cause)}`,
        "Correct it, or delete it to begin anew.",
        { cause, retry: true },
      );
    }
  }

  ownerOf(name: string): string | undefined {
    return this.#owners.get(name.toLowerCase());
  }

  /** Remembers which file each tool name belongs to. `claims` maps names of tools to files. */
  async claim(claims: ReadonlyMap<string, string>): Promise<void> {
    const { file, isKept } = this.#options;
    const fresh = [...claims].filter(([name, owner]) => this.ownerOf(name) !== owner);
    for (const [name, owner] of fresh) this.#owners.set(name.toLowerCase(), owner);
    if (fresh.length === 0 || !isKept) return;
    makeOwnFolder(dirname(file));
    const sorted = Object.fromEntries([...this.#owners].sort(([one], [other]) => (one < other ? -1 : 1)));
    await replaceFile(file, `${JSON.stringify(sorted, null, 2)}\n`, 0o600);
  }
}

const LONGEST_TEXT = 10_000;

interface ToolLogsOptions extends Omit<CallLogOptions, "file"> {
  /** `log/tools` of the workspace. */
  readonly folder: string;
  readonly secrets: () => Iterable<string>;
}

/** One log file per sandboxed tool, with a JSON line for each line that the tool logs. */
export class ToolLogs {
  readonly #options: ToolLogsOptions;
  readonly #logs = new Map<string, CallLog>();

  constructor(options: ToolLogsOptions) {
    this.#options = options;
  }

  /** Writes the line to the tool's log file. Returns the line as written, with all secrets masked. */
  write(tool: string, callId: string | undefined, { level, text, data }: LogLine): LogLine {
    const { folder, secrets, ...rest } = this.#options;
    let log = this.#logs.get(tool);
    if (log === undefined) {
      log = new CallLog({ ...rest, file: join(folder, `${tool}.log`) });
      this.#logs.set(tool, log);
    }
    // Secrets are masked before the text is cut, because a cut could leave half of a secret. The cast is
    // safe: `redact` returns a copy with the same members.
    const masked = redact({ text, data }, { values: secrets() }) as { text: string; data?: unknown };
    const message = masked.text.slice(0, LONGEST_TEXT);
    const said = defined({ data: masked.data });
    log.write({ ts: new Date().toISOString(), level, tool, ...defined({ callId }), message, ...said });
    return { level, text: message, ...said };
  }

  close(): void {
    for (const log of this.#logs.values()) log.close();
    this.#logs.clear();
  }
}
