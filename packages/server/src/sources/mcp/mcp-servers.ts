import { join, resolve } from "node:path";
import { hashValue, type Logger, redact, type ToolRegistry } from "@toolrack/core";
import { DependencyStore } from "../../dependencies/dependency-store.ts";
import type { Offerings } from "../../offerings/offerings.ts";
import type { Secrets } from "../../secrets/open-secrets.ts";
import { McpServerError } from "../../store/mcp-servers/mcp-server-error.ts";
import type {
  McpServerStore,
  StoredMcpServer,
  ToolOverride,
} from "../../store/mcp-servers/mcp-server-store.ts";
import { watchFiles } from "../watch-files.ts";
import { ownMember } from "./catalogue/own-member.ts";
import { hashOfPin, type PinningPolicy, pinOf } from "./catalogue/pin.ts";
import { rackNameOf } from "./catalogue/tool-names.ts";
import { type McpFile, readMcpFile } from "./config/read-mcp-file.ts";
import { problemOfKey, readServerEntry, type ServerEntry } from "./config/server-entry.ts";
import { ManagedServer, type ServerSurroundings, type WantedServer } from "./managed-server.ts";
import { type McpServerView, type McpToolView, toolViewsOf, viewOf } from "./mcp-server-view.ts";
import type { LogLine } from "./process/recent-lines.ts";
import { nobodyWaits, type SignIn } from "./sign-in/sign-in.ts";
import type { VaultSecrets } from "./sign-in/sign-in-vault.ts";

export interface McpServersParts {
  readonly registry: ToolRegistry;
  readonly offerings?: Offerings;
  readonly store: McpServerStore;
  readonly secrets: Pick<Secrets, "values"> & VaultSecrets;
  readonly logger: Logger;
  /** The workspace. */
  readonly directory: string;
  /** The file with `mcpServers`, relative to the workspace. Default `mcp.json`. */
  readonly file?: string;
  /** Default `quarantine`. */
  readonly pinning?: PinningPolicy;
  /** Where packages are installed. Default: `.toolrack/mcp` of the workspace. */
  readonly packages?: Pick<DependencyStore, "install">;
  /** How servers are told who we are. */
  readonly clientInfo?: { readonly name: string; readonly version: string };
}

export interface McpServerUpdate {
  readonly entry?: unknown;
  readonly enabled?: boolean;
  /** What is said about tools, by the names that the server gives them; null takes back what was said. */
  readonly tools?: Readonly<Record<string, ToolOverride | null>>;
}

/** The upstream MCP servers of a workspace: those of `mcp.json` and those of the store. */
export class McpServers {
  readonly #parts: McpServersParts;
  readonly #path: string;
  readonly #servers = new Map<string, ManagedServer>();
  readonly #shared: ServerSurroundings;
  readonly #listeners = new Set<() => void>();
  #file: McpFile = { entries: new Map(), problems: new Map() };
  #fileProblem: string | undefined;
  #rows = new Map<string, StoredMcpServer>();
  #watcher: { close(): Promise<void> } | undefined;
  /** Changes are made one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  private constructor(parts: McpServersParts) {
    this.#parts = parts;
    this.#path = resolve(parts.directory, parts.file ?? "mcp.json");
    const mask = (text: string) => String(redact(text, { values: parts.secrets.values() }));
    this.#shared = {
      registry: parts.registry,
      offerings: parts.offerings,
      store: parts.store,
      logger: parts.logger,
      surroundings: {
        directory: parts.directory,
        environment: process.env,
        secret: (name) => parts.secrets.get(name),
      },
      clientInfo: parts.clientInfo ?? { name: "toolrack", version: "0" },
      packages:
        parts.packages ??
        new DependencyStore({
          directory: join(parts.directory, ".toolrack", "mcp"),
          npmrc: join(parts.directory, ".npmrc"),
          logger: parts.logger,
        }),
      pinning: parts.pinning ?? "quarantine",
      mask,
      secrets: parts.secrets,
      keys: () => [
        ...this.#file.entries.keys(),
        ...[...this.#rows.values()].flatMap(({ key, entry }) => (entry === undefined ? [] : [key])),
      ],
      onChange: () => {
        for (const listener of this.#listeners) listener();
      },
    };
  }

  /** Starts all servers and waits for none of them; until they answer, they offer what they offered last. */
  static async open(parts: McpServersParts): Promise<McpServers> {
    const servers = new McpServers(parts);
    await servers.reload();
    return servers;
  }

