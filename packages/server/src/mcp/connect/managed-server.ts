import { ToolDisabledError } from "@toolrack/core";
import { hashValue } from "@toolrack/core/internal";
import { type Origin, operatorOrigin } from "../../calls/index.ts";
import { reasonOf } from "../../helpers/index.ts";
import type { McpServerStore, StoredMcpServer } from "../../store/index.ts";
import type { ListName } from "../wire/index.ts";
import { CallerConnections } from "./caller-connections.ts";
import {
  approvedParts,
  type Catalogue,
  changedLists,
  checkCatalogue,
  instructionsAsTool,
  ownMember,
  type RefusedItem,
  type ServerInstructions,
  type UpstreamTool,
} from "./catalogue/catalogue.ts";
import { RegisteredTools } from "./catalogue/registered-tools.ts";
import { isOffered, quarantined, switchedOff, toTool } from "./catalogue/tool.ts";
import { ToolPins } from "./catalogue/tool-approvals.ts";
import type { WantedServer } from "./config/configured-servers.ts";
import {
  fingerprintOf,
  isListedByCaller,
  isolationOf,
  isPersonal,
  type ServerLimits,
} from "./config/entry.ts";
import { namedValues } from "./config/resolve-entry.ts";
import { commandFor, nameOf, type ServerReason } from "./failures.ts";
import { McpOfferings } from "./offerings.ts";
import type { Verdict } from "./protocol/messages.ts";
import type { ServerContext } from "./server-context.ts";
import { ServerSignIns } from "./sign-in/server-sign-ins.ts";
import { type AbortableRequest, Upstream, type UpstreamOwner } from "./upstream.ts";

/** How long the connection that only reads lists is kept after they are read, in milliseconds. */
const LISTER_REST = 2_000;

function listedLater(problem?: string): ServerReason {
  const reason =
    "It acts with the credentials of each caller, so its tools are read with those of the first caller that has any.";
  if (problem === undefined) return { reason, code: "waits_for_caller" };
  return { reason: `${reason} ${problem}`, code: "waits_for_caller", details: { said: problem } };
}

/** One upstream server with its tools in the registry, their approvals, and its prompts and resources. */
export class ManagedServer implements UpstreamOwner {
  readonly key: string;
  readonly context: ServerContext;
  readonly pins: ToolPins;
  wanted: WantedServer;
  /**
   * The connection that all callers share. If the server keeps its callers apart, this connection only reads the lists. If
   * the lists can be read only with the credentials of a caller, it is never opened.
   */
  upstream: Upstream;
  /** The connections of single callers. Undefined when all callers share one. */
  connections: CallerConnections | undefined;
  signIns: ServerSignIns;
  /** Its tools in the registry. */
  readonly registered: RegisteredTools;
  /** Tools that the entry allows but that cannot be used, by the server's names. */
  leftOut: ReadonlySet<string> = new Set();
  readonly #offerings: McpOfferings;
  /** The connection from which the lists of tools, prompts and resources were read. */
  #lister: Upstream | undefined;
  verdict: Verdict | undefined;
  /** The values of the secrets and settings that the entry names, as they were last looked at. */
  #named: Promise<string>;
  /** Tools that could not be converted to tools of the rack. */
  #unmade: readonly RefusedItem[] = [];
  /**
   * Tools that were compared with their approved definitions since the registry was last updated, and may be called.
   */
  #admitted = new WeakSet<UpstreamTool>();
  /** The last write to the store. Writes go one after the other, so that the latest value is written last. */
  #keeping: Promise<void> = Promise.resolve();
  /** Grows whenever `upstream` is replaced, because tools must then call the new one. */
  #generation = 0;

  private constructor(
    wanted: WantedServer,
    row: StoredMcpServer | undefined,
    pins: ToolPins,
    context: ServerContext,
  ) {
    this.key = wanted.key;
    this.pins = pins;
    this.wanted = wanted;
    this.context = context;
    this.registered = new RegisteredTools(context);
    this.#named = namedValues(wanted.entry, context.surroundings);
    this.signIns = new ServerSignIns(this);
    this.upstream = this.#makeShared(row);
    this.connections = this.#makeConnections();
    this.#offerings = new McpOfferings(this);
  }

