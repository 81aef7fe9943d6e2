import { type RegistrySnapshot, type ToolInfo, type ToolRegistry, toMcpTools } from "@toolrack/core";
import { isMetaTool } from "../../calls/index.ts";
import { RpcError, rpcCodes } from "../wire/index.ts";
import type { Caller } from "./caller.ts";

type ListedTool = ReturnType<typeof toMcpTools>["tools"][number];

/** The tools of one caller at one moment, in the order of their names. */
interface ToolList {
  readonly tools: readonly ListedTool[];
  readonly byName: ReadonlyMap<string, ListedTool>;
  /** Whether the meta-tools stand for most of what there is. */
  readonly isShortened: boolean;
  /** What was made of this list once and holds as long as it does, such as its bytes. */
  readonly made: Map<string, Buffer>;
}

interface MetaToolSettings {
  /** `auto`: a caller with more tools than the threshold is shown the meta-tools instead of them. */
  readonly mode: "auto" | "on" | "off";
  readonly threshold: number;
  /** Tools that are listed beside the meta-tools. */
  readonly isPinned: (tool: ToolInfo) => boolean;
}

/** How many callers' lists are kept. */
const MOST = 64;

/** Lists are made once for each version of the rack and each set of callers that sees the same. */
export class ToolLists {
  readonly #registry: ToolRegistry;
  readonly #meta: MetaToolSettings;
  readonly #lists = new Map<string, { readonly snapshot: RegistrySnapshot; readonly list: ToolList }>();

  constructor(registry: ToolRegistry, meta: MetaToolSettings) {
    this.#registry = registry;
    this.#meta = meta;
  }

  of(caller: Caller): ToolList {
    const snapshot = this.#registry.snapshot();
    const known = this.#lists.get(caller.key);
    if (known !== undefined && known.snapshot.version === snapshot.version) return known.list;
    const list = this.#make(snapshot, caller);
    this.#lists.delete(caller.key);
    this.#lists.set(caller.key, { snapshot, list });
    const oldest = this.#lists.keys().next();
    if (this.#lists.size > MOST && oldest.value !== undefined) this.#lists.delete(oldest.value);
    return list;
  }

  /** The version of the rack for which this caller's list was last made; undefined when that is not known. */
  lastMade(caller: Caller): number | undefined {
    return this.#lists.get(caller.key)?.snapshot.version;
  }

  #make(snapshot: RegistrySnapshot, caller: Caller): ToolList {
    const seen = this.#seen(snapshot, caller);
    const isShortened = this.#usesMeta(seen);
    const shown = isShortened
      ? [...snapshot.list().filter(({ name }) => isMetaTool(name)), ...seen.filter(this.#meta.isPinned)]
      : seen;
    const { tools } = toMcpTools(shown);
    return { tools, isShortened, byName: new Map(tools.map((tool) => [tool.name, tool])), made: new Map() };
  }

  #seen(snapshot: RegistrySnapshot, caller: Caller): ToolInfo[] {
    return snapshot.list().filter((tool) => !isMetaTool(tool.name) && caller.sees(tool));
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
    throw new RpcError(
      rpcCodes.invalidParams,
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
