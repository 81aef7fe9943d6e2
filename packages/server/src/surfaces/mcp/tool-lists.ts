import { type RegistrySnapshot, type ToolInfo, type ToolRegistry, toMcpTools } from "@toolrack/core";
import { isMetaTool } from "../../meta-tools/meta-tools.ts";
import type { Viewer } from "./viewer.ts";

export type ListedTool = ReturnType<typeof toMcpTools>["tools"][number];

/** The tools of one viewer at one moment, in the order of their names. */
export interface ToolList {
  readonly tools: readonly ListedTool[];
  readonly byName: ReadonlyMap<string, ListedTool>;
  /** Whether the meta-tools stand for most of what there is. */
  readonly isShortened: boolean;
  /** What was made of this list once and holds as long as it does, such as its bytes. */
  readonly made: Map<string, Buffer>;
}

export interface MetaToolSettings {
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
