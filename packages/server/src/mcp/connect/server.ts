import { ToolDisabledError, type ToolInfo, type ToolRegistry } from "@toolrack/core";
import { hashValue } from "@toolrack/core/internal";
import type { Offerings } from "../../calls/index.ts";
import { isRecord, reasonOf } from "../../helpers/index.ts";
import type { McpServerStore, StoredMcpServer } from "../../store/index.ts";
import {
  type Catalogue,
  checkCatalogue,
  ownMember,
  type RefusedItem,
  type UpstreamTool,
} from "./catalogue/catalogue.ts";
import type { RackNames } from "./catalogue/names.ts";
import { type PinningPolicy, ToolPins } from "./catalogue/pins.ts";
import { shortened } from "./catalogue/schema.ts";
import { isOffered, quarantined, switchedOff, toTool } from "./catalogue/tool.ts";
import { fingerprintOf } from "./config/entry.ts";
import { FollowedSecrets, type Surroundings } from "./config/resolve-entry.ts";
import type { WantedServer } from "./config/wanted-servers.ts";
import { commandFor } from "./failures.ts";
import { McpOfferings } from "./offerings.ts";
import type { Verdict } from "./protocol/messages.ts";
import { SignIn } from "./sign-in/sign-in.ts";
import { canSignIn, SignInVault, type VaultSecrets } from "./sign-in/vault.ts";
import { Upstream, type UpstreamSurroundings } from "./upstream.ts";

/** Shared by all servers. */
export interface ServerSurroundings extends UpstreamSurroundings {
  readonly registry: ToolRegistry;
  readonly offerings?: Offerings | undefined;
  readonly store: McpServerStore;
  readonly surroundings: Surroundings;
  readonly pinning: PinningPolicy;
  /** Sets the values of this server's entry that must be masked everywhere; none when the server is removed. */
  readonly maskFor: (key: string, values: Iterable<string>) => void;
  /** Where sign-ins are kept. */
  readonly secrets: VaultSecrets;
  readonly names: RackNames;
  /** Called when names of other servers than this one have changed. */
  readonly onNames: (key: string) => void;
  readonly onChange: () => void;
}

interface KeptCatalogue extends Catalogue {
  readonly fingerprint: string;
}

interface Applied {
  readonly fingerprint: string;
  readonly isDisabled: boolean;
}

/** One upstream server with its tools in the registry, their approvals, and its prompts and resources. */
export class ManagedServer {
  readonly key: string;
  readonly pins: ToolPins;
  readonly #shared: ServerSurroundings;
  readonly #offerings: McpOfferings;
  #wanted: WantedServer;
  #signIn: SignIn | undefined;
  #upstream: Upstream;
  /** The secrets that the current entry uses. */
  #secrets: FollowedSecrets;
  /** Its tools in the registry, by name. */
  #applied = new Map<string, Applied>();
  /** Tools that could not be converted to tools of the rack, and tools that the registry refused. */
  #unmade: readonly RefusedItem[] = [];
  #unregistered: readonly RefusedItem[] = [];
  #leftOut: ReadonlySet<string> = new Set();
  /** Writes go one after the other, so that the latest value is written last. */
  #keeping: Promise<void> = Promise.resolve();
  /** Grows whenever `#upstream` is replaced, because tools must then call the new one. */
  #generation = 0;

  private constructor(
    wanted: WantedServer,
    row: StoredMcpServer | undefined,
    pins: ToolPins,
    shared: ServerSurroundings,
  ) {
    this.key = wanted.key;
    this.pins = pins;
    this.#shared = shared;
    this.#wanted = wanted;
    this.#secrets = new FollowedSecrets(shared.surroundings);
    this.#signIn = this.#makeSignIn();
    this.#upstream = this.#makeUpstream(row);
    this.#offerings = new McpOfferings(this.key, () => this.#upstream, shared);
  }

