import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type CallOptions, ToolRegistry, type ToolResult } from "@toolrack/core";
import { openSecrets, type Secrets } from "../../../access/secrets.ts";
import { Unapproved } from "../../../access/unapproved-files.ts";
import { operatorOrigin } from "../../../calls/call-book.ts";
import type { OfferingReader } from "../../../calls/offering-source.ts";
import { Offerings } from "../../../calls/offerings.ts";
import { DependencyStore } from "../../../sandbox/dependencies.ts";
import { openStore, type Store } from "../../../store/store.ts";
import { McpServers } from "../mcp-servers.ts";
import { MARK } from "../process/processes.ts";
import type { McpServersOptions } from "../server-context.ts";

/** A rack with upstream servers, on a real store, in a folder of its own. */
export class UpstreamRack {
  readonly directory: string;
  readonly store: Store;
  readonly secrets: Secrets;
  readonly registry: ToolRegistry;
  readonly offerings: Offerings;
  readonly messages: string[] = [];
  #servers: McpServers | undefined;

  private constructor(directory: string, store: Store, secrets: Secrets) {
    this.directory = directory;
    this.store = store;
    this.secrets = secrets;
    this.registry = new ToolRegistry({ directory });
    this.offerings = new Offerings({ logger: this.#logger });
  }

  /** Makes a rack with an empty store, or with the store of an earlier rack in `directory`. */
  static async create(directory?: string): Promise<UpstreamRack> {
    const place = directory ?? (await mkdtemp(join(tmpdir(), "toolrack-mcp-")));
    const folder = join(place, ".toolrack");
    const store = await openStore({ directory: folder });
    const secrets = await openSecrets({ directory: folder, store, keyring: async () => undefined });
    return new UpstreamRack(place, store, secrets);
  }

  get servers(): McpServers {
    if (this.#servers === undefined) throw new Error("Open the servers first.");
    return this.#servers;
  }

  /** Writes `mcp.json` and opens the servers in it. */
  async open(mcpServers: object, options: Partial<McpServersOptions> = {}): Promise<McpServers> {
    await this.writeFile({ mcpServers });
    this.#servers = await McpServers.open({
      registry: this.registry,
      offerings: this.offerings,
      store: this.store.mcpServers,
      secrets: this.secrets,
      setting: async () => undefined,
      originOf: () => operatorOrigin,
      logger: this.#logger,
      directory: this.directory,
      unapproved: new Unapproved({ directory: this.directory }),
      pinning: "quarantine",
      identity: { id: randomUUID(), above: [] },
      clientInfo: { name: "toolrack", version: "0" },
      openApi: () => Promise.reject(new Error("There are no APIs here.")),
      packages: new DependencyStore({
        directory: join(this.directory, ".toolrack", "mcp"),
        logger: this.#logger,
      }),
      ...options,
    });
    return this.#servers;
  }

  writeFile(content: object | string): Promise<void> {
    const text = typeof content === "string" ? content : JSON.stringify(content);
    return writeFile(join(this.directory, "mcp.json"), text);
  }

  /** Resolves when the server is in the state `wanted`. */
  async until(key: string, wanted: string): Promise<void> {
    await this.eventually(() => this.servers.get(key).state === wanted, `${key} is ${wanted}`);
  }

  async eventually(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
    const deadline = Date.now() + 30_000;
    while (!(await holds())) {
      if (Date.now() > deadline) throw new Error(`Never: ${what}. ${this.messages.slice(-5).join("\n")}`);
      await delay(10);
    }
  }

  call(name: string, input: object = {}, options: CallOptions = {}): Promise<ToolResult> {
    return this.registry.execute(name, input, options);
  }

  /** Closes the servers and the store; the folder stays. */
  async close(): Promise<void> {
    await this.#servers?.close();
    await this.store.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    await rm(this.directory, { recursive: true, force: true });
  }

  readonly #logger = {
    debug: (...values: unknown[]) => this.#say(values),
    info: (...values: unknown[]) => this.#say(values),
    warn: (...values: unknown[]) => this.#say(values),
    error: (...values: unknown[]) => this.#say(values),
  };

  #say(values: unknown[]): void {
    this.messages.push(values.join(" "));
  }
}

/** The ids of all processes that have this environment variable, given as `NAME=value`. */
export async function processesWith(variable: string): Promise<number[]> {
  const found: number[] = [];
  for (const id of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const environment = await readFile(`/proc/${id}/environ`, "latin1").catch(() => "");
    if (environment.split("\0").includes(variable)) found.push(Number(id));
  }
  return found;
}

/** A reader who may read everything. */
export const everybody: OfferingReader = {
  caller: "test",
  mayUse: () => true,
  signal: new AbortController().signal,
};

export { MARK };