  /** Offers the tools that are known from an earlier run, and starts the server without waiting for it. */
  static async open(wanted: WantedServer, context: ServerContext): Promise<ManagedServer> {
    const { store, pinning, logger } = context;
    const pins = await ToolPins.open(wanted.key, store, pinning, logger);
    const server = new ManagedServer(wanted, await store.get(wanted.key), pins, context);
    server.apply();
    context.offerings.add(server.#offerings);
    void server.#start(operatorOrigin);
    return server;
  }

  /** Also ends the connections of callers. Resolves when the lists are read, or cannot be read now. Never rejects. */
  async restart(origin: Origin = operatorOrigin): Promise<void> {
    await this.connections?.reset();
    await (this.#isPersonal ? this.#start(origin) : this.upstream.restart());
  }

  /** Whether callers act with their own credentials, and none has come yet with whom the lists could be read. */
  get isUnlisted(): boolean {
    const { tools } = this.upstream.catalogue;
    return this.#isPersonal && this.wanted.isEnabled && this.#lister === undefined && tools.length === 0;
  }

  /**
   * Opens the connection of this caller, so that the lists are read over it. Resolves when that is done, or when the caller
   * can have no connection: then with the reason. Never rejects.
   */
  async greet(origin: Origin): Promise<string | undefined> {
    try {
      await this.connections?.greet(origin);
      return undefined;
    } catch (thrown) {
      return reasonOf(thrown);
    }
  }

  /** Sends a request over the connection that is meant for this origin. */
  request(request: AbortableRequest, origin: Origin = operatorOrigin): Promise<unknown> {
    if (this.connections === undefined) return this.upstream.request(request);
    return this.connections.use(origin, (upstream) => upstream.request(request));
  }

  /** To be called when somebody has signed in or out. `owner`: the id of the token; `""` if all callers share the sign-in. */
  async signInChanged(owner: string): Promise<void> {
    if (owner === "") return this.restart();
    await this.connections?.reset(owner);
    if (this.isUnlisted) await this.greet({ ...operatorOrigin, owner });
  }

  async #start(origin: Origin): Promise<void> {
    if (!this.#isPersonal) return this.upstream.start();
    if (!this.wanted.isEnabled) return;
    this.upstream.standBy(listedLater());
    const problem = await this.greet(origin);
    if (problem !== undefined && this.isUnlisted) this.upstream.standBy(listedLater(problem));
  }

  /** Whether callers act with their own credentials, and the lists can be read only with those. */
  get #isPersonal(): boolean {
    return this.wanted.invalid === undefined && isListedByCaller(this.wanted.entry);
  }

  /** Listed items that cannot be used. */
  get refused(): readonly RefusedItem[] {
    return [...(this.upstream.catalogue.refused ?? []), ...this.#unmade, ...this.registered.refused];
  }

  /** The tool of this name; for the empty name, the server's instructions in the form of a tool. */
  find(name: string): UpstreamTool | undefined {
    return approvedParts(this.upstream.catalogue).find((tool) => tool.name === name);
  }

  /** What clients are told about the server: the words of its entry, or else its own, as they were approved. */
  get instructions(): ServerInstructions | undefined {
    const own = this.wanted.entry.toolrack?.instructions;
    const given = instructionsAsTool(this.upstream.catalogue);
    if (own !== undefined) return own.trim() === "" ? undefined : { text: own.trim(), isOwn: true };
    if (given === undefined) return undefined;
    const { state, approved } = this.pins.of(given);
    const text = state === "quarantined" ? approved?.description : given.description;
    return text === undefined ? undefined : { text: this.context.mask(text), isOwn: false };
  }

  /** Applies a new version of the entry. Restarts the server only if the change needs a restart. */
  async change(wanted: WantedServer): Promise<void> {
    const before = this.wanted;
    const { limits } = wanted.entry.toolrack ?? {};
    this.wanted = wanted;
    if (hashOfRunning(before) !== hashOfRunning(wanted)) {
      await Promise.all([this.upstream.stop(), this.connections?.close()]);
      await this.#keeping;
      this.#generation++;
      this.#named = namedValues(wanted.entry, this.context.surroundings);
      this.signIns = new ServerSignIns(this);
      this.#lister = undefined;
      this.upstream = this.#makeShared(await this.#readStored());
      this.connections = this.#makeConnections();
      this.#offerings.moveTo(this.upstream);
      void this.#start(operatorOrigin);
    } else if (hashValue(before.entry.toolrack?.limits) !== hashValue(limits)) {
      this.upstream.limit(this.#limitsOfShared);
      this.connections?.limit(limits ?? {});
    }
    this.renamed();
  }

  /** Applies tool settings, sign-ins and sign-outs that another process on the same store made. */
  async refresh(): Promise<void> {
    await this.pins.refresh(() => approvedParts(this.upstream.catalogue));
    this.apply();
    // An API waits for a sign-in without being in a state of its own for that.
    const isApi = this.wanted.entry.api !== undefined;
    const isAwaited = isApi && this.signIns.of("")?.view.signedIn === false;
    const changed = await this.signIns.follow(isAwaited || this.upstream.state === "needs-auth");
    for (const owner of changed) void this.signInChanged(owner);
  }

  /** Restarts the server if it cannot be used and one of its secrets or settings has changed. */
  async followSecrets(): Promise<void> {
    const before = await this.#named;
    this.#named = namedValues(this.wanted.entry, this.context.surroundings);
    const isDown = ["failed", "needs-auth", "backoff"].includes(this.upstream.state);
    if ((await this.#named) !== before && isDown) void this.restart();
    // The operator may have stored credentials by now, with which the tools can be listed.
    if (this.isUnlisted) void this.greet(operatorOrigin);
  }

  /** To be called when the server's tools and prompts may have other names than before. */
  renamed(): void {
    this.apply();
    this.#offerings.changed();
  }

  /** Closes a server whose entry is gone. Unlike `close`, writes nothing more about its tools into the store. */
  remove(): Promise<void> {
    this.pins.markRemoved();
    return this.close();
  }

  async close(): Promise<void> {
    const { offerings, maskFor } = this.context;
    offerings.remove(this.#offerings.key);
    this.registered.clear();
    await Promise.all([this.upstream.stop(), this.connections?.close()]);
    await this.#keeping;
    await this.pins.close();
    // The values are unmasked last, because calls that were cut off may still show them.
    maskFor(this.key, []);
  }

  /**
   * Updates the registry from the catalogue, the entry, the pins and the operator's settings. Never throws, so that one
   * server cannot disturb the others.
   */
  apply(): void {
    try {
      this.#applyTools();
    } catch (thrown) {
      this.context.logger.error(
        `The tools of the MCP server "${this.key}" could not be hung up: ${reasonOf(thrown)}`,
      );
    }
  }

  #applyTools(): void {
    const { key, upstream } = this;
    const { entry, isEnabled } = this.wanted;
    const { names } = this.context;
    const { links } = this.#offerings;
    const about = this.instructions;
    const source = { key, entry, upstream: this.connections ?? upstream, links, names, about };
    const choices = entry.toolrack?.tools ?? {};
    const offered = upstream.catalogue.tools.filter(({ name }) => isOffered(choices, name));
    this.#admitted = new WeakSet();
    this.#claimNames(offered);
    const unmade: RefusedItem[] = [];
    const made = offered.flatMap((given) => {
      try {
        const tool = toTool(source, given, this.pins.of(given));
        return [{ given, tool: isEnabled ? tool : switchedOff(tool, source) }];
      } catch (thrown) {
        // One bad tool must not affect the others.
        unmade.push({ name: given.name, reason: reasonOf(thrown) });
        return [];
      }
    });
    this.registered.replace(
      made.map(({ tool }) => tool),
      this.#generation,
    );
    this.#unmade = unmade;
    const refused = new Set(this.registered.refused.map(({ name }) => name));
    // If two tools want the same name, one gets it and the other is refused.
    const leftOut = made.filter(
      ({ tool: { name, displayName = name } }) => !this.registered.has(name) || refused.has(displayName),
    );
    this.leftOut = new Set([...unmade, ...leftOut.map(({ given }) => given)].map(({ name }) => name));
  }

  #claimNames(offered: readonly UpstreamTool[]): void {
    const { key } = this;
    const { prefix, tools: { rename = {} } = {} } = this.wanted.entry.toolrack ?? {};
    const renamed = offered.flatMap(
      (tool) => this.pins.of(tool).override.rename ?? ownMember(rename, tool.name) ?? [],
    );
    const tools = offered.map(({ name }) => name);
    const prompts = this.upstream.catalogue.prompts.map(({ name }) => String(name));
    const { names, onNames } = this.context;
    names.setPrefix(key, prefix ?? (this.wanted.entry.api === undefined ? undefined : `api_${key}_`));
    const isContested = names.claim(key, [...tools, ...renamed, ...prompts]);
    names.noteSpellings(key, [tools, prompts]);
    if (isContested) onNames(key);
  }

  /** Where the entry is, for error messages: `mcp.json` or `mcp_servers`. */
  get place(): string {
    const { place, entry } = this.wanted;
    return place === "store" ? "mcp_servers" : entry.api === undefined ? "mcp.json" : "apis.json";
  }

  /** Undefined when the store cannot be read: the server then starts without its stored catalogue and verdict. */
  #readStored(): Promise<StoredMcpServer | undefined> {
    const { store, logger } = this.context;
    return store.get(this.key).catch((error: Error) => {
      logger.warn(
        `What was learnt about the MCP server "${this.key}" could not be read, so it is learnt anew: ${error.message}`,
      );
      return undefined;
    });
  }

  #makeShared(row: StoredMcpServer | undefined): Upstream {
    const { entry } = this.wanted;
    // Both columns hold what this class wrote.
    const kept = row?.catalogue as (Catalogue & { readonly fingerprint: string }) | undefined;
    this.verdict = row?.verdict as Verdict | undefined; // Only this class writes the column.
    // The stored catalogue is checked again, because an older version of the rack may have written it.
    const catalogue = kept?.fingerprint === fingerprintOf(entry) && { ...kept, ...checkCatalogue(kept) };
    return new Upstream(this, {
      limits: this.#limitsOfShared,
      signIn: isPersonal(entry) ? undefined : this.signIns.of(""),
      catalogue: catalogue || undefined,
    });
  }

  #makeConnections(): CallerConnections | undefined {
    const { entry, invalid } = this.wanted;
    const isShared = invalid !== undefined || isolationOf(entry) === "shared";
    return isShared ? undefined : new CallerConnections(this);
  }

  learn(verdict: Verdict | undefined): void {
    this.verdict = verdict;
    this.#keep({ verdict: verdict ?? null });
  }

  updated(uri: string): void {
    this.#offerings.updated(uri);
  }

  /** The connection that only reads the lists of a server ends its process soon after. */
  get #limitsOfShared(): ServerLimits {
    const { entry } = this.wanted;
    const { limits = {} } = entry.toolrack ?? {};
    return isolationOf(entry) === "shared" ? limits : { ...limits, rest: LISTER_REST };
  }

