import { hashValue, ToolDisabledError } from "@toolrack/core";
import { shellQuote } from "../../helpers/index.ts";
import type { McpServerStore, StoredMcpServer } from "../../store/index.ts";
import {
  type Catalogue,
  checkCatalogue,
  ownMember,
  type RefusedItem,
  switchedOff,
  type UpstreamTool,
} from "./catalogue/catalogue.ts";
import { ToolPins } from "./catalogue/pins.ts";
import { isOffered, quarantined, toTool } from "./catalogue/tool.ts";
import { FollowedSecrets } from "./config/resolve-entry.ts";
import { McpOfferings } from "./offerings.ts";
import { fingerprintOf, type Verdict } from "./protocol/questions.ts";
import { RackTools } from "./rack-tools.ts";
import { SignIn } from "./sign-in/sign-in.ts";
import { canSignIn, SignInVault } from "./sign-in/vault.ts";
import { Upstream } from "./upstream.ts";
import type { ServerSurroundings, WantedServer } from "./wanted-servers.ts";

interface KeptCatalogue extends Catalogue {
  readonly fingerprint: string;
}

/** One upstream server with its place on the rack: its tools, what was agreed to about them, its prompts and resources. */
export class ManagedServer {
  readonly key: string;
  readonly pins: ToolPins;
  readonly #shared: ServerSurroundings;
  readonly #tools: RackTools;
  readonly #offerings: McpOfferings;
  #wanted: WantedServer;
  #signIn: SignIn | undefined;
  #upstream: Upstream;
  /** Those of the entry as it is now. */
  #secrets: FollowedSecrets;
  /** Tools that could not be made into tools of the rack. */
  #unmade: readonly RefusedItem[] = [];
  #leftOut: ReadonlySet<string> = new Set();
  /** What was learnt is written one after the other, so that the last word is the last one written. */
  #keeping: Promise<void> = Promise.resolve();
  /** Grows whenever calls must reach another upstream than before. */
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
    this.#tools = new RackTools(shared.registry, shared.logger);
    this.#secrets = new FollowedSecrets(shared.surroundings);
    this.#signIn = this.#makeSignIn();
    this.#upstream = this.#makeUpstream(row);
    this.#offerings = new McpOfferings(this.key, () => this.#upstream, shared);
  }

  /** Lists what was known of the server before, and starts it without waiting for it. */
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

  /** Undefined where nobody can sign in: a process, or a server that is sent credentials of its entry. */
  get signIn(): SignIn | undefined {
    return this.#signIn;
  }

  get tools(): RackTools {
    return this.#tools;
  }

  /** What the server lists and nobody is shown. */
  get refused(): readonly RefusedItem[] {
    return [...(this.#upstream.catalogue.refused ?? []), ...this.#unmade, ...this.#tools.refused];
  }

  /** Tools that the entry lets in and that cannot be used, by the names that the server gives them. */
  get leftOut(): ReadonlySet<string> {
    return this.#leftOut;
  }

  /** Takes over a new version of the entry; the server is only restarted when its part of it changed. */
  async change(wanted: WantedServer): Promise<void> {
    const isSame = runsAlike(this.#wanted, wanted);
    const { limits: before = {} } = this.#wanted.entry.toolrack ?? {};
    const { limits = {} } = wanted.entry.toolrack ?? {};
    this.#wanted = wanted;
    if (!isSame) {
      await this.#upstream.stop();
      await this.#keeping;
      this.#generation++;
      this.#secrets = new FollowedSecrets(this.#shared.surroundings);
      this.#signIn = this.#makeSignIn();
      this.#upstream = this.#makeUpstream(await this.#known());
      this.#offerings.moveTo(this.#upstream);
      this.#upstream.start();
    } else if (hashValue(before) !== hashValue(limits)) this.#upstream.limit(limits);
    this.apply();
    this.#offerings.changed(["prompts", "resources"]);
  }

  /** Takes over what another process on the same store said about its tools, and whether somebody signed in or out. */
  async refresh(): Promise<void> {
    await this.pins.refresh(() => this.#upstream.catalogue.tools);
    this.apply();
    const isAwaited = this.#upstream.state === "needs-auth";
    if (await this.#signIn?.follow(isAwaited)) void this.#upstream.restart();
  }

  /** Starts it anew where it could not be used, and a secret that it was given, or was not given, is another by now. */
  async followSecrets(): Promise<void> {
    const upstream = this.#upstream;
    const isDown = ["failed", "needs-auth", "backoff"].includes(upstream.state);
    if (isDown && (await this.#secrets.changed())) void upstream.restart();
  }

  /** Its tools and prompts have other names now. */
  renamed(): void {
    this.apply();
    this.#offerings.changed(["prompts", "resources"]);
  }

  /**
   * Hangs up the tools as the catalogue, the entry, the pins and the operator's words together want them. Never throws:
   * what goes wrong with one server is no affair of the others.
   */
  apply(): void {
    try {
      this.#hangUp();
    } catch (thrown) {
      this.#shared.logger.error(
        `The tools of the MCP server "${this.key}" could not be hung up: ${(thrown as Error).message}`,
      );
    }
  }

  #hangUp(): void {
    const { entry } = this.#wanted;
    const upstream = this.#upstream;
    const choices = entry.toolrack?.tools ?? {};
    const source = {
      key: this.key,
      entry,
      get state() {
        return upstream.state;
      },
      links: this.#offerings.links,
      call: upstream.call.bind(upstream),
    };
    const offered = upstream.catalogue.tools.filter(({ name }) => isOffered(choices, name));
    this.#claimNames(offered);
    const unmade: RefusedItem[] = [];
    const made = offered.flatMap((given) => {
      try {
        const tool = toTool(source, given, this.pins.of(given), this.#shared.names);
        return [{ given, tool: this.#wanted.isEnabled ? tool : switchedOff(tool, this.key) }];
      } catch (thrown) {
        // One odd tool must not take the others with it.
        unmade.push({ name: given.name, reason: (thrown as Error).message });
        return [];
      }
    });
    this.#tools.replace(
      made.map(({ tool }) => tool),
      this.#generation,
    );
    this.#unmade = unmade;
    const onRack = new Set(this.#tools.names);
    const refused = new Set(this.#tools.refused.map(({ name }) => name));
    // Of two tools that want one name, one has it and the other is refused.
    const leftOut = made.filter(
      ({ tool: { name, displayName = name } }) => !onRack.has(name) || refused.has(displayName),
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
    names.tellApart(this.key, [offered.map(({ name }) => name), prompts]);
    if (isContested) onNames(this.key);
  }

  find(name: string): UpstreamTool | undefined {
    return this.#upstream.catalogue.tools.find((tool) => tool.name === name);
  }

  /** Forgets the tokens of this key, also where nobody could sign in any more. */
  async forgetSignIn(): Promise<void> {
    if (this.#signIn === undefined) await this.#vault.clear();
    else await this.#signIn.end();
  }

  /** Ends because nobody wants it any more, and not with the rack. */
  leave(): Promise<void> {
    this.pins.leave();
    return this.close();
  }

  async close(): Promise<void> {
    this.#shared.offerings?.remove(this.#offerings.key);
    this.#tools.clear();
    await this.#upstream.stop();
    await this.#keeping;
    await this.pins.close();
    // Last of all: calls that were cut off may have shown them.
    this.#shared.hold(this.key, []);
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

  /** Where the entry stands, for messages. */
  get #place(): string {
    return this.#wanted.place === "file" ? "mcp.json" : "mcp_servers";
  }

  /** What was learnt can be learnt again: without it, a server that was stopped for a change is still started. */
  #known(): Promise<StoredMcpServer | undefined> {
    const { store, logger } = this.#shared;
    return store.get(this.key).catch((error: Error) => {
      logger.warn(
        `What was learnt about the MCP server "${this.key}" could not be read, so it is learnt anew: ${error.message}`,
      );
      return undefined;
    });
  }

  #makeUpstream(row: StoredMcpServer | undefined): Upstream {
    const { entry, isEnabled, invalid } = this.#wanted;
    const { surroundings } = this.#secrets;
    const { identity, clientInfo, packages, mask, hold, logger, onChange } = this.#shared;
    // Both columns hold what this class wrote.
    const kept = row?.catalogue as KeptCatalogue | undefined;
    // It may have been written before items were checked as they are now.
    const catalogue =
      kept?.fingerprint === fingerprintOf(entry) ? { ...kept, ...checkCatalogue(kept) } : undefined;
    return new Upstream({
      key: this.key,
      entry,
      problem: invalid?.reason,
      place: this.#place,
      isEnabled,
      surroundings,
      identity,
      clientInfo,
      packages,
      mask,
      hold: (values) => hold(this.key, values),
      logger,
      signIn: this.#signIn,
      verdict: row?.verdict as Verdict | undefined,
      catalogue,
      admit: (tool) => this.#admit(tool),
      onState: onChange,
      onVerdict: (verdict) => this.#keep({ verdict: verdict ?? null }),
      onCatalogue: (found, changed) => {
        this.pins.inspect(found.tools);
        this.#hangUp();
        this.#offerings.changed(changed.flatMap((list) => (list === "tools" ? [] : [list])));
        const keep: KeptCatalogue = { ...found, fingerprint: fingerprintOf(entry) };
        this.#keep({ catalogue: keep });
        onChange();
      },
      onResourceUpdated: (uri) => this.#offerings.updated(uri),
    });
  }

  /**
   * A call may have waited, for a person, for its turn or for the server to start, while the tool that it was made with
   * was changed. It runs on what was agreed to, or not at all.
   */
  #admit({ name }: UpstreamTool): void {
    if (this.#shared.pinning !== "quarantine") return;
    const now = this.find(name);
    if (now !== undefined && this.pins.of(now).state !== "quarantined") return;
    throw new ToolDisabledError(now === undefined ? goneFrom(this.key, name) : quarantined(this.key, name));
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

function goneFrom(key: string, name: string): string {
  return `The MCP server "${key}" does not offer "${name}" any more, so it was not called. See: ${commandFor("show", key)}`;
}

/** What is said about single tools does not concern the running server, and other limits can be had without an end. */
function runsAlike(one: WantedServer, other: WantedServer): boolean {
  const running = ({ entry, isEnabled, invalid }: WantedServer) => {
    const { tools: _, limits: _limits, ...toolrack } = entry.toolrack ?? {};
    const { timeout: _timeout, ...rest } = entry;
    return hashValue([{ ...rest, toolrack }, isEnabled, invalid?.reason]);
  };
  return running(one) === running(other);
}

/** What a person types to do something with a server; the key and what follows it may have spaces. */
export function commandFor(action: string, ...words: readonly string[]): string {
  return ["toolrack mcp-servers", action, ...words.map(shellQuote)].join(" ");
}
