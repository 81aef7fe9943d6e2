import type { RegistrySnapshot, ToolInfo, ToolRegistry } from "@toolrack/core";
import type { Grant } from "../access/index.ts";
import { isHelperTool, isMetaTool } from "../calls/index.ts";
import { inSlices } from "../helpers/index.ts";
import type { Reach } from "./wire/index.ts";

/** Where tools come from, in the order in which people are shown them. */
export const toolSources = ["files", "skills", "mcp", "builtin", "other"] as const;
type ToolSource = (typeof toolSources)[number];

/** What a list of tools is to hold. Everything that is given must fit. */
export interface ToolFilter {
  /** A search by name and meaning: enabled tools only, best first. Without other conditions, at most `MOST_FOUND`. */
  readonly q?: string | undefined;
  readonly status?: string | undefined;
  /** Each of these words is part of a text of the tool. */
  readonly words?: string | undefined;
  readonly category?: string | undefined;
  readonly tag?: string | undefined;
  readonly dangerous?: boolean | undefined;
  readonly source?: ToolSource | undefined;
  readonly group?: string | undefined;
}

export interface ToolGroup {
  readonly source: ToolSource;
  /** A folder, a skill, a server, or a category; empty for tools that stand alone. */
  readonly group: string;
  readonly count: number;
}

interface Tag {
  readonly name: string;
  readonly count: number;
}

export interface ToolList {
  readonly version: number;
  /** Sorted by name, or by how well they fit the search. */
  readonly tools: readonly ToolInfo[];
}

/** How many lists are kept of each grant. */
const MOST_KEPT = 8;
/** The answer lists so many tags, those of most tools. */
const MOST_TAGS = 40;
const MOST_FOUND = 1_000;

interface Kept {
  readonly snapshot: RegistrySnapshot;
  readonly list: Promise<ToolList>;
}

/**
 * Makes each list once for a version of the rack, a grant and a filter; the pages of a list are parts of it. Tens of
 * thousands of tools are looked at in slices, so that other requests are not held up.
 */
export class ToolLists {
  readonly #registry: ToolRegistry;
  readonly #kept = new WeakMap<Grant, Map<string, Kept>>();
  readonly #facets = new WeakMap<readonly ToolInfo[], { groups: ToolGroup[]; tags: Tag[] }>();

  constructor(registry: ToolRegistry) {
    this.#registry = registry;
  }

  /** `grant`: that of the request; `reach`: what it may use, by itself or as an expert. */
  of(grant: Grant, reach: Reach, filter: ToolFilter): Promise<ToolList> {
    const snapshot = this.#registry.snapshot();
    const lists = this.#kept.get(grant) ?? new Map<string, Kept>();
    this.#kept.set(grant, lists);
    const { q, words, category, tag, dangerous, source, group } = filter;
    const isPart = q !== undefined && filter.status !== undefined;
    const expert = reach.expert && [reach.expert.id, reach.expert.version];
    // What was learned since may change what a search finds.
    const learned = q === undefined ? 0 : this.#registry.searchVersion;
    const key = JSON.stringify([expert, learned, q, words, category, tag, dangerous, source, group, isPart]);
    const known = lists.get(key);
    if (known?.snapshot === snapshot) return known.list;
    const list = this.#make(snapshot, reach, filter);
    lists.delete(key);
    lists.set(key, { snapshot, list });
    for (const [old, kept] of lists)
      if (kept.snapshot !== snapshot || lists.size > MOST_KEPT) lists.delete(old);
    return list;
  }

  /** How many tools of the list each group and each tag has. */
  async facets({ tools }: ToolList): Promise<{ groups: readonly ToolGroup[]; tags: readonly Tag[] }> {
    const known = this.#facets.get(tools);
    if (known !== undefined) return known;
    const groups = new Map<string, { source: ToolSource; group: string; count: number }>();
    const tags = new Map<string, number>();
    await inSlices(tools.values(), (tool) => {
      const { source, group } = placeOf(tool);
      const key = `${source}/${group}`;
      const found = groups.get(key) ?? { source, group, count: 0 };
      found.count++;
      groups.set(key, found);
      for (const tag of tool.metadata.tags ?? []) tags.set(tag, (tags.get(tag) ?? 0) + 1);
    });
    const facets = {
      groups: [...groups.values()].sort((one, other) => one.group.localeCompare(other.group)),
      tags: [...tags]
        .sort(([, one], [, other]) => other - one)
        .slice(0, MOST_TAGS)
        .map(([name, count]) => ({ name, count })),
    };
    this.#facets.set(tools, facets);
    return facets;
  }

