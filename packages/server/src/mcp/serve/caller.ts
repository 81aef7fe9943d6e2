import { type CallClient, Tool, type ToolInfo, type ToolRegistry } from "@toolrack/core";
import { type Grant, masterGrant } from "../../access/index.ts";
import { isMetaTool, type OfferingReader, type Origin } from "../../calls/index.ts";
import type { RackItem } from "../../config/index.ts";
import { RecentMap } from "../../helpers/index.ts";
import type { ClientInfo, ConnectedClient, Era } from "../wire/index.ts";

/** The part of the rack that `/mcp/{expert}` serves. */
export interface ExpertView {
  readonly id: string;
  readonly name: string;
  readonly allow: (tool: ToolInfo) => boolean;
  /** Changes whenever `allow` may answer differently. */
  readonly version: string | number;
  /** The text that clients are sent when they connect. */
  readonly instructions?: string;
}

/** Finds an expert by its name or id. Undefined when there is none. */
export type ExpertResolver = (nameOrId: string) => ExpertView | undefined;

/** The grant of a client over stdio: whoever can start a program in the workspace is its operator. */
export const operator: Grant = { ...masterGrant, caller: "mcp" };

/** Who calls the rack through MCP, and what they may see and use. */
export class Caller {
  readonly grant: Grant;
  expert: ExpertView | undefined;
  /**
   * Whether the caller's expert has this tool, or it is a meta-tool. Undefined when the caller has no expert.
   */
  allow: ((tool: ToolInfo) => boolean) | undefined;
  /** Equal for callers that see the same tools. */
  key!: string;
  /** Names the owner of a session or a `requestState`. */
  readonly identity: string;

  constructor(grant: Grant, expert?: ExpertView) {
    // Everybody may use the meta-tools, because they reach only what the caller may use. Whoever may use an expert may
    // use its tools.
    const mayUse = (item: RackItem) => expert !== undefined || isMetaTool(item.name) || grant.mayUse(item);
    this.grant = grant.admin ? grant : { ...grant, mayUse };
    // Contains the expert's id and not its name, because a later expert may get the same name.
    this.identity = `${grant.id}/${expert?.id ?? ""}`;
    this.#setExpert(expert);
  }

  /** Gives a connected caller the new version of its expert. A caller without an expert stays without. */
  renew(expert: ExpertView | undefined): void {
    if (expert === undefined || this.expert === undefined) return;
    if (expert.version !== this.expert.version || expert.name !== this.expert.name) this.#setExpert(expert);
  }

  sees(tool: ToolInfo): boolean {
    return (this.grant.admin || this.grant.mayUse(tool)) && this.allow?.(tool) !== false;
  }

  reader(signal: AbortSignal, origin?: Origin, client?: CallClient): OfferingReader {
    const { grant, expert } = this;
    return {
      caller: grant.caller,
      mayUse: (item) => grant.mayUse(item) && expert?.allow({ ...unknownTool, ...item }) !== false,
      ...(expert === undefined ? {} : { expert: expert.name }),
      ...(origin === undefined ? {} : { origin }),
      ...(client === undefined ? {} : { client }),
      signal,
    };
  }

  #setExpert(expert: ExpertView | undefined): void {
    const { admin, id } = this.grant;
    this.expert = expert;
    this.allow = expert && ((tool) => isMetaTool(tool.name) || expert.allow(tool));
    this.key = `${admin ? "admin" : id}/${expert === undefined ? "" : `${expert.name}@${expert.version}`}`;
  }
}

/**
 * Experts decide only about tools. About a prompt or resource they decide as if it were a tool of which only
 * the name and origin are known.
 */
const unknownTool: ToolInfo = Tool.define({
  name: "unknown",
  description: "",
  parameters: { type: "object", properties: {} },
  execute: async () => "",
});

/** Whether the grant may use the expert. A token may name the expert by its name or its id. */
export function mayUseExpert(grant: Grant, { id, name }: ExpertView): boolean {
  return grant.mayUseExpert(name) || grant.mayUseExpert(id);
}

interface SeenClient extends ClientInfo {
  readonly transport: ConnectedClient["transport"];
  readonly era: Era;
  readonly caller: Caller;
  lastSeenAt: number;
  /** The version of the rack when the client last listed the tools. */
  listedVersion: number | undefined;
}

const MOST_CLIENTS = 200;
const LONGEST_TEXT = 100;

/**
 * The client programs that have sent a request since the server started; of more than `MOST_CLIENTS`, those
 * that sent one most recently.
 */
export class ConnectedClients {
  readonly #registry: ToolRegistry;
  /** The client that sent the latest request is at the end. */
  readonly #clients = new RecentMap<string, SeenClient>(MOST_CLIENTS);
  readonly #listeners = new Set<(client: ConnectedClient) => void>();
  /** The client at the end of `#clients`, as its request named it: mostly the next request is its too. */
  #latest: { readonly name: string; readonly version: string; readonly seen: SeenClient } | undefined;

  constructor(registry: ToolRegistry) {
    this.#registry = registry;
  }

  /** Records the client that sent a request. Ignores clients without a name. */
  see(
    client: ClientInfo | undefined,
    era: Era,
    caller: Caller,
    method: string,
    transport: ConnectedClient["transport"] = "http",
  ): void {
    if (client === undefined || client.name === "") return;
    const { name, version = "" } = client;
    const latest = this.#latest;
    if (latest?.name === name && latest.version === version && method !== "initialize") {
      const { seen } = latest;
      if (seen.era === era && seen.transport === transport && seen.caller === caller) {
        seen.lastSeenAt = Date.now();
        if (method === "tools/list") this.#noteList(seen);
        return;
      }
    }
    const key = `${name.slice(0, LONGEST_TEXT)}\n${version.slice(0, LONGEST_TEXT)}\n${era} ${transport}\n${caller.identity}`;
    const known = this.#clients.get(key);
    const seen = known ?? {
      ...clipped(client),
      transport,
      era,
      caller,
      lastSeenAt: 0,
      listedVersion: undefined,
    };
    seen.lastSeenAt = Date.now();
    this.#clients.set(key, seen);
    this.#latest = { name, version, seen };
    if (method === "tools/list") this.#noteList(seen);
    if (known !== undefined && method !== "initialize") return;
    for (const listener of this.#listeners) listener(this.#describe(seen));
  }

  #noteList(seen: SeenClient): void {
    seen.listedVersion = this.#registry.snapshot().version;
  }

  /**
   * Calls the listener for each new client and each `initialize` request. Returns a function that stops it.
   */
  subscribe(listener: (client: ConnectedClient) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The clients, the one with the latest request first. */
  list(): ConnectedClient[] {
    return Array.from(this.#clients.values(), (seen) => this.#describe(seen)).reverse();
  }

  #describe({ caller: { grant, expert }, listedVersion, ...client }: SeenClient): ConnectedClient {
    const isStale = listedVersion !== undefined && listedVersion !== this.#registry.snapshot().version;
    return {
      ...client,
      caller: grant.caller,
      ...(expert === undefined ? {} : { expert: expert.name }),
      ...(isStale ? { stale: true } : {}),
    };
  }
}

function clipped({ name, version }: ClientInfo): ClientInfo {
  const clip = (text: string) => (text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text);
  return { name: clip(name), ...(version === undefined ? {} : { version: clip(version) }) };
}
