import type { StorageChange, StorageSnapshot } from "../messages.ts";
import type { CurrentCall } from "./current-call.ts";

/** All values of one tool together, as JSON. */
export const STORAGE_LIMIT = 10 * 1024 * 1024;

/**
 * `this.api.storage`: keeps JSON values from call to call. Its methods answer at once, so the worker holds a copy;
 * every change is told to the host, which writes it.
 */
export class ToolStorage {
  readonly #items = new Map<string, string>();
  readonly #calls: CurrentCall;
  readonly #isDryRun: boolean;
  #version = 0;
  /** Changes since the host last said which version it has. */
  #changes = 0;
  #size = 0;

  constructor(snapshot: StorageSnapshot, calls: CurrentCall, isDryRun: boolean) {
    this.#calls = calls;
    this.#isDryRun = isDryRun;
    this.#take(snapshot);
  }

  get length(): number {
    return this.#items.size;
  }

  getItem(key: string): unknown {
    const text = this.#items.get(String(key));
    return text === undefined ? null : JSON.parse(text);
  }

  setItem(key: string, value: unknown): void {
    const name = String(key);
    const text = JSON.stringify(value ?? null);
    if (text === undefined) throw new TypeError(`The value of "${name}" cannot be stored: it is not JSON.`);
    const size = this.#size - sizeOf(name, this.#items.get(name)) + sizeOf(name, text);
    if (size > STORAGE_LIMIT) {
      throw new RangeError(
        `"${name}" cannot be stored: a tool may keep ${STORAGE_LIMIT / 1024 / 1024} MiB, and it would be ${size} bytes. Remove something first.`,
      );
    }
    this.#size = size;
    this.#items.set(name, text);
    this.#tell({ type: "set", key: name, value: JSON.parse(text) });
  }

  removeItem(key: string): void {
    const name = String(key);
    this.#size -= sizeOf(name, this.#items.get(name));
    if (this.#items.delete(name)) this.#tell({ type: "remove", key: name });
  }

  clear(): void {
    this.#items.clear();
    this.#size = 0;
    this.#tell({ type: "clear" });
  }

  hasItem(key: string): boolean {
    return this.#items.has(String(key));
  }

  key(index: number): string | null {
    return [...this.#items.keys()][index] ?? null;
  }

  keys(): string[] {
    return [...this.#items.keys()];
  }

  getAll(): Record<string, unknown> {
    return Object.fromEntries([...this.#items].map(([key, text]) => [key, JSON.parse(text)]));
  }

  getSize(): number {
    return this.#size;
  }

  getStoragePath(): string {
    return "storage.json";
  }

  /** Before a call: fetches what other workers have stored. */
  async refresh(version: number): Promise<void> {
    if (version === this.#version || this.#isDryRun) return;
    this.#take((await this.#calls.request("storage.read", {}, "Reading the storage")) as StorageSnapshot);
  }

  /** After a call: waits until everything is written. */
  async settle(): Promise<void> {
    if (this.#changes === 0) return;
    const sent = { version: this.#version, changes: this.#changes };
    this.#changes = 0;
    this.#version = (await this.#calls.request("storage.settle", sent, "Storing")) as number;
  }

  #take({ version, items }: StorageSnapshot): void {
    this.#items.clear();
    this.#size = 0;
    for (const [key, value] of Object.entries(items)) {
      const text = JSON.stringify(value);
      this.#items.set(key, text);
      this.#size += sizeOf(key, text);
    }
    this.#version = version;
  }

  #tell(change: StorageChange): void {
    if (this.#isDryRun) return;
    this.#changes++;
    this.#calls.notify("storage", change);
  }
}

function sizeOf(key: string, text: string | undefined): number {
  return text === undefined ? 0 : Buffer.byteLength(key) + Buffer.byteLength(text);
}
