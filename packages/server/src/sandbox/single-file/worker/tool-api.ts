import { AsyncLocalStorage } from "node:async_hooks";
import { inspect } from "node:util";
import type { LogLine, WorkerCall, WorkerHost } from "../../sandbox-types.ts";
import { STORAGE_LIMIT, type StorageChange, type StorageSnapshot, type WorkerSettings } from "../messages.ts";
import { describeFailure, encodeJson } from "./plain-data.ts";
import { ToolBridge, type ToolObject } from "./tool-bridge.ts";
import type { ToolModules } from "./tool-modules.ts";

/** Finds the call that running code belongs to: a worker may have several, which share one tool. */
export class CurrentCall {
  readonly #calls = new AsyncLocalStorage<WorkerCall>();
  /** Takes notifications outside a call, such as in `init`. */
  readonly #host: WorkerHost;

  constructor(host: WorkerHost) {
    this.#host = host;
  }

  run<Result>(call: WorkerCall, work: () => Result): Result {
    return this.#calls.run(call, work);
  }

  get(): WorkerCall | undefined {
    return this.#calls.getStore();
  }

  /** Sends a request to the host for the current call. Rejects outside a call, with `what` in the message. */
  async request(method: string, params: unknown, what: string): Promise<unknown> {
    const call = this.get();
    if (call === undefined) throw new Error(`${what} is only possible during execute().`);
    return call.request(method, params);
  }

