import { createHash, randomUUID } from "node:crypto";
import { statSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { redact } from "@toolrack/core/internal";
import { CallLog, type CallLogOptions } from "../../calls/index.ts";
import { asRecord, defined, LoadError, makeOwnFolder, reasonOf } from "../../helpers/index.ts";
import type { LogLine } from "../spec.ts";
import { STORAGE_LIMIT, type StorageChange, type StorageSnapshot } from "./messages.ts";

const MOST_ITEMS = 10_000;
const LONGEST_KEY = 1_000;
/** Within this many milliseconds a folder may change again without a new modification time. */
const TIME_RESOLUTION_MS = 50;

interface Item {
  readonly value: unknown;
  /** The whole file. */
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
  /** The state of the folder at the last read; undefined when it must be read. */
  #stamp: string | undefined;
  #writing: Promise<void> = Promise.resolve();
  #problem: Error | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Reads what other processes wrote. Returns the version. */
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
    try {
      this.#version++;
      const remember = this.#changeMemory(change);
      this.#writing = this.#writing.then(remember).catch((thrown) => this.#fail(thrown));
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  /**
   * Waits until everything is written; throws the first failure. Returns the new version of a worker that knew
   * `version` and made `changes` changes, or -1 when others made changes too: then the worker must read again.
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
    const path = this.#pathOf(change.key);
    const before = sizeOf(this.#items.get(change.key));
    if (change.type === "remove") {
      this.#items.delete(change.key);
      this.#size -= before;
      return () => rm(path, { force: true });
    }
    const text = JSON.stringify({ key: change.key, value: change.value });
    const size = Buffer.byteLength(text);
    this.#checkRoom(change.key, this.#size - before + size);
    this.#items.set(change.key, { value: change.value, text });
    this.#size += size - before;
    return () => this.#write(path, text);
  }

  #checkRoom(key: string, size: number): void {
    if (key.length > LONGEST_KEY) throw new Error(`Keys of the storage may have ${LONGEST_KEY} characters.`);
    if (!this.#items.has(key) && this.#items.size >= MOST_ITEMS) {
      throw new Error(`The storage holds ${MOST_ITEMS} items already. Remove some first.`);
    }
    // The JSON around each value counts too, hence a little more than the worker allows.
    if (size > STORAGE_LIMIT * 1.1) {
      throw new Error(
        `The storage would be larger than ${STORAGE_LIMIT / 1024 / 1024} MiB. Remove something first.`,
      );
    }
  }

  async #write(path: string, text: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const temporary = join(this.#folder, `.${randomUUID()}`);
    await writeFile(temporary, text, { mode: 0o600 });
    await rename(temporary, path);
  }

  async #read(): Promise<void> {
    const version = this.#version;
    const names = await readdir(this.#folder).catch(() => []);
    const items = new Map<string, Item>();
    for (const name of names.sort()) {
      if (!name.endsWith(".json")) continue;
      const found = await readItem(join(this.#folder, name));
      if (found !== undefined) items.set(found.key, found.item);
    }
    // A change made during the read is newer than what was read.
    if (this.#version !== version || isSame(items, this.#items)) return;
    this.#items = items;
    this.#size = [...items.values()].reduce((sum, item) => sum + sizeOf(item), 0);
    this.#version++;
  }

  #pathOf(key: string): string {
    return join(this.#folder, `${createHash("sha256").update(key).digest("hex").slice(0, 40)}.json`);
  }

  #stampNow(): string | undefined {
    const found = statSync(this.#folder, { throwIfNoEntry: false });
    if (found === undefined) return "none";
    return Date.now() - found.mtimeMs < TIME_RESOLUTION_MS ? undefined : `${found.ino}:${found.mtimeMs}`;
  }

  #fail(thrown: unknown): void {
    this.#problem ??= thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

async function readItem(path: string): Promise<{ key: string; item: Item } | undefined> {
  try {
    const text = await readFile(path, "utf8");
    const { key, value } = asRecord(JSON.parse(text));
    if (typeof key !== "string") return undefined;
    return { key, item: { value, text } };
  } catch {
    return undefined; // Removed meanwhile, or not written by Toolrack.
  }
}

function sizeOf(item: Item | undefined): number {
  return item === undefined ? 0 : Buffer.byteLength(item.text);
}

function isSame(one: ReadonlyMap<string, Item>, other: ReadonlyMap<string, Item>): boolean {
  return one.size === other.size && [...one].every(([key, { text }]) => other.get(key)?.text === text);
}

interface ToolOwnersOptions {
  /** `.toolrack/tool-owners.json` of the workspace: names of tools, each with the file that had it first. */
  readonly file: string;
  /** Whether owners are written to the file; otherwise they last as long as the process. */
  readonly isKept: boolean;
}

/**
 * Which file each sandboxed tool's name belongs to. Secrets are stored under a tool's name, so another file that takes
 * the name would get them.
 */
export class ToolOwners {
  readonly #options: ToolOwnersOptions;
  #owners = new Map<string, string>();

  constructor(options: ToolOwnersOptions) {
    this.#options = options;
  }

  /** Reads the file, which other processes and people may have changed. Throws `LoadError`. */
  async refresh(): Promise<void> {
    try {
      const text = await readFile(this.#options.file, "utf8");
      const entries = Object.entries(asRecord(JSON.parse(text)));
      const known = entries.map(([name, file]) => [fold(name), String(file)] as const);
      this.#owners = new Map(this.#options.isKept ? known : [...known, ...this.#owners]);
    } catch (thrown) {
      const { code } = thrown as NodeJS.ErrnoException; // Undefined when the text is no JSON.
      if (code !== "ENOENT") throw unreadable(this.#options.file, thrown);
    }
  }

  ownerOf(name: string): string | undefined {
    return this.#owners.get(fold(name));
  }

  /** Makes these names belong to these files. */
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

/** Names that differ only by case are the same name on the rack. */
function fold(name: string): string {
  return name.toLowerCase();
}

function unreadable(file: string, cause: unknown): LoadError {
  return new LoadError(
    `${file}, which says which file each sandboxed tool belongs to, cannot be read: ${reasonOf(cause)}`,
    "Correct it, or delete it to begin anew.",
    { cause, retry: true },
  );
}

/**
 * The hosts that a tool may reach: those that it declares and the operator grants, the narrower of the two when one
 * covers the other. A tool that declares none may reach all that are granted.
 */
export function grantedHosts(declared: readonly string[] | undefined, granted: readonly string[]): string[] {
  if (declared === undefined) return [...new Set(granted)].sort();
  const hosts = declared.flatMap((wanted) =>
    granted.flatMap((given) => {
      if (covers(given, wanted)) return [wanted];
      return covers(wanted, given) ? [given] : [];
    }),
  );
  return [...new Set(hosts)].sort();
}

/** Hosts that a tool declares and no grant covers even in part. */
export function missingHosts(declared: readonly string[] | undefined, granted: readonly string[]): string[] {
  return (declared ?? []).filter(
    (wanted) => !granted.some((given) => covers(given, wanted) || covers(wanted, given)),
  );
}

/** A grant without a port covers only the usual ports. */
function covers(given: string, wanted: string): boolean {
  const [givenName, givenPort] = split(given);
  const [wantedName, wantedPort] = split(wanted);
  if (givenPort !== wantedPort) return false;
  if (givenName === wantedName || givenName === "*") return true;
  return givenName.startsWith("*.") && wantedName.endsWith(givenName.slice(1));
}

function split(host: string): [name: string, port: string] {
  const [, name = host, port = ""] = /^(.*?)(?::(\d+))?$/.exec(host.toLowerCase()) ?? [];
  return [name, port];
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

  /** Returns the line with all secrets masked. */
  write(tool: string, callId: string | undefined, { level, text, data }: LogLine): LogLine {
    const { folder, secrets, ...rest } = this.#options;
    let log = this.#logs.get(tool);
    if (log === undefined) {
      log = new CallLog({ ...rest, file: join(folder, `${tool}.log`) });
      this.#logs.set(tool, log);
    }
    // Masked before it is cut, because a cut could leave half of a secret.
    const masked = redact({ text, data }, { values: secrets() }) as { text: string; data?: unknown }; // Its copy.
    const message = masked.text.slice(0, LONGEST_TEXT);
    const said = defined({ data: masked.data });
    log.write({
      ts: new Date().toISOString(),
      level,
      tool,
      ...defined({ callId }),
      message,
      ...said,
    });
    return { level, text: message, ...said };
  }

  close(): void {
    for (const log of this.#logs.values()) log.close();
    this.#logs.clear();
  }
}
