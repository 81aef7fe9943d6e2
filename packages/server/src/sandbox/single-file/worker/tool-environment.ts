import type { CurrentCall } from "./current-call.ts";

/** `this.api.environment`: what the tool declared, with the types that it declared. */
export class ToolEnvironment {
  readonly #values: Map<string, unknown>;
  readonly #calls: CurrentCall;
  readonly #isDryRun: boolean;

  constructor(values: Readonly<Record<string, unknown>>, calls: CurrentCall, isDryRun: boolean) {
    this.#values = new Map(Object.entries(values));
    this.#calls = calls;
    this.#isDryRun = isDryRun;
  }

  get(name: string, otherwise?: unknown): unknown {
    return this.#values.get(name) ?? otherwise;
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  getAll(): Record<string, unknown> {
    return Object.fromEntries(this.#values);
  }

  /** Kept for later calls, encrypted, like a value that a person has set. */
  async set(name: string, value: unknown): Promise<void> {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    await this.#ask("environment.set", { name, value: text });
    this.#values.set(name, value);
  }

  async setAll(values: Readonly<Record<string, unknown>>): Promise<void> {
    for (const [name, value] of Object.entries(values)) await this.set(name, value);
  }

  async delete(name: string): Promise<void> {
    await this.#ask("environment.remove", { name });
    this.#values.delete(name);
  }

  async clear(): Promise<void> {
    for (const name of [...this.#values.keys()]) await this.delete(name);
  }

  /** Values are looked up anew before every call. */
  async reload(): Promise<void> {}

  async #ask(method: string, params: unknown): Promise<void> {
    if (!this.#isDryRun) await this.#calls.request(method, params, "Changing the environment");
  }
}
