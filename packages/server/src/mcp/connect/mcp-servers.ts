import { resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { hashValue, redact } from "@toolrack/core/internal";
import { MaskedValues } from "../../access/index.ts";
import { type Origin, operatorOrigin, problemOfOwnEntry, readRacks } from "../../calls/index.ts";
import { problemOfKey, type RackItem, upstreamOrigin } from "../../config/index.ts";
import { reasonOf, watchFile } from "../../helpers/index.ts";
import { readServerAddress } from "../../helpers/server-address.ts";
import { McpServerError } from "../../store/index.ts";
import { approvedParts, type ServerInstructions } from "./catalogue/catalogue.ts";
import { RackNames } from "./catalogue/rack-names.ts";
import {
  checkedEntry,
  joinedFiles,
  type McpFile,
  nothing,
  readApisFile,
  readMcpFile,
  type WantedServer,
  wantedServers,
} from "./config/configured-servers.ts";
import { nameOf, sentence } from "./failures.ts";
import { ManagedServer } from "./managed-server.ts";
import type { LogLine } from "./process/recent-lines.ts";
import { filesOfServer } from "./process/server-files.ts";
import type { McpServersOptions, ServerContext } from "./server-context.ts";
import type { McpServerView, McpToolView } from "./server-schemas.ts";
import {
  refuseDoubles,
  requireSignIn,
  requireTool,
  type ToolOverrides,
  toolViewsOf,
  viewOf,
} from "./server-views.ts";
import { noPendingSignIn } from "./sign-in/sign-in.ts";

/** How long a list of tools waits for servers that read their lists with the credentials of its caller, in milliseconds. */
const GREETING = 10_000;

export interface McpServerUpdate {
  readonly entry?: unknown;
  readonly enabled?: boolean;
  readonly tools?: ToolOverrides;
}

/** The upstream MCP servers of a workspace, from `mcp.json` and from the store. */
export class McpServers {
  /** Why the file as a whole cannot be used. The servers then go on as the file said before. */
  fileProblem: string | undefined;
  readonly #options: McpServersOptions;
  readonly #path: string;
  readonly #apisPath: string;
  readonly #servers = new Map<string, ManagedServer>();
  readonly #context: ServerContext;
  readonly #listeners = new Set<() => void>();
  #file: McpFile = nothing;
  #watchers: readonly { close(): Promise<void> }[] = [];
  /** Names on the rack have changed, and some servers may not have been told yet. */
  #haveNamesChanged = false;
  /** The last change that was begun. Changes are made one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  private constructor(options: McpServersOptions, names: RackNames) {
    this.#options = options;
    this.#path = resolve(options.directory, options.file ?? "mcp.json");
    this.#apisPath = resolve(options.directory, "apis.json");
    const { secrets, setting, directory } = options;
    const masked = new MaskedValues(() => secrets.values());
    this.#context = {
      ...options,
      names,
      surroundings: {
        directory,
        environment: process.env,
        secret: (name) => secrets.get(name),
        setting,
      },
      mask: (text) => String(redact(text, { values: masked.refresh() })),
      maskFor: (key, values) => secrets.maskFor(`mcp-server ${key}`, values),
      onNames: (key) => {
        this.#haveNamesChanged = true;
        for (const server of this.#servers.values()) if (server.key !== key) server.renamed();
      },
      onChange: () => {
        for (const listener of this.#listeners) listener();
      },
    };
  }

  /** Starts all servers without waiting. Until they answer, they offer their last known tools. */
  static async open(options: McpServersOptions): Promise<McpServers> {
    const servers = new McpServers(options, await RackNames.open(options.store, options.logger));
    try {
      await servers.reload();
    } catch (thrown) {
      // The caller gets no object to close, so the started servers are closed here.
      await servers.close();
      throw thrown;
    }
    return servers;
  }

  /** Reads the file again whenever it changes. */
  watch(): void {
    const { logger } = this.#options;
    if (this.#watchers.length > 0) return;
    this.#watchers = [this.#path, this.#apisPath].map((path) => {
      const tell = ({ message }: Error) =>
        logger.error(`The MCP servers could not follow a change of ${path}: ${message}`);
      return watchFile(path, () => this.reload().catch(tell));
    });
  }

  /** Whether a server is being started for the first time and nothing that it offers is known yet. */
  get areListing(): boolean {
    return [...this.#servers.values()].some(({ upstream, registered }) => {
      const { prompts, resources, templates } = upstream.catalogue;
      const known = registered.size + prompts.length + resources.length + templates.length;
      return upstream.state === "starting" && known === 0 && upstream.status.failures === 0;
    });
  }

  /** The ids of this rack and of the racks behind its servers. */
  get racks(): readonly string[] {
    const servers = [...this.#servers.values()].filter(({ wanted }) => wanted.isEnabled);
    return readRacks([
      this.#context.identity.id,
      ...servers.flatMap(({ upstream }) => upstream.catalogue.racks ?? []),
    ]);
  }

  /** What is wrong with entries of the file, by key. */
  get problems(): ReadonlyMap<string, string> {
    return this.#file.problems;
  }

  /** Calls the listener whenever something about a server changed. Returns a function that stops it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Reads the file and the store again, and applies both. Servers without a change are not disturbed. */
  reload(): Promise<void> {
    return this.#inTurn(async () => {
      try {
        const apis = await readApisFile(this.#apisPath);
        this.#file = joinedFiles(await readMcpFile(this.#path), apis, this.#apisPath);
        this.fileProblem = undefined;
        const { entries, problems } = this.#file;
        // Invalid entries with a valid key are listed as servers, which report their problem.
        const isListed = (key: string) => "reason" in (entries.get(key) ?? {});
        for (const [key, problem] of problems) if (!isListed(key)) this.#options.logger.warn(problem);
      } catch (thrown) {
        this.fileProblem = `${sentence(reasonOf(thrown))} The servers go on as the file last said.`;
        this.#options.logger.warn(this.fileProblem);
      }
      await this.#reconcile();
    });
  }

  /** Applies what another process changed in the store. Servers without a change are not disturbed. */
  refresh(): Promise<void> {
    return this.#inTurn(async () => {
      this.#haveNamesChanged = (await this.#context.names.refresh()) || this.#haveNamesChanged;
      await this.#reconcile();
      await Promise.all([...this.#servers.values()].map((server) => server.refresh()));
    });
  }

  /** Restarts each server that cannot be used, if one of its secrets has changed. */
  async followSecrets(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.followSecrets()));
  }

  /** The names that now stand for a former name of a tool on the rack; `RackNames` says when names are replaced. */
  successorsOf(toolName: string): readonly string[] {
    return this.#context.names.successorsOf(toolName);
  }

  /** The former name, in lower case, that this name of a tool on the rack replaced. */
  formerNameOf(toolName: string): string | undefined {
    return this.#context.names.formerNameOf(toolName);
  }

  /** All servers, sorted by key. `owner`: the id of the token that looks; default: the operator. */
  list(owner: string = operatorOrigin.owner): McpServerView[] {
    const views = [...this.#servers.values()].map((server) => viewOf(server, owner));
    return views.sort((one, other) => (one.key < other.key ? -1 : 1));
  }

  get(key: string, owner: string = operatorOrigin.owner): McpServerView {
    return viewOf(this.#require(key), owner);
  }

  /** What clients are told about a server. Undefined when there is nothing to tell, or no such server. */
  instructionsOf(key: string): ServerInstructions | undefined {
    return this.#servers.get(key)?.instructions;
  }

  /** The last lines about a server and about its callers' connections, in the order in which they were written. */
  log(key: string): readonly LogLine[] {
    const { upstream, connections } = this.#require(key);
    const lines = upstream.lines.all();
    return connections === undefined
      ? lines
      : [...lines, ...connections.lines()].sort((one, other) => one.at - other.at);
  }

  /**
   * Lets servers of which no tools are known yet, because they act with the credentials of callers, read their lists with
   * those of this caller. Undefined when there is no such server; otherwise resolves when the lists are read, or after
   * `GREETING` milliseconds. Never rejects.
   */
  greet(origin: Origin, mayUse: (item: RackItem) => boolean): Promise<unknown> | undefined {
    const unlisted = [...this.#servers.values()].filter((server) => server.isUnlisted);
    const usable = unlisted.filter(({ key }) => this.mayReach(key, mayUse));
    if (usable.length === 0) return undefined;
    const greetings = usable.map((server) => server.greet(origin));
    return Promise.race([Promise.all(greetings), wait(GREETING, undefined, { ref: false })]);
  }

  /** Whether somebody may use any tool of the server. Without a known tool, whether one of any name could be used. */
  mayReach(key: string, mayUse: (item: RackItem) => boolean): boolean {
    const tools = this.#servers.get(key)?.upstream.catalogue.tools ?? [];
    const names = tools.length === 0 ? ["any"] : tools.map(({ name }) => name);
    return names.some((tool) =>
      mayUse({
        name: this.#context.names.nameOf(key, tool),
        metadata: { mcp: upstreamOrigin({ server: key, tool }) },
      }),
    );
  }

  /** The tools of a server, in the order in which the server lists them. */
  tools(key: string): McpToolView[] {
    return toolViewsOf(this.#require(key));
  }

  add(key: string, given: unknown): Promise<McpServerView> {
    return this.#inTurn(async () => {
      const problem = problemOfKey(key);
      if (problem !== undefined) throw new McpServerError("mcp_server_invalid", problem);
      // Another process may have added a server with this key meanwhile.
      await this.#reconcile();
      if (this.#servers.has(key)) throw exists(key);
      const entry = await checkedEntry(given);
      const { directory } = this.#options;
      // An entry that leads to this rack itself is refused.
      const own = problemOfOwnEntry(entry, directory, (await readServerAddress(directory))?.url);
      if (own !== undefined) throw new McpServerError("mcp_server_invalid", own);
      if (!(await this.#options.store.add(key, entry))) throw exists(key);
      await this.#reconcile();
      return this.get(key);
    });
  }

  update(key: string, { entry, enabled, tools = {} }: McpServerUpdate): Promise<McpServerView> {
    return this.#inTurn(async () => {
      // Another process may have changed the server meanwhile.
      await this.#reconcile();
      const server = this.#require(key);
      if (entry !== undefined) this.#refuseFile(server, "changed");
      for (const name of Object.keys(tools)) requireTool(server, name);
      refuseDoubles(server, tools);
      if (entry !== undefined || enabled !== undefined) {
        const checked = entry === undefined ? undefined : await checkedEntry(entry, server.wanted);
        await this.#options.store.put(key, { entry: checked, enabled });
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
      // The server is closed first, because a running server would write its catalogue into the store again.
      this.#servers.delete(key);
      await server.close();
      try {
        await server.signIns.forget();
        await this.#options.store.remove(key);
      } finally {
        await this.#reconcile();
      }
    });
  }

  /** Resolves when the server is ready or has failed. `origin`: who asks for it. */
  async restart(key: string, origin: Origin = operatorOrigin): Promise<McpServerView> {
    await this.#require(key).restart(origin);
    return this.get(key, origin.owner);
  }

  /** Whether each token signs in at the server for itself. */
  isSignedInByToken(key: string): boolean {
    return this.#servers.get(key)?.signIns.isByToken === true;
  }

  /**
   * Returns the address of the page where a person signs in. The page then sends the person to `callback`,
   * followed by the key. `owner`: the id of the token that asks.
   */
  login(
    key: string,
    callback: string,
    owner: string = operatorOrigin.owner,
  ): Promise<{ readonly url: string; readonly expiresAt: number }> {
    return requireSignIn(this.#require(key), owner).begin(`${callback}/${encodeURIComponent(key)}`);
  }

  /** Finishes a sign-in with the parameters of the callback, and restarts the server without waiting. */
  async finishLogin(key: string, answer: URLSearchParams): Promise<void> {
    const server = this.#servers.get(key);
    const found = server?.signIns.find(answer.get("state") ?? "");
    if (found === undefined) throw noPendingSignIn(key);
    await found.signIn.finish(answer);
    void server?.signInChanged(found.owner);
    await this.#tellOthers();
  }

  /** Signs out and restarts the server. `revoked`: whether the authorization server revoked the tokens. */
  async logout(
    key: string,
    owner: string = operatorOrigin.owner,
  ): Promise<{ readonly revoked: boolean; readonly server: McpServerView }> {
    const { revoked } = await requireSignIn(this.#require(key), owner).end();
    await this.#tellOthers();
    await this.#require(key).signInChanged(this.isSignedInByToken(key) ? owner : "");
    return { revoked, server: this.get(key, owner) };
  }

  /**
   * Approves the named tools as they are now, or all tools of the server. A name may come with the hash of the
   * definition that a person saw; if one of these definitions has changed since, nothing is approved.
   */
  async approve(
    key: string,
    names: Readonly<Record<string, string | undefined>> | undefined,
    by: string,
  ): Promise<McpToolView[]> {
    if (names === undefined && this.#require(key).wanted.isHeld) {
      // Approves an entry that a tool call wrote into the file, as it is written now.
      await this.#inTurn(async () => {
        await this.#options.unapproved.approveServer(key, this.#file.entries.get(key)?.given);
        await this.#reconcile();
      });
    }
    const server = this.#require(key);
    const wanted =
      names === undefined
        ? approvedParts(server.upstream.catalogue)
        : Object.entries(names).map(([name, hash]) => requireTool(server, name, hash));
    // All approvals are begun at once, because the catalogue may change during a write.
    const outcomes = await Promise.allSettled(wanted.map((tool) => server.pins.approve(tool, by)));
    server.apply();
    this.#context.onChange();
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
    const approved = new Set(wanted.map((tool) => tool.name));
    return this.tools(key).filter((tool) => approved.has(tool.name));
  }

  /** Files that the servers' processes run or read when they start, and those that describe APIs. */
  usedFiles(): string[] {
    const { directory } = this.#options;
    return [...this.#servers.values()].flatMap(({ wanted: { entry }, upstream: { catalogue } }) => [
      ...filesOfServer(entry, directory),
      ...(catalogue.files ?? []),
    ]);
  }

  /** Ends all servers. Resolves when nothing of them is left. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#watchers.map((watcher) => watcher.close()));
    await this.#turn.catch(() => {});
    await Promise.all([...this.#servers.values()].map((server) => server.close()));
    this.#servers.clear();
    await this.#context.names.settled();
  }

  async #reconcile(): Promise<void> {
    if (this.#isClosed) return;
    const rows = new Map((await this.#options.store.list()).map((row) => [row.key, row]));
    const wanted = await wantedServers(rows, this.#file, {
      path: this.#path,
      logger: this.#options.logger,
      last: (key) => this.#servers.get(key)?.wanted,
      heldBack: await this.#options.unapproved.servers(),
    });
    const removed = [...this.#servers.values()].filter(({ key }) => !wanted.has(key));
    for (const { key } of removed) this.#servers.delete(key);
    // Waits for all servers even if one fails, so that a later `close` finds every started server.
    const outcomes = await Promise.allSettled([
      ...removed.map((server) => server.remove()),
      ...[...wanted.values()].map((server) => this.#openOrChange(server)),
    ]);
    // Tells every server, because some were opened after `onNames` told the others.
    if (this.#haveNamesChanged) for (const server of this.#servers.values()) server.renamed();
    this.#haveNamesChanged = false;
    this.#context.onChange();
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }

  async #openOrChange(wanted: WantedServer): Promise<void> {
    const server = this.#servers.get(wanted.key);
    if (wanted.problem !== undefined && wanted.problem !== server?.wanted.problem) {
      this.#options.logger.warn(`${nameOf(wanted)}: ${wanted.problem}`);
    }
    if (server === undefined) {
      this.#servers.set(wanted.key, await ManagedServer.open(wanted, this.#context));
    } else if (hashValue(server.wanted) !== hashValue(wanted)) {
      await server.change(wanted);
    }
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

  /** Tells other processes of a sign-in or sign-out. A failure is only logged, because the change itself is done. */
  async #tellOthers(): Promise<void> {
    await this.#options.store.tellOthers().catch((error: Error) => {
      this.#options.logger.warn(`Other processes could not be told of a sign-in: ${error.message}`);
    });
  }

  #refuseFile(server: ManagedServer, what: string): void {
    if (server.wanted.place === "store") return;
    throw new McpServerError(
      "mcp_server_read_only",
      `The ${nameOf(server.wanted)} stands in ${server.wanted.entry.api === undefined ? this.#path : this.#apisPath} and is ${what} there.`,
    );
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#turn.then(work, work);
    this.#turn = done.catch(() => {});
    return done;
  }
}

function exists(key: string): McpServerError {
  return new McpServerError(
    "mcp_server_exists",
    `There is an MCP server "${key}" already. Choose another key, or change that one.`,
  );
}