  async #make(snapshot: RegistrySnapshot, reach: Reach, filter: ToolFilter): Promise<ToolList> {
    const { q, ...others } = filter;
    const { version } = snapshot;
    if (q !== undefined) await this.#registry.prepareSearch();
    const isAdmins = reach.grant.admin && reach.allow === undefined;
    const isAll = isAdmins && Object.values(others).every((one) => one === undefined || one === "");
    const isListed = ({ name }: ToolInfo) => !isHelperTool(name);
    const isSeen = (tool: ToolInfo) => isListed(tool) && isWithin(tool, reach);
    const all =
      q === undefined
        ? snapshot.sorted().filter(isListed)
        : snapshot.search(q, isAll ? MOST_FOUND : Number.POSITIVE_INFINITY, isAdmins ? isListed : isSeen);
    if (isAll || (isAdmins && q === undefined && isOnlyStatus(others))) return { version, tools: all };
    const words = others.words?.toLowerCase().split(/\s+/).filter(Boolean) ?? [];
    const tools: ToolInfo[] = [];
    await inSlices(all.values(), (tool) => {
      if (isWithin(tool, reach) && fits(tool, others, words)) tools.push(tool);
    });
    return { version, tools };
  }
}

/**
 * Whether the filter asks for nothing but a status. The status is not filtered here: whoever asked for the list
 * does it.
 */
function isOnlyStatus({ status: _, ...others }: ToolFilter): boolean {
  return Object.values(others).every((one) => one === undefined || one === "");
}

/** Whether a request that may use this much may see the tool. */
export function isWithin(tool: ToolInfo, { grant, allow }: Reach): boolean {
  return grant.mayUse(tool) && allow?.(tool) !== false;
}

/** The meta-tools show and call only what their caller may use, so every caller may use them. */
export function withMetaTools({ grant, allow }: Reach): Reach {
  const mayUse: Reach["grant"]["mayUse"] = (tool) => isMetaTool(tool.name) || grant.mayUse(tool);
  const reach = { grant: { ...grant, mayUse } };
  return allow === undefined ? reach : { ...reach, allow: (tool) => isMetaTool(tool.name) || allow(tool) };
}

function fits(tool: ToolInfo, filter: ToolFilter, words: readonly string[]): boolean {
  if (isHelperTool(tool.name)) return false;
  const { category, tag, dangerous, source, group } = filter;
  const { metadata } = tool;
  if (category !== undefined && metadata.category !== category) return false;
  if (tag !== undefined && metadata.tags?.includes(tag) !== true) return false;
  if (dangerous !== undefined && (metadata.dangerous === true) !== dangerous) return false;
  if (source !== undefined && placeOf(tool).source !== source) return false;
  if (group !== undefined && placeOf(tool).group !== group) return false;
  if (words.length === 0) return true;
  const text = textOf(tool);
  return words.every((word) => text.includes(word));
}

const texts = new WeakMap<ToolInfo, string>();

/** The texts of a tool in lower case, made once: a word is looked for in all of them with every typed letter. */
function textOf(tool: ToolInfo): string {
  const known = texts.get(tool);
  if (known !== undefined) return known;
  const { name, displayName, title, description, origin, aliases = [], metadata } = tool;
  const parts = [name, displayName, title, description, metadata.category, origin, ...(metadata.tags ?? [])];
  const text = [...parts, ...aliases].filter(Boolean).join(" ").toLowerCase();
  texts.set(tool, text);
  return text;
}

const origins: readonly (readonly [ToolSource, RegExp])[] = [
  ["builtin", /^built-in ([^/]+)\//],
  ["mcp", /^mcp server (.+)$/],
  ["skills", /^skill ([^/]+)/],
];

/** Where people look for a tool. */
export function placeOf({ origin = "", metadata }: ToolInfo): Pick<ToolGroup, "source" | "group"> {
  for (const [source, form] of origins) {
    const group = form.exec(origin)?.[1];
    if (group !== undefined) return { source, group };
  }
  const { category } = metadata;
  if (!/\.\w+$/.test(origin)) return { source: "other", group: category ?? "" };
  return { source: "files", group: origin.split("/").slice(1, -1).join("/") };
}
