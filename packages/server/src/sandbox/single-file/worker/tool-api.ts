import { AsyncLocalStorage } from "node:async_hooks";
import { inspect } from "node:util";
import type { LogLine, WorkerCall, WorkerHost } from "../../spec.ts";
import { STORAGE_LIMIT, type StorageChange, type StorageSnapshot, type WorkerSettings } from "../messages.ts";
import { describeFailure, encodeJson } from "./plain-data.ts";
import { ToolBridge, type ToolObject } from "./tool-bridge.ts";
import type { ToolModules } from "./tool-modules.ts";

/** Finds the call that running code belongs to: a worker may have several, which share one tool. */
export class CurrentCall {
  readonly #calls = new AsyncLocalStorage<WorkerCall>();
  #host: WorkerHost | undefined;

  /** The host for notifications outside a call, such as in `init`. */
  set host(host: WorkerHost) {
    this.#host = host;
  }

  run<Result>(call: WorkerCall, work: () => Result): Result {
    return this.#calls.run(call, work);
  }

  get(): WorkerCall | undefined {
    return this.#calls.getStore();
  }

  /** Rejects outside a call. */
  request(method: string, params: unknown, what: string): Promise<unknown> {
    const call = this.get();
    if (call === undefined) return Promise.reject(new Error(`${what} is only possible during execute().`));
    return call.request(method, params);
  }

  notify(method: string, params: unknown): void {
    (this.get() ?? this.#host)?.notify(method, params);
  }
}

interface ToolApiParts {
  readonly settings: WorkerSettings;
  readonly calls: CurrentCall;
  readonly storage: ToolStorage;
  readonly modules: ToolModules;
}

const neverAborted = new AbortController().signal;

/** The version that `api.getVersion()` returns. */
const API_VERSION = "2.0.0";

/** Makes `this.api` of a tool. A worker has one for all its calls. */
export function toolApi(tool: ToolObject, { settings, calls, storage, modules }: ToolApiParts): object {
  const { tool: name, isDryRun, environment } = settings;
  return {
    logger: toolLogger(calls, name),
    environment: new ToolEnvironment(environment, calls, isDryRun),
    storage,
    bridge: new ToolBridge(
      tool,
      (): unknown => tool.api,
      () => calls.get(),
      isDryRun,
    ),
    importx: modules.importx,
    moduleImport: modules.importx,
    /** Calls another tool of the rack. */
    callTool: (id: string, params: unknown = {}) => calls.request("callTool", { id, params }, "callTool"),
    /** Runs a program in a sandbox of its own. */
    execute: (command: string, args: unknown = [], options: unknown = {}) =>
      calls.request("execute", { command, args, options }, "api.execute"),
    progress: (progress: number, total?: number, message?: string) =>
      calls.notify("progress", { progress, total, message }),
    /** Aborted when the caller gave up. */
    get signal(): AbortSignal {
      return calls.get()?.signal ?? neverAborted;
    },
    getInfo: () => ({
      id: name,
      sandboxPath: process.cwd(),
      runtime: { node: process.version, platform: process.platform, arch: process.arch },
    }),
    getVersion: () => API_VERSION,
    /** Older hosts needed this to bind the tool; here it is bound already. */
    setToolInstance: () => {},
  };
}

/** `this.api.environment`: the declared values with their declared types. */
class ToolEnvironment {
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

  /** Stored encrypted for later calls, like a value that a person has set. */
  async set(name: string, value: unknown): Promise<void> {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    await this.#requestChange("environment.set", { name, value: text });
    this.#values.set(name, value);
  }

  async setAll(values: Readonly<Record<string, unknown>>): Promise<void> {
    for (const [name, value] of Object.entries(values)) await this.set(name, value);
  }

  async delete(name: string): Promise<void> {
    await this.#requestChange("environment.remove", { name });
    this.#values.delete(name);
  }

  async clear(): Promise<void> {
    for (const name of [...this.#values.keys()]) await this.delete(name);
  }

  /** Does nothing: values are looked up before every call. */
  async reload(): Promise<void> {}

  async #requestChange(method: string, params: unknown): Promise<void> {
    if (!this.#isDryRun) await this.#calls.request(method, params, "Changing the environment");
  }
}

const levels: Readonly<Record<string, LogLine["level"]>> = {
  trace: "debug",
  debug: "debug",
  info: "info",
  warn: "warn",
  warning: "warn",
  error: "error",
  fatal: "error",
};

/** `this.api.logger`. A line that cannot be written never fails the tool. */
function toolLogger(calls: CurrentCall, tool: string) {
  const write = (level: LogLine["level"], message: unknown, data: unknown) => {
    const text = typeof message === "string" ? message : inspect(message, { depth: 4 });
    const line: LogLine = { level, text, ...(data !== undefined && { data: plain(data) }) };
    calls.notify("log", line);
  };
  const at =
    (level: LogLine["level"]) =>
    (message: unknown, data?: unknown): void =>
      write(level, message, data);
  return {
    trace: at("debug"),
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    fatal: at("error"),
    log: (level: unknown, message?: unknown, data?: unknown) =>
      write(levels[String(level).toLowerCase()] ?? "info", message, data),
    getLogPath: () => `log/tools/${tool}.log`,
  };
}

function plain(data: unknown): unknown {
  if (data instanceof Error) return describeFailure(data);
  try {
    return encodeJson(data);
  } catch {
    return inspect(data, { depth: 2 });
  }
}

/**
 * `this.api.storage`: keeps JSON values between calls. Its methods are synchronous, so the worker holds a copy; the
 * host is notified of every change and writes it.
 */
export class ToolStorage {
  readonly #items = new Map<string, string>();
  readonly #calls: CurrentCall;
  readonly #isDryRun: boolean;
  #version = 0;
  /** Changes since the host last sent its version. */
  #changes = 0;
  #size = 0;

  constructor(snapshot: StorageSnapshot, calls: CurrentCall, isDryRun: boolean) {
    this.#calls = calls;
    this.#isDryRun = isDryRun;
    this.#load(snapshot);
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
    this.#send({ type: "set", key: name, value: JSON.parse(text) });
  }

  removeItem(key: string): void {
    const name = String(key);
    this.#size -= sizeOf(name, this.#items.get(name));
    if (this.#items.delete(name)) this.#send({ type: "remove", key: name });
  }

  clear(): void {
    this.#items.clear();
    this.#size = 0;
    this.#send({ type: "clear" });
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

  /** Called before a call: reads what other workers have stored. */
  async refresh(version: number): Promise<void> {
    if (version === this.#version || this.#isDryRun) return;
    const read = await this.#calls.request("storage.read", {}, "Reading the storage");
    this.#load(read as StorageSnapshot); // The host's own words.
  }

  /** Called after a call: waits until everything is written. */
  async settle(): Promise<void> {
    if (this.#changes === 0) return;
    const sent = { version: this.#version, changes: this.#changes };
    this.#changes = 0;
    this.#version = Number(await this.#calls.request("storage.settle", sent, "Storing"));
  }

  #load({ version, items }: StorageSnapshot): void {
    this.#items.clear();
    this.#size = 0;
    for (const [key, value] of Object.entries(items)) {
      const text = JSON.stringify(value);
      this.#items.set(key, text);
      this.#size += sizeOf(key, text);
    }
    this.#version = version;
  }

  #send(change: StorageChange): void {
    if (this.#isDryRun) return;
    this.#changes++;
    this.#calls.notify("storage", change);
  }
}

function sizeOf(key: string, text: string | undefined): number {
  return text === undefined ? 0 : Buffer.byteLength(key) + Buffer.byteLength(text);
}
