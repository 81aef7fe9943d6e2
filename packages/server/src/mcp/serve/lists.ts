import { createHash } from "node:crypto";
import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import {
  type CallClient,
  type RegistrySnapshot,
  Tool,
  type ToolInfo,
  type ToolRegistry,
  toMcpTools,
} from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import type { OfferingReader } from "../../calls/index.ts";
import { isMetaTool } from "../../calls/index.ts";
import type { RackItem } from "../../config/index.ts";

type ListedTool = ReturnType<typeof toMcpTools>["tools"][number];

/** The tools of one viewer at one moment, in the order of their names. */
interface ToolList {
  readonly tools: readonly ListedTool[];
  readonly byName: ReadonlyMap<string, ListedTool>;
  /** Whether the meta-tools stand for most of what there is. */
  readonly isShortened: boolean;
  /** What was made of this list once and holds as long as it does, such as its bytes. */
  readonly made: Map<string, Buffer>;
}

interface MetaToolSettings {
  /** `auto`: a viewer with more tools than the threshold is shown the meta-tools instead of them. */
  readonly mode: "auto" | "on" | "off";
  readonly threshold: number;
  /** Tools that are listed beside the meta-tools. */
  readonly isPinned: (tool: ToolInfo) => boolean;
}

/** How many viewers' lists are kept. */
const MOST = 64;

/** Lists are made once for each version of the rack and each set of viewers that sees the same. */
export class ToolLists {
  readonly #registry: ToolRegistry;
  readonly #meta: MetaToolSettings;
  readonly #lists = new Map<string, { readonly snapshot: RegistrySnapshot; readonly list: ToolList }>();

  constructor(registry: ToolRegistry, meta: MetaToolSettings) {
    this.#registry = registry;
    this.#meta = meta;
  }

  of(viewer: Viewer): ToolList {
    const snapshot = this.#registry.snapshot();
    const known = this.#lists.get(viewer.key);
    if (known !== undefined && known.snapshot.version === snapshot.version) return known.list;
    const list = this.#make(snapshot, viewer);
    this.#lists.delete(viewer.key);
    this.#lists.set(viewer.key, { snapshot, list });
    const oldest = this.#lists.keys().next();
    if (this.#lists.size > MOST && oldest.value !== undefined) this.#lists.delete(oldest.value);
    return list;
  }

  /** The version of the rack for which this viewer's list was last made; undefined when that is not known. */
  lastMade(viewer: Viewer): number | undefined {
    return this.#lists.get(viewer.key)?.snapshot.version;
  }

  #make(snapshot: RegistrySnapshot, viewer: Viewer): ToolList {
    const seen = this.#seen(snapshot, viewer);
    const isShortened = this.#usesMeta(seen);
    const shown = isShortened
      ? [...snapshot.list().filter(({ name }) => isMetaTool(name)), ...seen.filter(this.#meta.isPinned)]
      : seen;
    const { tools } = toMcpTools(shown);
    return { tools, isShortened, byName: new Map(tools.map((tool) => [tool.name, tool])), made: new Map() };
  }

  #seen(snapshot: RegistrySnapshot, viewer: Viewer): ToolInfo[] {
    return snapshot.list().filter((tool) => !isMetaTool(tool.name) && viewer.sees(tool));
  }

  #usesMeta(seen: readonly ToolInfo[]): boolean {
    const { mode, threshold } = this.#meta;
    return mode === "on" || (mode === "auto" && seen.length > threshold);
  }
}

/** How many things one answer lists. */
export const pageSize = 1000;

/**
 * A page of a list that is sorted by `keyOf`. The cursor names the list and the last thing of the page before, so that
 * it holds when things come and go in between, and is none of any other list.
 */
export function pageOf<Item>(
  list: string,
  items: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
): { readonly items: readonly Item[]; readonly nextCursor?: string } {
  const at = startOfPage(list, items, keyOf, cursor);
  if (at === undefined) {
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      "This cursor is not one of this list. Begin the list again without a cursor.",
    );
  }
  if (at === 0 && items.length <= pageSize) return { items };
  const page = items.slice(at, at + pageSize);
  const last = page.at(-1);
  if (at + pageSize >= items.length || last === undefined) return { items: page };
  return { items: page, nextCursor: Buffer.from(`${prefixOf(list)}${keyOf(last)}`).toString("base64url") };
}

/** Where in the list the page of this cursor begins. Undefined when it is no cursor of this list. */
export function startOfPage<Item>(
  list: string,
  items: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
): number | undefined {
  if (cursor === undefined) return 0;
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  const prefix = prefixOf(list);
  if (!text.startsWith(prefix)) return undefined;
  const after = text.slice(prefix.length);
  const at = items.findIndex((item) => keyOf(item) > after);
  return at === -1 ? items.length : at;
}

