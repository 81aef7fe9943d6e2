import { type Logger, ToolDisabledError, type ToolInfo, type ToolRegistry } from "@toolrack/core";
import { hashValue } from "@toolrack/core/internal";
import type { Secrets, Unapproved } from "../../access/index.ts";
import type { Offerings, RackIdentity } from "../../calls/index.ts";
import { asRecord, reasonOf } from "../../helpers/index.ts";
import type { McpServerStore, StoredMcpServer } from "../../store/index.ts";
import {
  type Catalogue,
  checkCatalogue,
  ownMember,
  type RefusedItem,
  type UpstreamTool,
} from "./catalogue/catalogue.ts";
import type { RackNames } from "./catalogue/rack-names.ts";
import { isOffered, quarantined, switchedOff, toTool } from "./catalogue/tool.ts";
import { type PinningPolicy, ToolPins } from "./catalogue/tool-approvals.ts";
import { shortened } from "./catalogue/usable-schema.ts";
import type { WantedServer } from "./config/configured-servers.ts";
import { fingerprintOf } from "./config/entry.ts";
import { FollowedSecrets, type Surroundings } from "./config/resolve-entry.ts";
import { commandFor } from "./failures.ts";
import { McpOfferings } from "./offerings.ts";
import type { PackageStore } from "./process/server-files.ts";
import type { Verdict } from "./protocol/messages.ts";
import { SignIn } from "./sign-in/sign-in.ts";
import { canSignIn, SignInVault, type VaultSecrets } from "./sign-in/stored-sign-in.ts";
import { Upstream, type UpstreamOptions } from "./upstream.ts";

export interface McpServersOptions {
  readonly registry: ToolRegistry;
  readonly offerings?: Offerings;
  readonly store: McpServerStore;
  readonly secrets: Pick<Secrets, "values" | "maskFor"> & VaultSecrets;
  /** Finds a setting of the workspace by its name. */
  readonly setting?: (name: string) => Promise<string | undefined>;
  readonly logger: Logger;
  /** The folder of the workspace. */
  readonly directory: string;
  /** The file with `mcpServers`, relative to the workspace. Default `mcp.json`. */
  readonly file?: string;
  /** Entries of the file that wait for an admin because a tool call wrote them. Default: none. */
  readonly unapproved?: Pick<Unapproved, "servers" | "approveServer">;
  /** What happens when the definition of a tool changes. Default `quarantine`. */
  readonly pinning?: PinningPolicy;
  /** Installs the npm packages of servers. */
  readonly packages: PackageStore;
  /** Which rack this is, so that circles of racks are noticed. Default: a rack without a workspace. */
  readonly identity?: RackIdentity;
  /** Our name and version, sent to servers. */
  readonly clientInfo?: { readonly name: string; readonly version: string };
}

/** What all servers of a rack share. */
export interface ServerContext extends McpServersOptions, Pick<UpstreamOptions, "mask"> {
  readonly identity: RackIdentity;
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly pinning: PinningPolicy;
  readonly surroundings: Surroundings;
  readonly names: RackNames;
  /**
   * Sets the values in the entry of the server `key` that must be masked everywhere. No values when that server
   * is closed.
   */
  readonly maskFor: (key: string, values: Iterable<string>) => void;
  /** Called when the server `key` has changed the names of other servers' tools and prompts. */
  readonly onNames: (key: string) => void;
  readonly onChange: () => void;
}

interface Applied {
  readonly fingerprint: string;
  readonly isDisabled: boolean;
}