  /**
   * Takes what a connection has read. Callers may be shown different lists: those of one connection count, until it ends.
   */
  take(found: Catalogue, changed: readonly ListName[], from: Upstream): void {
    let lists = changed;
    if (from !== this.upstream) {
      if (this.#lister !== from && this.#lister?.isOpen) return;
      lists = changedLists(this.upstream.catalogue, found);
      this.upstream.catalogue = found;
      if (this.#isPersonal) this.upstream.standBy();
    }
    this.#lister = from;
    if (lists.length === 0) return;
    this.pins.inspect(approvedParts(found));
    this.#applyTools();
    this.#offerings.changed(lists.flatMap((list) => (list === "tools" ? [] : [list])));
    this.#keep({ catalogue: { ...found, fingerprint: fingerprintOf(this.wanted.entry) } });
    this.context.onChange();
  }

  /**
   * Throws when the server no longer offers the tool, or the tool has changed since it was approved. Both may
   * have happened while the call waited for a person, for its turn or for the server to start.
   */
  admit(tool: UpstreamTool, upstream: Upstream): void {
    const { key } = this;
    const isShared = upstream === this.upstream;
    if ((isShared && this.#admitted.has(tool)) || this.context.pinning !== "quarantine") return;
    const now = upstream.catalogue.tools.find(({ name }) => name === tool.name);
    if (now === undefined) {
      const whom = isShared ? "any more" : "to this caller";
      const text = `The ${nameOf(upstream)} does not offer "${tool.name}" ${whom}, so it was not called. See: ${commandFor("show", key)}`;
      throw new ToolDisabledError(text);
    }
    if (this.pins.of(now).state === "quarantined")
      throw new ToolDisabledError(quarantined(upstream, tool.name));
    if (isShared) this.#admitted.add(tool);
  }

  #keep(change: Parameters<McpServerStore["put"]>[1]): void {
    const { store, logger } = this.context;
    this.#keeping = this.#keeping
      .then(() => store.put(this.key, change))
      .catch((error: Error) => {
        logger.warn(`What was learnt about the MCP server "${this.key}" could not be kept: ${error.message}`);
      });
  }
}

/** A hash of the parts of an entry that need a restart when they change. What is said of tools, and limits, need none. */
function hashOfRunning({ entry, isEnabled, invalid }: WantedServer): string {
  const {
    tools: _,
    limits: _limits,
    prefix: _prefix,
    instructions: _words,
    annotations: _hints,
    ...toolrack
  } = entry.toolrack ?? {};
  const { timeout: _timeout, ...rest } = entry;
  return hashValue([{ ...rest, toolrack }, isEnabled, invalid?.reason]);
}