function prefixOf(list: string): string {
  return `${list} after:`;
}

/** A list as it was when it was last looked at. */
export class KnownList {
  #known: string | undefined;
  #doubts = 0;

  /** To be called when it may have changed. */
  doubt(): void {
    this.#doubts++;
  }

  /** Says whether it is another one than before. In doubt it is. Never rejects. */
  async look(read: () => unknown): Promise<boolean> {
    const before = this.#known;
    const doubts = this.#doubts;
    const now = await digestOf(read);
    // What changed while it was being read may be in it or not.
    this.#known = doubts === this.#doubts ? now : undefined;
    return now === undefined || now !== before;
  }
}

async function digestOf(read: () => unknown): Promise<string | undefined> {
  try {
    return createHash("sha256")
      .update(JSON.stringify(await read()))
      .digest("base64");
  } catch {
    return undefined;
  }
}

/** How long clients may go on with a list that they have. They are told of changes, when they listen. */
export const listCache = { ttlMs: 30_000, cacheScope: "private" } as const;

export type ListKind = "tools" | "prompts" | "resources";

/** A client that is told when its lists change, as long as it is connected. */
export interface Audience {
  readonly viewer: Viewer;
  /** Never throws. */
  tell(kind: ListKind): void;
}

/** What an expert lets through, as `/mcp/{expert}` serves it. */
export interface ExpertView {
  readonly id: string;
  readonly name: string;
  readonly allow: (tool: ToolInfo) => boolean;
  /** Another one whenever `allow` may answer differently. */
  readonly version: string | number;
  /** What a client is told of it at the beginning. */
  readonly instructions?: string;
}

/** Undefined: there is no such expert. */
export type ExpertResolver = (nameOrId: string) => ExpertView | undefined;

/** Who looks at the rack through MCP, and how much of it is there for them. */
export class Viewer {
  readonly grant: Grant;
  #expert: ExpertView | undefined;
  #key: string;
  /** Whom a session or a state belongs to. */
  readonly principal: string;

  constructor(grant: Grant, expert?: ExpertView) {
    // Meta-tools show and reach nothing beyond what the bearer may use, so that everybody may use them. Who may use an
    // expert may use its tools.
    const mayUse = (item: RackItem) => expert !== undefined || isMetaTool(item.name) || grant.mayUse(item);
    this.grant = grant.admin ? grant : { ...grant, mayUse };
    this.#expert = expert;
    this.#key = keyOf(grant, expert);
    // By its id: another expert that is given the same name later is another one.
    this.principal = `${grant.id}/${expert?.id ?? ""}`;
  }

  get expert(): ExpertView | undefined {
    return this.#expert;
  }

  /** The same for viewers that see the same tools. */
  get key(): string {
    return this.#key;
  }

  /** For one that stays connected: its expert is another one by now. Who came without an expert stays without. */
  renew(expert: ExpertView | undefined): void {
    if (expert === undefined || this.#expert === undefined) return;
    if (expert.version === this.#expert.version && expert.name === this.#expert.name) return;
    this.#expert = expert;
    this.#key = keyOf(this.grant, expert);
  }

  sees(tool: ToolInfo): boolean {
    return this.grant.mayUse(tool) && this.allow?.(tool) !== false;
  }

  get allow(): ((tool: ToolInfo) => boolean) | undefined {
    const { expert } = this;
    return expert === undefined ? undefined : (tool) => isMetaTool(tool.name) || expert.allow(tool);
  }

  reader(signal: AbortSignal, client?: CallClient): OfferingReader {
    const { grant, expert } = this;
    return {
      caller: grant.caller,
      mayUse: (item) => grant.mayUse(item) && expert?.allow({ ...unknownTool, ...item }) !== false,
      ...(expert === undefined ? {} : { expert: expert.name }),
      ...(client === undefined ? {} : { client }),
      signal,
    };
  }
}

function keyOf({ admin, id }: Grant, expert: ExpertView | undefined): string {
  const seen = expert === undefined ? "" : `${expert.name}@${expert.version}`;
  return `${admin ? "admin" : id}/${seen}`;
}

/** An expert speaks of tools: a prompt or resource is judged as a tool would be of which nothing is known but its name and origin. */
const unknownTool: ToolInfo = Tool.define({
  name: "unknown",
  description: "",
  parameters: { type: "object", properties: {} },
  execute: async () => "",
});

/** Whether an expert exists for this bearer at all. A token may name it either way. */
export function mayUseExpert(grant: Grant, { id, name }: ExpertView): boolean {
  return grant.mayUseExpert(name) || grant.mayUseExpert(id);
}