/** One upstream server with its tools in the registry, their approvals, and its prompts and resources. */
export class ManagedServer {
  readonly key: string;
  readonly pins: ToolPins;
  wanted: WantedServer;
  /** Undefined for a process, for a server whose entry has credentials, and for an invalid entry. */
  signIn: SignIn | undefined;
  upstream: Upstream;
  /** Tools that the entry allows but that cannot be used, by the server's names. */
  leftOut: ReadonlySet<string> = new Set();
  readonly #context: ServerContext;
  readonly #offerings: McpOfferings;
  readonly #vault: SignInVault;
  /** The secrets that the current entry uses. */
  #secrets: FollowedSecrets;
  /** The server's tools in the registry, by their names on the rack. */
  #applied = new Map<string, Applied>();
  /** Tools that could not be converted to tools of the rack. */
  #unmade: readonly RefusedItem[] = [];
  /** Tools that the registry refused, and tools whose new name is the name of another tool. */
  #unregistered: readonly RefusedItem[] = [];
  /**
   * Tools that were compared with their approved definitions since the registry was last updated, and may be
   * called.
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
    this.#context = context;
    this.#vault = new SignInVault(this.key, context.secrets);
    this.#secrets = new FollowedSecrets(context.surroundings);
    this.signIn = this.#makeSignIn();
    this.upstream = this.#makeUpstream(row);
    this.#offerings = new McpOfferings(this.key, () => this.upstream, context);
  }

  /** Offers the tools that are known from an earlier run, and starts the server without waiting for it. */
  static async open(wanted: WantedServer, context: ServerContext): Promise<ManagedServer> {
    const { store, pinning, logger } = context;
    const pins = await ToolPins.open(wanted.key, store, pinning, logger);
    const server = new ManagedServer(wanted, await store.get(wanted.key), pins, context);
    server.apply();
    context.offerings?.add(server.#offerings);
    server.upstream.start();
    return server;
  }

  /** How many of its tools are in the registry. */
  get toolCount(): number {
    return this.#applied.size;
  }

  /** Listed items that cannot be used. */
  get refused(): readonly RefusedItem[] {
    return [...(this.upstream.catalogue.refused ?? []), ...this.#unmade, ...this.#unregistered];
  }

  find(name: string): UpstreamTool | undefined {
    return this.upstream.catalogue.tools.find((tool) => tool.name === name);
  }

  /** Applies a new version of the entry. Restarts the server only if the change needs a restart. */
  async change(wanted: WantedServer): Promise<void> {
    const before = this.wanted;
    const { limits } = wanted.entry.toolrack ?? {};
    this.wanted = wanted;
    if (hashOfRunning(before) !== hashOfRunning(wanted)) {
      await this.upstream.stop();
      await this.#keeping;
      this.#generation++;
      this.#secrets = new FollowedSecrets(this.#context.surroundings);
      this.signIn = this.#makeSignIn();
      this.upstream = this.#makeUpstream(await this.#readStored());
      this.#offerings.moveTo(this.upstream);
      this.upstream.start();
    } else if (hashValue(before.entry.toolrack?.limits) !== hashValue(limits))
      this.upstream.limit(limits ?? {});
    this.renamed();
  }

  /** Applies tool settings, sign-ins and sign-outs that another process on the same store made. */
  async refresh(): Promise<void> {
    await this.pins.refresh(() => this.upstream.catalogue.tools);
    this.apply();
    const isAwaited = this.upstream.state === "needs-auth";
    if (await this.signIn?.follow(isAwaited)) void this.upstream.restart();
  }

  /** Restarts the server if it cannot be used and one of its secrets has changed. */
  async followSecrets(): Promise<void> {
    const { upstream } = this;
    const isDown = ["failed", "needs-auth", "backoff"].includes(upstream.state);
    if (isDown && (await this.#secrets.changed())) void upstream.restart();
  }

  /** To be called when the server's tools and prompts may have other names than before. */
  renamed(): void {
    this.apply();
    this.#offerings.changed();
  }

  /** Removes the tokens of this server, even if its entry no longer allows a sign-in. */
  async forgetSignIn(): Promise<void> {
    await (this.signIn === undefined ? this.#vault.clear() : this.signIn.end());
  }

  /** Closes a server whose entry is gone. Unlike `close`, writes nothing more about its tools into the store. */
  remove(): Promise<void> {
    this.pins.markRemoved();
    return this.close();
  }

  async close(): Promise<void> {
    const { offerings, registry, maskFor } = this.#context;
    offerings?.remove(this.#offerings.key);
    registry.apply({ remove: [...this.#applied.keys()] });
    this.#applied.clear();
    await this.upstream.stop();
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
      this.#context.logger.error(
        `The tools of the MCP server "${this.key}" could not be hung up: ${reasonOf(thrown)}`,
      );
    }
  }

  #applyTools(): void {
    const { key, upstream } = this;
    const { entry, isEnabled } = this.wanted;
    const source = { key, entry, upstream, links: this.#offerings.links, names: this.#context.names };
    const choices = entry.toolrack?.tools ?? {};
    const offered = upstream.catalogue.tools.filter(({ name }) => isOffered(choices, name));
    this.#admitted = new WeakSet();
    this.#claimNames(offered);
    const unmade: RefusedItem[] = [];
    const made = offered.flatMap((given) => {
      try {
        const tool = toTool(source, given, this.pins.of(given));
        return [{ given, tool: isEnabled ? tool : switchedOff(tool, key) }];
      } catch (thrown) {
        // One bad tool must not affect the others.
        unmade.push({ name: given.name, reason: reasonOf(thrown) });
        return [];
      }
    });
    this.#register(made.map(({ tool }) => tool));
    this.#unmade = unmade;
    const refused = new Set(this.#unregistered.map(({ name }) => name));
    // If two tools want the same name, one gets it and the other is refused.
    const leftOut = made.filter(
      ({ tool: { name, displayName = name } }) => !this.#applied.has(name) || refused.has(displayName),
    );
    this.leftOut = new Set([...unmade, ...leftOut.map(({ given }) => given)].map(({ name }) => name));
  }

  #claimNames(offered: readonly UpstreamTool[]): void {
    const { key } = this;
    const { rename = {} } = this.wanted.entry.toolrack?.tools ?? {};
    const renamed = offered.flatMap(
      (tool) => this.pins.of(tool).override.rename ?? ownMember(rename, tool.name) ?? [],
    );
    const tools = offered.map(({ name }) => name);
    const prompts = this.upstream.catalogue.prompts.map(({ name }) => String(name));
    const { names, onNames } = this.#context;
    const isContested = names.claim(key, [...tools, ...renamed, ...prompts]);
    names.noteSpellings(key, [tools, prompts]);
    if (isContested) onNames(key);
  }

  /** Replaces the server's tools in the registry. Touches only tools that changed. */
  #register(tools: readonly ToolInfo[]): void {
    const { registry, logger } = this.#context;
    const { single, doubled } = withoutDoubles(tools);
    const before = this.#applied;
    const wanted = new Map(single.map((tool) => [tool.name, fingerprintOfTool(tool, this.#generation)]));
    const remove = [...before.keys()].filter((name) => wanted.get(name) !== before.get(name)?.fingerprint);
    const put = single.filter(({ name }) => before.get(name)?.fingerprint !== wanted.get(name));
    if (remove.length === 0 && put.length === 0) {
      // The registry refused no tool before: a refused tool is not in `#applied`, so it would be in `put`
      // again.
      this.#unregistered = doubled;
      return;
    }
    const refused = registry.apply({ remove, put });
    const unusable = new Set(refused.map(({ info }) => info.name));
    const known = new Set(this.#unregistered.map(({ name, reason }) => `${name}\n${reason}`));
    const refusedItems = refused.map(({ info, error }) => ({
      name: info.name,
      reason: shortened(error.message),
    }));
    this.#unregistered = [...doubled, ...refusedItems];
    for (const { name, reason } of this.#unregistered) {
      if (!known.has(`${name}\n${reason}`)) logger.warn(`${name} is left out: ${reason}`);
    }
    const usable = single.filter(({ name }) => !unusable.has(name));
    const appliedOf = ({ name, disabled: isDisabled }: ToolInfo) =>
      [name, { fingerprint: wanted.get(name) ?? "", isDisabled }] as const;
    this.#applied = new Map(usable.map(appliedOf));
    // The registry keeps a replaced tool disabled. Enable the tools that were disabled here before and no
    // longer are.
    for (const { name, disabled } of put)
      if (before.get(name)?.isDisabled && !disabled && !unusable.has(name)) registry.enable(name);
  }

  #makeSignIn(): SignIn | undefined {
    const { key, wanted } = this;
    if (wanted.invalid !== undefined || !canSignIn(wanted.entry)) return undefined;
    const { mask, onChange } = this.#context;
    const { surroundings } = this.#secrets;
    const { entry } = wanted;
    return new SignIn({ key, entry, place: this.#place, surroundings, vault: this.#vault, mask, onChange });
  }

  /** Where the entry is, for error messages. */
  get #place(): string {
    return this.wanted.place === "file" ? "mcp.json" : "mcp_servers";
  }

  /** Undefined when the store cannot be read: the server then starts without its stored catalogue and verdict. */
  #readStored(): Promise<StoredMcpServer | undefined> {
    const { store, logger } = this.#context;
    return store.get(this.key).catch((error: Error) => {
      logger.warn(
        `What was learnt about the MCP server "${this.key}" could not be read, so it is learnt anew: ${error.message}`,
      );
      return undefined;
    });
  }

  #makeUpstream(row: StoredMcpServer | undefined): Upstream {
    const { key } = this;
    const { entry, isEnabled, invalid } = this.wanted;
    const { maskFor, onChange } = this.#context;
    const fingerprint = fingerprintOf(entry);
    // Both columns hold what this class wrote.
    const kept = row?.catalogue as (Catalogue & { readonly fingerprint: string }) | undefined;
    const verdict = row?.verdict as Verdict | undefined; // Also written by this class.
    return new Upstream({
      ...this.#context,
      key,
      entry,
      problem: invalid?.reason,
      place: this.#place,
      isEnabled,
      surroundings: this.#secrets.surroundings,
      signIn: this.signIn,
      verdict,
      // The stored catalogue is checked again, because an older version of the rack may have written it.
      catalogue: kept?.fingerprint === fingerprint ? { ...kept, ...checkCatalogue(kept) } : undefined,
      maskValues: (values) => maskFor(key, values),
      admit: (tool) => this.#admit(tool),
      onState: onChange,
      onVerdict: (found) => this.#keep({ verdict: found ?? null }),
      onCatalogue: (found, changed) => {
        this.pins.inspect(found.tools);
        this.#applyTools();
        this.#offerings.changed(changed.flatMap((list) => (list === "tools" ? [] : [list])));
        this.#keep({ catalogue: { ...found, fingerprint } });
        onChange();
      },
      onResourceUpdated: (uri) => this.#offerings.updated(uri),
    });
  }

  /**
   * Throws when the server no longer offers the tool, or the tool has changed since it was approved. Both may
   * have happened while the call waited for a person, for its turn or for the server to start.
   */
  #admit(tool: UpstreamTool): void {
    const { key } = this;
    if (this.#admitted.has(tool) || this.#context.pinning !== "quarantine") return;
    const now = this.find(tool.name);
    if (now === undefined) {
      const text = `The MCP server "${key}" does not offer "${tool.name}" any more, so it was not called. See: ${commandFor("show", key)}`;
      throw new ToolDisabledError(text);
    }
    if (this.pins.of(now).state === "quarantined") throw new ToolDisabledError(quarantined(key, tool.name));
    this.#admitted.add(tool);
  }

  #keep(change: Parameters<McpServerStore["put"]>[1]): void {
    const { store, logger } = this.#context;
    this.#keeping = this.#keeping
      .then(() => store.put(this.key, change))
      .catch((error: Error) => {
        logger.warn(`What was learnt about the MCP server "${this.key}" could not be kept: ${error.message}`);
      });
  }
}

/** A hash of the parts of an entry that need a restart when they change. Tool choices and limits need none. */
function hashOfRunning({ entry, isEnabled, invalid }: WantedServer): string {
  const { tools: _, limits: _limits, ...toolrack } = entry.toolrack ?? {};
  const { timeout: _timeout, ...rest } = entry;
  return hashValue([{ ...rest, toolrack }, isEnabled, invalid?.reason]);
}

/**
 * Leaves one tool for each name. If two tools want the same name, a tool that was not renamed comes before a
 * renamed one, and otherwise the first one gets the name. Upper and lower case count as equal.
 */
function withoutDoubles(tools: readonly ToolInfo[]): {
  readonly single: readonly ToolInfo[];
  readonly doubled: readonly RefusedItem[];
} {
  const owners = new Map<string, ToolInfo>();
  // A renamed tool has the name that it would have without the renaming as an alias.
  const isRenamed = ({ aliases = [] }: ToolInfo) => aliases.length > 0;
  for (const tool of tools) {
    const key = tool.name.toLowerCase();
    const owner = owners.get(key);
    if (owner === undefined || (isRenamed(owner) && !isRenamed(tool))) owners.set(key, tool);
  }
  const isOwner = (tool: ToolInfo) => owners.get(tool.name.toLowerCase()) === tool;
  const refuse = ({ name, displayName = name }: ToolInfo) => ({
    name: displayName,
    reason: `It is renamed to ${name}, which is the name of another tool. Give it another name.`,
  });
  return {
    single: tools.filter(isOwner),
    doubled: tools.filter((tool) => !isOwner(tool)).map(refuse),
  };
}

function fingerprintOfTool(tool: ToolInfo, generation: number): string {
  const { name, description, title, aliases, parameters, outputSchema, metadata, disabled } = tool;
  // The state of the server is not part of the tool's definition.
  const { mcp, ...rest } = metadata;
  const { state: _, ...origin } = asRecord(mcp);
  const shown = [name, description, title, aliases, parameters, outputSchema];
  return hashValue([...shown, rest, origin, disabled, generation]);
}