  /** Offers the tools that are known from before, and starts the server without waiting for it. */
  static async open(wanted: WantedServer, shared: ServerSurroundings): Promise<ManagedServer> {
    const pins = await ToolPins.open(wanted.key, shared.store, shared.pinning, shared.logger);
    const row = await shared.store.get(wanted.key);
    const server = new ManagedServer(wanted, row, pins, shared);
    server.apply();
    shared.offerings?.add(server.#offerings);
    server.#upstream.start();
    return server;
  }

  get wanted(): WantedServer {
    return this.#wanted;
  }

  get upstream(): Upstream {
    return this.#upstream;
  }

  /** Undefined for a process, or a server whose entry has credentials. */
  get signIn(): SignIn | undefined {
    return this.#signIn;
  }

  /** How many of its tools are in the registry. */
  get toolCount(): number {
    return this.#applied.size;
  }

  /** Listed items that cannot be used. */
  get refused(): readonly RefusedItem[] {
    return [...(this.#upstream.catalogue.refused ?? []), ...this.#unmade, ...this.#unregistered];
  }

  /** Tools that the entry allows but that cannot be used, by the server's names. */
  get leftOut(): ReadonlySet<string> {
    return this.#leftOut;
  }

  find(name: string): UpstreamTool | undefined {
    return this.#upstream.catalogue.tools.find((tool) => tool.name === name);
  }

  /** Applies a new version of the entry. Restarts the server only if the change concerns the running server. */
  async change(wanted: WantedServer): Promise<void> {
    const isSame = hashOfRunning(this.#wanted) === hashOfRunning(wanted);
    const { limits: before = {} } = this.#wanted.entry.toolrack ?? {};
    const { limits = {} } = wanted.entry.toolrack ?? {};
    this.#wanted = wanted;
    if (!isSame) {
      await this.#upstream.stop();
      await this.#keeping;
      this.#generation++;
      this.#secrets = new FollowedSecrets(this.#shared.surroundings);
      this.#signIn = this.#makeSignIn();
      this.#upstream = this.#makeUpstream(await this.#readStored());
      this.#offerings.moveTo(this.#upstream);
      this.#upstream.start();
    } else if (hashValue(before) !== hashValue(limits)) this.#upstream.limit(limits);
    this.renamed();
  }

  /** Applies tool settings, sign-ins and sign-outs that another process on the same store made. */
  async refresh(): Promise<void> {
    await this.pins.refresh(() => this.#upstream.catalogue.tools);
    this.apply();
    const isAwaited = this.#upstream.state === "needs-auth";
    if (await this.#signIn?.follow(isAwaited)) void this.#upstream.restart();
  }

  /** Restarts a server that cannot be used when one of its secrets has changed. */
  async followSecrets(): Promise<void> {
    const upstream = this.#upstream;
    const isDown = ["failed", "needs-auth", "backoff"].includes(upstream.state);
    if (isDown && (await this.#secrets.changed())) void upstream.restart();
  }

  /** Its tools and prompts may have other names now. */
  renamed(): void {
    this.apply();
    this.#offerings.changed();
  }

  /** Removes the tokens of this server, even if its entry no longer allows a sign-in. */
  async forgetSignIn(): Promise<void> {
    if (this.#signIn === undefined) await this.#vault.clear();
    else await this.#signIn.end();
  }

  /** Closes a server that was removed. `close` alone is for the end of the rack. */
  remove(): Promise<void> {
    this.pins.markRemoved();
    return this.close();
  }

  async close(): Promise<void> {
    const { offerings, registry, maskFor } = this.#shared;
    offerings?.remove(this.#offerings.key);
    registry.apply({ remove: [...this.#applied.keys()] });
    this.#applied.clear();
    await this.#upstream.stop();
    await this.#keeping;
    await this.pins.close();
    // Unmasked last, because calls that were cut off may still show the values.
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
      this.#shared.logger.error(
        `The tools of the MCP server "${this.key}" could not be hung up: ${reasonOf(thrown)}`,
      );
    }
  }

  #applyTools(): void {
    const { entry, isEnabled } = this.#wanted;
    const upstream = this.#upstream;
    const { names } = this.#shared;
    const source = { key: this.key, entry, upstream, links: this.#offerings.links, names };
    const offered = upstream.catalogue.tools.filter(({ name }) =>
      isOffered(entry.toolrack?.tools ?? {}, name),
    );
    this.#claimNames(offered);
    const unmade: RefusedItem[] = [];
    const made = offered.flatMap((given) => {
      try {
        const tool = toTool(source, given, this.pins.of(given));
        return [{ given, tool: isEnabled ? tool : switchedOff(tool, this.key) }];
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
    this.#leftOut = new Set([...unmade, ...leftOut.map(({ given }) => given)].map(({ name }) => name));
  }

  #claimNames(offered: readonly UpstreamTool[]): void {
    const { rename = {} } = this.#wanted.entry.toolrack?.tools ?? {};
    const wanted = offered.flatMap((tool) => {
      const { name } = tool;
      const renamed = this.pins.of(tool).override.rename ?? ownMember(rename, name);
      return renamed === undefined ? [name] : [name, renamed];
    });
    const prompts = this.#upstream.catalogue.prompts.map(({ name }) => String(name));
    const { names, onNames } = this.#shared;
    const isContested = names.claim(this.key, [...wanted, ...prompts]);
    names.noteSpellings(this.key, [offered.map(({ name }) => name), prompts]);
    if (isContested) onNames(this.key);
  }

  /** Replaces the server's tools in the registry. Touches only tools that changed. */
  #register(tools: readonly ToolInfo[]): void {
    const { registry, logger } = this.#shared;
    const { single, doubled } = withoutDoubles(tools);
    const before = this.#applied;
    const wanted = new Map(single.map((tool) => [tool.name, fingerprintOfTool(tool, this.#generation)]));
    const remove = [...before.keys()].filter((name) => wanted.get(name) !== before.get(name)?.fingerprint);
    const put = single.filter(({ name }) => before.get(name)?.fingerprint !== wanted.get(name));
    if (remove.length === 0 && put.length === 0) {
      // Nothing was refused before: a refused tool is not in `#applied`, so it would be put again.
      this.#unregistered = doubled;
      return;
    }
    const refused = registry.apply({ remove, put });
    const unusable = new Set(refused.map(({ info }) => info.name));
    const known = new Set(this.#unregistered.map(({ name, reason }) => `${name}\n${reason}`));
    this.#unregistered = [
      ...doubled,
      ...refused.map(({ info, error }) => ({ name: info.name, reason: shortened(error.message) })),
    ];
    for (const { name, reason } of this.#unregistered) {
      if (!known.has(`${name}\n${reason}`)) logger.warn(`${name} is left out: ${reason}`);
    }
    const usable = single.filter(({ name }) => !unusable.has(name));
    this.#applied = new Map(
      usable.map(({ name, disabled }) => [
        name,
        { fingerprint: wanted.get(name) ?? "", isDisabled: disabled },
      ]),
    );
    // The registry keeps a replaced tool disabled. Enable those that we had disabled ourselves.
    for (const { name, disabled } of put)
      if (before.get(name)?.isDisabled && !disabled && !unusable.has(name)) registry.enable(name);
  }

  #makeSignIn(): SignIn | undefined {
    const { entry, invalid } = this.#wanted;
    if (invalid !== undefined || !canSignIn(entry)) return undefined;
    const { mask, onChange } = this.#shared;
    const { surroundings } = this.#secrets;
    const vault = this.#vault;
    return new SignIn({ key: this.key, entry, place: this.#place, surroundings, vault, mask, onChange });
  }

  get #vault(): SignInVault {
    return new SignInVault(this.key, this.#shared.secrets);
  }

  /** Where the entry is, for messages. */
  get #place(): string {
    return this.#wanted.place === "file" ? "mcp.json" : "mcp_servers";
  }

  /** Undefined when the store cannot be read: the server then starts without its stored catalogue and verdict. */
  #readStored(): Promise<StoredMcpServer | undefined> {
    const { store, logger } = this.#shared;
    return store.get(this.key).catch((error: Error) => {
      logger.warn(
        `What was learnt about the MCP server "${this.key}" could not be read, so it is learnt anew: ${error.message}`,
      );
      return undefined;
    });
  }

  #makeUpstream(row: StoredMcpServer | undefined): Upstream {
    const { key } = this;
    const { entry, isEnabled, invalid } = this.#wanted;
    const { maskFor, onChange } = this.#shared;
    const fingerprint = fingerprintOf(entry);
    // Both columns hold what this class wrote.
    const kept = row?.catalogue as KeptCatalogue | undefined;
    const verdict = row?.verdict as Verdict | undefined; // Also written by this class.
    return new Upstream({
      ...this.#shared,
      key,
      entry,
      problem: invalid?.reason,
      place: this.#place,
      isEnabled,
      surroundings: this.#secrets.surroundings,
      signIn: this.#signIn,
      verdict,
      // Checked again, because an older version may have written it.
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
   * Throws when the tool has changed since it was approved. It may have changed while the call waited for a person, for
   * its turn or for the server to start.
   */
  #admit({ name }: UpstreamTool): void {
    const { key } = this;
    if (this.#shared.pinning !== "quarantine") return;
    const now = this.find(name);
    if (now === undefined) {
      const text = `The MCP server "${key}" does not offer "${name}" any more, so it was not called. See: ${commandFor("show", key)}`;
      throw new ToolDisabledError(text);
    }
    if (this.pins.of(now).state === "quarantined") throw new ToolDisabledError(quarantined(key, name));
  }

  #keep(change: Parameters<McpServerStore["put"]>[1]): void {
    const { store, logger } = this.#shared;
    this.#keeping = this.#keeping
      .then(() => store.put(this.key, change))
      .catch((error: Error) => {
        logger.warn(`What was learnt about the MCP server "${this.key}" could not be kept: ${error.message}`);
      });
  }
}

/** A hash of the parts of an entry that need a restart when they change. Tool choices and limits do not. */
function hashOfRunning({ entry, isEnabled, invalid }: WantedServer): string {
  const { tools: _, limits: _limits, ...toolrack } = entry.toolrack ?? {};
  const { timeout: _timeout, ...rest } = entry;
  return hashValue([{ ...rest, toolrack }, isEnabled, invalid?.reason]);
}

/**
 * If two tools want the same name, the tool that has it from the server gets it; otherwise the first one. Upper and lower
 * case count as equal.
 */
function withoutDoubles(tools: readonly ToolInfo[]): {
  readonly single: readonly ToolInfo[];
  readonly doubled: readonly RefusedItem[];
} {
  const owners = new Map<string, ToolInfo>();
  // A renamed tool has its own name as an alias.
  const isRenamed = ({ aliases = [] }: ToolInfo) => aliases.length > 0;
  for (const tool of tools) {
    const key = tool.name.toLowerCase();
    const owner = owners.get(key);
    if (owner === undefined || (isRenamed(owner) && !isRenamed(tool))) owners.set(key, tool);
  }
  const isOwner = (tool: ToolInfo) => owners.get(tool.name.toLowerCase()) === tool;
  const doubled = tools.filter((tool) => !isOwner(tool));
  return {
    single: tools.filter(isOwner),
    doubled: doubled.map(({ name, displayName = name }) => ({
      name: displayName,
      reason: `It is renamed to ${name}, which is the name of another tool. Give it another name.`,
    })),
  };
}

function fingerprintOfTool(tool: ToolInfo, generation: number): string {
  const { name, description, title, aliases, parameters, outputSchema, metadata, disabled } = tool;
  // The state of the server is not part of the tool's definition.
  const { mcp, ...rest } = metadata;
  const { state: _, ...origin } = isRecord(mcp) ? mcp : {};
  const shown = [name, description, title, aliases, parameters, outputSchema];
  return hashValue([...shown, rest, origin, disabled, generation]);
}
