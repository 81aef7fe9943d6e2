import { hashValue, type Logger, type ToolRegistry } from "@toolrack/core";
import type { DependencyStore } from "../../dependencies/dependency-store.ts";
import type { Offerings } from "../../offerings/offerings.ts";
import type { McpServerStore, StoredMcpServer } from "../../store/mcp-servers/mcp-server-store.ts";
import {
  type Catalogue,
  checkCatalogue,
  type RefusedItem,
  type UpstreamTool,
} from "./catalogue/catalogue.ts";
import type { PinningPolicy } from "./catalogue/pin.ts";
import { isOffered, toTool } from "./catalogue/to-tool.ts";
import { ToolPins } from "./catalogue/tool-pins.ts";
import type { Surroundings } from "./config/expand.ts";
import type { ServerEntry } from "./config/server-entry.ts";
import { McpOfferings } from "./mcp-offerings.ts";
import { fingerprintOf, type Verdict } from "./protocol/verdict.ts";
import { RackTools } from "./rack-tools.ts";
import { canSignIn, SignIn } from "./sign-in/sign-in.ts";
import { SignInVault, type VaultSecrets } from "./sign-in/sign-in-vault.ts";
import { Upstream } from "./upstream.ts";

/** What all servers share. */
export interface ServerSurroundings {
  readonly registry: ToolRegistry;
  readonly offerings: Offerings | undefined;
  readonly store: McpServerStore;
  readonly logger: Logger;
  readonly surroundings: Surroundings;
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly packages: Pick<DependencyStore, "install">;
  readonly pinning: PinningPolicy;
  readonly mask: (text: string) => string;
  /** Where sign-ins are kept. */
  readonly secrets: VaultSecrets;
  /** The keys of all servers, for names that cannot be mistaken. */
  readonly keys: () => Iterable<string>;
  readonly onChange: () => void;
}

/** A server as it is wanted: the entry, where it stands, and whether it is switched on. */
export interface WantedServer {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly place: "file" | "store";
  readonly isEnabled: boolean;
}

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
  /** Tools that could not be made into tools of the rack. */
  #unmade: readonly RefusedItem[] = [];
  #leftOut: ReadonlySet<string> = new Set();
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
    this.#signIn = this.#makeSignIn();
    this.#upstream = this.#makeUpstream(row);
    this.#offerings = new McpOfferings(this.key, () => this.#upstream, shared.keys);
  }

  /** Lists what was known of the server before, and starts it without waiting for it. */
  static async open(
    wanted: WantedServer,
    row: StoredMcpServer | undefined,
    shared: ServerSurroundings,
  ): Promise<ManagedServer> {
    const pins = await ToolPins.open(wanted.key, shared.store, shared.pinning);
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
      this.#generation++;
      this.#signIn = this.#makeSignIn();
      this.#upstream = this.#makeUpstream(await this.#shared.store.get(this.key));
      this.#offerings.moveTo(this.#upstream);
      this.#upstream.start();
    } else if (hashValue(before) !== hashValue(limits)) this.#upstream.limit(limits);
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
      call: upstream.call.bind(upstream),
    };
    const offered = this.#wanted.isEnabled
      ? upstream.catalogue.tools.filter(({ name }) => isOffered(choices, name))
      : [];
    const keys = [...this.#shared.keys()];
    const unmade: RefusedItem[] = [];
    const made = offered.flatMap((given) => {
      try {
        return [{ given, tool: toTool(source, given, this.pins.of(given.name), keys) }];
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

  find(name: string): UpstreamTool | undefined {
    return this.#upstream.catalogue.tools.find((tool) => tool.name === name);
  }

  async close(): Promise<void> {
    this.#shared.offerings?.remove(this.#offerings.key);
    this.#tools.clear();
    await this.#upstream.stop();
    await this.pins.settled().catch(() => {});
  }

  #makeSignIn(): SignIn | undefined {
    const { entry } = this.#wanted;
    if (!canSignIn(entry)) return undefined;
    const { surroundings, mask, secrets, onChange } = this.#shared;
    const vault = new SignInVault(this.key, secrets);
    return new SignIn({ key: this.key, entry, place: this.#place, surroundings, vault, mask, onChange });
  }

  /** Where the entry stands, for messages. */
  get #place(): string {
    return this.#wanted.place === "file" ? "mcp.json" : "mcp_servers";
  }

  #makeUpstream(row: StoredMcpServer | undefined): Upstream {
    const { entry, isEnabled } = this.#wanted;
    const { surroundings, clientInfo, packages, mask, logger, onChange } = this.#shared;
    // Both columns hold what this class wrote.
    const kept = row?.catalogue as KeptCatalogue | undefined;
    // It may have been written before items were checked as they are now.
    const catalogue =
      kept?.fingerprint === fingerprintOf(entry) ? { ...kept, ...checkCatalogue(kept) } : undefined;
    return new Upstream({
      key: this.key,
      entry,
      place: this.#place,
      isEnabled,
      surroundings,
      clientInfo,
      packages,
      mask,
      logger,
      signIn: this.#signIn,
      verdict: row?.verdict as Verdict | undefined,
      catalogue,
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

  #keep(change: Parameters<McpServerStore["put"]>[1]): void {
    this.#shared.store.put(this.key, change).catch((error: Error) => {
      this.#shared.logger.warn(
        `What was learnt about the MCP server "${this.key}" could not be kept: ${error.message}`,
      );
    });
  }
}

/** What is said about single tools does not concern the running server, and other limits can be had without an end. */
function runsAlike(one: WantedServer, other: WantedServer): boolean {
  const running = ({ entry, isEnabled }: WantedServer) => {
    const { tools: _, limits: _limits, ...toolrack } = entry.toolrack ?? {};
    const { timeout: _timeout, ...rest } = entry;
    return hashValue([{ ...rest, toolrack }, isEnabled]);
  };
  return running(one) === running(other);
}
