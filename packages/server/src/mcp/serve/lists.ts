import { type RegistrySnapshot, type ToolInfo, type ToolRegistry, toMcpTools } from "@toolrack/core";
import { isMetaTool } from "../../calls/index.ts";
import type { Caller } from "./caller.ts";
import { invalidParams } from "./errors.ts";

type ListedTool = ReturnType<typeof toMcpTools>["tools"][number];

/** The tools of one caller at one version of the rack, sorted by name. */
interface ToolList {
  readonly tools: readonly ListedTool[];
  readonly byName: ReadonlyMap<string, ListedTool>;
  /** Whether the list has the meta-tools in place of most tools. */
  readonly isShortened: boolean;
  /** The encoded pages of this list, by era and start. */
  readonly pages: Map<string, Buffer>;
}

interface MetaToolSettings {
  /** `auto`: a caller with more tools than the threshold sees the meta-tools instead. */
  readonly mode: "auto" | "on" | "off";
  readonly threshold: number;
  /** Tools that are listed beside the meta-tools. */
  readonly isPinned: (tool: ToolInfo) => boolean;
}

/** How many callers' lists are kept. */
const MOST = 64;

/** Makes each list once per version of the rack; callers that see the same tools share it. */
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

  /** The version of the rack for which this caller's list was last made. Undefined when no list is kept. */
  lastMade(caller: Caller): number | undefined {
    return this.#lists.get(caller.key)?.snapshot.version;
  }

  #make(snapshot: RegistrySnapshot, caller: Caller): ToolList {
    const { mode, threshold } = this.#meta;
    const seen = snapshot.list().filter((tool) => !isMetaTool(tool.name) && caller.sees(tool));
    const isShortened = mode === "on" || (mode === "auto" && seen.length > threshold);
    const shown = isShortened
      ? [...snapshot.list().filter(({ name }) => isMetaTool(name)), ...seen.filter(this.#meta.isPinned)]
      : seen;
    const { tools } = toMcpTools(shown);
    return { tools, isShortened, byName: new Map(tools.map((tool) => [tool.name, tool])), pages: new Map() };
  }
}

/** How many items one page holds. */
export const pageSize = 1000;

/**
 * A page of a list that is sorted by `keyOf`. The cursor holds the name of the list and the key of the last item of the
 * page before. So it stays valid when items are added or removed, and is refused for any other list.
 */
export function pageOf<Item>(
  list: string,
  items: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
): { readonly items: readonly Item[]; readonly start: number; readonly nextCursor?: string } {
  const start = startOf(items, keyOf, `${list} after:`, cursor);
  if (start === 0 && items.length <= pageSize) return { items, start };
  const page = items.slice(start, start + pageSize);
  const last = page.at(-1);
  if (start + pageSize >= items.length || last === undefined) return { items: page, start };
  const nextCursor = Buffer.from(`${list} after:${keyOf(last)}`).toString("base64url");
  return { items: page, start, nextCursor };
}

function startOf<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
  prefix: string,
  cursor: string | undefined,
): number {
  if (cursor === undefined) return 0;
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  if (!text.startsWith(prefix)) {
    throw invalidParams("This cursor is not one of this list. Begin the list again without a cursor.");
  }
  const at = items.findIndex((item) => keyOf(item) > text.slice(prefix.length));
  return at === -1 ? items.length : at;
}