  /** Reads the file again whenever it changes. */
  watch(): void {
    this.#watcher ??= watchFiles([this.#path], () => this.reload());
  }

  /** What is wrong with the file as a whole; its last good state goes on. */
  get fileProblem(): string | undefined {
    return this.#fileProblem;
  }

  /** Entries that cannot be used, with the reason, by key. */
  get problems(): ReadonlyMap<string, string> {
    return this.#file.problems;
  }

  /** Is told whenever something about a server changed. Answers how to stop. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Brings the servers in line with the file and the store. What did not change goes on undisturbed. */
  reload(): Promise<void> {
    return this.#inTurn(async () => {
      try {
        this.#file = await readMcpFile(this.#path);
        this.#fileProblem = undefined;
        for (const problem of this.#file.problems.values()) this.#parts.logger.warn(problem);
      } catch (thrown) {
        this.#fileProblem = `${(thrown as Error).message} The servers go on as the file last said.`;
        this.#parts.logger.warn(this.#fileProblem);
      }
      await this.#reconcile();
    });
  }

  /** By key. */
  list(): McpServerView[] {
    return [...this.#servers.values()].map(viewOf).sort((one, other) => (one.key < other.key ? -1 : 1));
  }

  get(key: string): McpServerView {
    return viewOf(this.#require(key));
  }

  log(key: string): readonly LogLine[] {
    return this.#require(key).upstream.lines.all();
  }

  /** In the order of the server. */
  tools(key: string): McpToolView[] {
    return toolViewsOf(this.#require(key), this.#shared.keys());
  }

  add(key: string, given: unknown): Promise<McpServerView> {
    return this.#inTurn(async () => {
      const problem = problemOfKey(key);
      if (problem !== undefined) throw new McpServerError("mcp_server_invalid", problem);
      if (this.#servers.has(key)) {
        throw new McpServerError(
          "mcp_server_exists",
          `There is an MCP server "${key}" already. Choose another key, or change that one.`,
        );
      }
      await this.#parts.store.put(key, { entry: await checked(given), enabled: null });
      await this.#reconcile();
      return this.get(key);
    });
  }

  update(key: string, { entry, enabled, tools = {} }: McpServerUpdate): Promise<McpServerView> {
    return this.#inTurn(async () => {
      const server = this.#require(key);
      if (entry !== undefined) this.#refuseFile(server, "changed");
      for (const name of Object.keys(tools)) this.#requireTool(server, name);
      this.#refuseDoubles(server, tools);
      if (entry !== undefined || enabled !== undefined) {
        await this.#parts.store.put(key, {
          ...(entry === undefined ? {} : { entry: await checked(entry) }),
          ...(enabled === undefined ? {} : { enabled }),
        });
      }
      for (const [name, override] of Object.entries(tools)) await server.pins.override(name, override ?? {});
      await this.#reconcile();
      server.apply();
      return this.get(key);
    });
  }

  remove(key: string): Promise<void> {
    return this.#inTurn(async () => {
      const server = this.#require(key);
      this.#refuseFile(server, "removed");
      await server.signIn?.end();
      await this.#parts.store.remove(key);
      await this.#reconcile();
    });
  }

  /** Resolves when it is ready or has failed. */
  async restart(key: string): Promise<McpServerView> {
    await this.#require(key).upstream.restart();
    return this.get(key);
  }

  /** Answers the page at which a person signs the rack in; it sends them back to `callback`, with the key behind it. */
  login(key: string, callback: string): Promise<{ readonly url: string; readonly expiresAt: number }> {
    return this.#requireSignIn(key).begin(`${callback}/${encodeURIComponent(key)}`);
  }

  /** Takes what a person came back with, and starts the server anew without waiting for it. */
  async finishLogin(key: string, answer: URLSearchParams): Promise<void> {
    const { signIn, upstream } = this.#servers.get(key) ?? {};
    if (signIn === undefined) throw nobodyWaits(key);
    await signIn.finish(answer);
    void upstream?.restart();
  }

  /** Forgets the sign-in, and says whether the tokens were taken back where they came from. */
  async logout(key: string): Promise<{ readonly revoked: boolean; readonly server: McpServerView }> {
    const { revoked } = await this.#requireSignIn(key).end();
    await this.#require(key).upstream.restart();
    return { revoked, server: this.get(key) };
  }

  /**
   * Agrees to tools as they are now: to those that are named, or to all of the server. A name may come with the hash of
   * the definition that was looked at; where one is another by now, nothing is agreed to.
   */
  async approve(
    key: string,
    names: Readonly<Record<string, string | undefined>> | undefined,
    by: string,
  ): Promise<McpToolView[]> {
    const server = this.#require(key);
    const wanted =
      names === undefined
        ? [...server.upstream.catalogue.tools]
        : Object.entries(names).map(([name, hash]) => this.#requireTool(server, name, hash));
    // All at once: while one is written, the catalogue may become another.
    await Promise.all(wanted.map((tool) => server.pins.approve(tool, by)));
    server.apply();
    this.#shared.onChange();
    const approved = new Set(wanted.map((tool) => tool.name));
    return this.tools(key).filter((tool) => approved.has(tool.name));
  }

  /** Ends all servers, and resolves when nothing of them is left. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#watcher?.close();
    await this.#turn.catch(() => {});
    await Promise.all([...this.#servers.values()].map((server) => server.close()));
    this.#servers.clear();
  }

  async #reconcile(): Promise<void> {
    if (this.#isClosed) return;
    const rows = await this.#parts.store.list();
    this.#rows = new Map(rows.map((row) => [row.key, row]));
    const wanted = await this.#wanted();
    const keysBefore = hashValue([...this.#servers.keys()].sort());
    const leaving = [...this.#servers.values()].filter(({ key }) => !wanted.has(key));
    for (const { key } of leaving) this.#servers.delete(key);
    await Promise.all([
      ...leaving.map((server) => server.close()),
      ...[...wanted.values()].map((server) => this.#bring(server)),
    ]);
    // Names depend on which servers there are.
    if (keysBefore !== hashValue([...this.#servers.keys()].sort())) {
      for (const server of this.#servers.values()) server.apply();
    }
    this.#shared.onChange();
  }

  async #bring(wanted: WantedServer): Promise<void> {
    const server = this.#servers.get(wanted.key);
    if (server === undefined) {
      this.#servers.set(
        wanted.key,
        await ManagedServer.open(wanted, this.#rows.get(wanted.key), this.#shared),
      );
    } else if (hashValue(server.wanted) !== hashValue(wanted)) {
      await server.change(wanted);
    }
  }

  /** What the file and the store say together. Of two with one key, that of the file counts. */
  async #wanted(): Promise<Map<string, WantedServer>> {
    const wanted = new Map<string, WantedServer>();
    for (const { key, entry: given, enabled } of this.#rows.values()) {
      if (given === undefined) continue;
      try {
        const entry = await readServerEntry(given);
        wanted.set(key, { key, entry, place: "store", isEnabled: enabled ?? entry.enabled !== false });
      } catch (thrown) {
        this.#parts.logger.warn(
          `The MCP server "${key}" of the store is not valid. ${(thrown as Error).message}`,
        );
      }
    }
    for (const [key, entry] of this.#file.entries) {
      if (wanted.has(key)) {
        this.#parts.logger.warn(
          `The MCP server "${key}" stands in ${this.#path} and in the store. The file counts.`,
        );
      }
      const { enabled } = this.#rows.get(key) ?? {};
      wanted.set(key, { key, entry, place: "file", isEnabled: enabled ?? entry.enabled !== false });
    }
    return wanted;
  }

  #require(key: string): ManagedServer {
    const server = this.#servers.get(key);
    if (server !== undefined) return server;
    const known = [...this.#servers.keys()].sort().join(", ");
    const broken = this.#file.problems.get(key);
    throw new McpServerError(
      "mcp_server_not_found",
      broken ??
        `There is no MCP server "${key}". ${known === "" ? "There are none." : `There are: ${known}.`}`,
    );
  }

  #requireSignIn(key: string): SignIn {
    const { signIn, wanted } = this.#require(key);
    if (signIn !== undefined) return signIn;
    const why =
      wanted.entry.url === undefined
        ? "it is a process, which takes its credentials from its environment"
        : "its entry sends an Authorization header. Take the header out of the entry first";
    throw new McpServerError("mcp_server_invalid", `Nobody can sign in at the MCP server "${key}": ${why}.`);
  }

  #requireTool(server: ManagedServer, name: string, hash?: string) {
    const tool = server.find(name);
    if (tool === undefined) {
      throw new McpServerError("mcp_tool_not_found", `The MCP server "${server.key}" has no tool "${name}".`);
    }
    const current = hashOfPin(pinOf(tool));
    if (hash === undefined || hash === current) return tool;
    const { changes } = server.pins.of(name);
    const now =
      changes.length === 0
        ? "It is what was approved before"
        : `It now differs from what was approved in ${changes.map(({ path }) => path).join(", ")}`;
    throw new McpServerError(
      "mcp_tool_changed",
      `The tool "${name}" of the MCP server "${server.key}" changed after it was looked at, so nothing was approved. ${now}. Look at it again and approve what you see: toolrack mcp-servers show ${server.key}`,
      { tool: name, hash: current, changes },
    );
  }

  /** A tool cannot be given the name that another tool of the server has. */
  #refuseDoubles(server: ManagedServer, overrides: NonNullable<McpServerUpdate["tools"]>): void {
    const before = this.tools(server.key);
    for (const [name, override] of Object.entries(overrides)) {
      if (override?.rename === undefined) continue;
      const rackName = rackNameOf(server.key, override.rename, this.#shared.keys());
      const other = before.find((tool) => {
        if (tool.name === name) return false;
        const own = rackNameOf(server.key, tool.name, this.#shared.keys());
        const said = ownMember(overrides, tool.name);
        const renamed =
          said === undefined
            ? tool.rackName
            : rackNameOf(server.key, said?.rename ?? tool.name, this.#shared.keys());
        // By its own name a renamed tool is reached too.
        return rackName === own || rackName === renamed;
      });
      if (other === undefined) continue;
      throw new McpServerError(
        "mcp_server_invalid",
        `The tool "${name}" cannot be renamed to ${rackName}: that is the name of the tool "${other.name}". Choose another name.`,
      );
    }
  }

  #refuseFile(server: ManagedServer, what: string): void {
    if (server.wanted.place === "store") return;
    throw new McpServerError(
      "mcp_server_read_only",
      `The MCP server "${server.key}" stands in ${this.#path} and is ${what} there.`,
    );
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#turn.then(work, work);
    this.#turn = done.catch(() => {});
    return done;
  }
}

async function checked(given: unknown): Promise<ServerEntry> {
  try {
    return await readServerEntry(given);
  } catch (thrown) {
    throw new McpServerError("mcp_server_invalid", `The entry is not valid. ${(thrown as Error).message}`);
  }
}