  notify(method: string, params: unknown): void {
    (this.get() ?? this.#host).notify(method, params);
  }
}

const neverAborted = new AbortController().signal;

const API_VERSION = "2.0.0";

/** Makes `this.api` of a tool. A worker has one for all its calls. */
export function toolApi(
  tool: ToolObject,
  { tool: name, isDryRun, environment }: WorkerSettings,
  calls: CurrentCall,
  storage: ToolStorage,
  { importx }: ToolModules,
): object {
  return {
    logger: toolLogger(calls, name),
    environment: toolEnvironment(environment, calls, isDryRun),
    storage: storage.api,
    bridge: new ToolBridge(tool, () => calls.get(), isDryRun),
    importx,
    moduleImport: importx,
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
    /** Older hosts needed a call of this method to bind the tool; here the tool is bound already. */
    setToolInstance: () => {},
  };
}

/** `this.api.environment`: the declared values with their declared types. */
function toolEnvironment(
  declared: Readonly<Record<string, unknown>>,
  calls: CurrentCall,
  isDryRun: boolean,
): object {
  const values = new Map(Object.entries(declared));
  const requestChange = async (method: string, params: unknown) => {
    if (!isDryRun) await calls.request(method, params, "Changing the environment");
  };
  const environment = {
    get: (name: string, otherwise?: unknown) => values.get(name) ?? otherwise,
    has: (name: string) => values.has(name),
    getAll: () => Object.fromEntries(values),
    /** Stores the value encrypted for later calls, like a value that a person has set. */
    async set(name: string, value: unknown) {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      await requestChange("environment.set", { name, value: text });
      values.set(name, value);
    },
    async setAll(all: Readonly<Record<string, unknown>>) {
      for (const [name, value] of Object.entries(all)) await environment.set(name, value);
    },
    async delete(name: string) {
      await requestChange("environment.remove", { name });
      values.delete(name);
    },
    async clear() {
      for (const name of [...values.keys()]) await environment.delete(name);
    },
    /** Does nothing: values are looked up before every call. */
    async reload() {},
  };
  return environment;
}

/** The level at which each method of `this.api.logger` logs. `log` takes these names too, and `warning`. */
const levels = {
  trace: "debug",
  debug: "debug",
  info: "info",
  warn: "warn",
  error: "error",
  fatal: "error",
} as const;

/** `this.api.logger`. A line that cannot be written never fails the tool. */
function toolLogger(calls: CurrentCall, tool: string): object {
  const write = (level: LogLine["level"], message: unknown, data: unknown) => {
    const text = typeof message === "string" ? message : inspect(message, { depth: 4 });
    const line: LogLine = { level, text, ...(data !== undefined && { data: plain(data) }) };
    calls.notify("log", line);
  };
  const methods = Object.entries(levels).map(
    ([name, level]) => [name, (message: unknown, data?: unknown) => write(level, message, data)] as const,
  );
  const known = new Map<string, LogLine["level"]>([...Object.entries(levels), ["warning", "warn"]]);
  return {
    ...Object.fromEntries(methods),
    log: (level: unknown, message?: unknown, data?: unknown) =>
      write(known.get(String(level).toLowerCase()) ?? "info", message, data),
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
 * Keeps JSON values between calls. The methods of `this.api.storage` are synchronous, so the worker holds a copy; the
 * host is notified of every change and writes it.
 */
export class ToolStorage {
  readonly #items = new Map<string, string>();
  readonly #calls: CurrentCall;
  readonly #isDryRun: boolean;
  #version = 0;
  /** How many changes were sent to the host since the last `settle`. */
  #changes = 0;
  #size = 0;

  constructor(snapshot: StorageSnapshot, calls: CurrentCall, isDryRun: boolean) {
    this.#calls = calls;
    this.#isDryRun = isDryRun;
    this.#load(snapshot);
  }

  get api(): object {
    const items = this.#items;
    return {
      get length() {
        return items.size;
      },
      getItem: (key: unknown) => JSON.parse(items.get(String(key)) ?? "null"),
      setItem: (key: unknown, value: unknown) => this.#set(String(key), value),
      removeItem: (key: unknown) => {
        if (this.#replace(String(key), undefined)) this.#send({ type: "remove", key: String(key) });
      },
      clear: () => {
        items.clear();
        this.#size = 0;
        this.#send({ type: "clear" });
      },
      hasItem: (key: unknown) => items.has(String(key)),
      key: (index: number) => [...items.keys()][index] ?? null,
      keys: () => [...items.keys()],
      getAll: () => Object.fromEntries([...items].map(([key, text]) => [key, JSON.parse(text)])),
      getSize: () => this.#size,
      getStoragePath: () => "storage.json",
    };
  }

  /** Called before a call: reads the items again when others have changed them. */
  async refresh(version: number): Promise<void> {
    if (version === this.#version || this.#isDryRun) return;
    const read = await this.#calls.request("storage.read", {}, "Reading the storage");
    this.#load(read as StorageSnapshot); // The server sends storage in this form.
  }

  /** Called after a call: waits until the host has written every change. */
  async settle(): Promise<void> {
    if (this.#changes === 0) return;
    const sent = { version: this.#version, changes: this.#changes };
    this.#changes = 0;
    this.#version = Number(await this.#calls.request("storage.settle", sent, "Storing"));
  }

  #load({ version, items }: StorageSnapshot): void {
    this.#items.clear();
    this.#size = 0;
    for (const [key, value] of Object.entries(items)) this.#replace(key, JSON.stringify(value));
    this.#version = version;
  }

  #set(key: string, value: unknown): void {
    const text = JSON.stringify(value ?? null);
    if (text === undefined) throw new TypeError(`The value of "${key}" cannot be stored: it is not JSON.`);
    const size = this.#size - sizeOf(key, this.#items.get(key)) + sizeOf(key, text);
    if (size > STORAGE_LIMIT) {
      throw new RangeError(
        `"${key}" cannot be stored: a tool may keep ${STORAGE_LIMIT / 1024 / 1024} MiB, and it would be ${size} bytes. Remove something first.`,
      );
    }
    this.#replace(key, text);
    this.#send({ type: "set", key, value: JSON.parse(text) });
  }

  /** Returns whether the key had a value before. */
  #replace(key: string, text: string | undefined): boolean {
    const before = this.#items.get(key);
    this.#size += sizeOf(key, text) - sizeOf(key, before);
    if (text === undefined) this.#items.delete(key);
    else this.#items.set(key, text);
    return before !== undefined;
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
