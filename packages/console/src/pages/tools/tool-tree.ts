import type { FileReport, ToolSummary } from "../../api/index.ts";

export interface Rack {
  readonly tools: readonly ToolSummary[];
  /** Files that do not load, or only in an older version. Only admins get them. */
  readonly troubled: readonly FileReport[];
}

export const shows = ["all", "failed", "disabled", "dangerous", "quiet"] as const;
export type Show = (typeof shows)[number];

export const sources = ["files", "skills", "mcp", "builtin", "other"] as const;
export type Source = (typeof sources)[number];

export type TreeRow =
  | {
      readonly kind: "source";
      readonly id: string;
      readonly source: Source;
      readonly count: number;
      readonly isOpen: boolean;
    }
  | {
      readonly kind: "group";
      readonly id: string;
      readonly label: string;
      readonly count: number;
      readonly isOpen: boolean;
    }
  | { readonly kind: "tool"; readonly id: string; readonly tool: ToolSummary; readonly level: number }
  | { readonly kind: "file"; readonly id: string; readonly file: FileReport; readonly level: number };

export interface TreeFilter {
  readonly q: string;
  readonly show: Show;
  readonly tag: string;
  readonly source?: Source | undefined;
}

export type Activity = ReadonlyMap<string, { readonly calls: number; readonly errors: number }>;

/** The rows of the list: tools and files with problems by source and group, without folded and filtered ones. */
export function treeRows(
  rack: Rack,
  filter: TreeFilter,
  folded: ReadonlySet<string>,
  activity?: Activity,
): TreeRow[] {
  const words = wordsOf(filter.q);
  const leaves = [
    ...rack.troubled
      .filter((file) => fileFits(file, filter, words))
      .map((file) => ({ place: placeOfFile(file.file), row: fileRow(file) })),
    ...rack.tools
      .filter((tool) => toolFits(tool, filter, words, activity))
      .map((tool) => ({ place: factsOf(tool).place, row: factsOf(tool).row })),
  ];
  const bySource = Map.groupBy(leaves, ({ place }) => place.source);
  return sources.flatMap((source) => {
    const mine = bySource.get(source);
    if (mine === undefined) return [];
    const isOpen = !folded.has(source);
    const head: TreeRow = { kind: "source", id: source, source, count: toolsIn(mine), isOpen };
    if (!isOpen) return [head];
    const groups = [...Map.groupBy(mine, ({ place }) => place.group)].sort(([left], [right]) =>
      left.localeCompare(right),
    );
    return [
      head,
      ...groups.flatMap(([group, members]) => {
        const rows = members.map(({ row }) => row).sort(byName);
        if (group === "") return rows.map((row) => ({ ...row, level: 2 }));
        const id = `${source}/${group}`;
        const groupIsOpen = !folded.has(id);
        const groupRow: TreeRow = {
          kind: "group",
          id,
          label: group,
          count: toolsIn(members),
          isOpen: groupIsOpen,
        };
        return groupIsOpen ? [groupRow, ...rows] : [groupRow];
      }),
    ];
  });
}

/** Counts tools only; a file that does not load is none. */
function toolsIn(leaves: readonly { readonly row: TreeRow }[]): number {
  return leaves.filter(({ row }) => row.kind === "tool").length;
}

/** The best match of a search: a tool of that name, else one whose name begins with it or contains it. */
export function bestHit(rows: readonly TreeRow[], q: string): Extract<TreeRow, { kind: "tool" }> | undefined {
  const wanted = q.trim().toLowerCase();
  const found = rows.filter((row) => row.kind === "tool");
  const namesOf = ({ tool }: (typeof found)[number]) =>
    [tool.name, tool.displayName, tool.title ?? ""].map((name) => name.toLowerCase());
  return (
    found.find((row) => namesOf(row).includes(wanted)) ??
    found.find((row) => namesOf(row).some((name) => name.startsWith(wanted))) ??
    found.find((row) => namesOf(row).some((name) => name.includes(wanted))) ??
    found[0]
  );
}

/** Whether a tool passes the filters, regardless of folding. */
export function isShown(tool: ToolSummary, filter: TreeFilter, activity?: Activity): boolean {
  return toolFits(tool, filter, wordsOf(filter.q), activity);
}

function wordsOf(q: string): readonly string[] {
  return q.toLowerCase().split(/\s+/).filter(Boolean);
}

export function tagsOf(tools: readonly ToolSummary[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const tag of tools.flatMap(({ tags = [] }) => tags)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  return [...counts].sort(([, left], [, right]) => right - left);
}

function toolFits(
  tool: ToolSummary,
  { show, tag, source }: TreeFilter,
  words: readonly string[],
  activity: Activity | undefined,
): boolean {
  if (show === "failed" && tool.status !== "stale") return false;
  if (show === "disabled" && tool.status !== "disabled") return false;
  if (show === "dangerous" && !tool.dangerous) return false;
  if (show === "quiet" && (activity?.get(tool.name)?.calls ?? 0) > 0) return false;
  if (tag !== "" && !tool.tags?.includes(tag)) return false;
  const facts = factsOf(tool);
  if (source !== undefined && facts.place.source !== source) return false;
  return words.every((word) => facts.text.includes(word));
}

function fileFits(
  { file, failure }: FileReport,
  { show, tag, source }: TreeFilter,
  words: readonly string[],
): boolean {
  if (tag !== "" || (show !== "all" && show !== "failed")) return false;
  if (source !== undefined && source !== "files") return false;
  const text = `${file} ${failure?.reason ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

interface ToolFacts {
  readonly place: Place;
  readonly row: Extract<TreeRow, { kind: "tool" }>;
  readonly text: string;
}

/** Computed once per tool, because a search reads ten thousand of them with every letter. */
const known = new WeakMap<ToolSummary, ToolFacts>();

function factsOf(tool: ToolSummary): ToolFacts {
  let facts = known.get(tool);
  if (facts === undefined) {
    const { name, displayName, title, description, category, origin, tags = [], aliases = [] } = tool;
    const parts = [name, displayName, title, description, category, origin, ...tags, ...aliases];
    const text = parts.filter(Boolean).join(" ").toLowerCase();
    facts = { place: placeOf(tool), row: toolRow(tool), text };
    known.set(tool, facts);
  }
  return facts;
}

interface Place {
  readonly source: Source;
  readonly group: string;
}

function placeOf({ origin = "", category = "" }: ToolSummary): Place {
  const builtin = /^built-in ([^/]+)\//.exec(origin);
  if (builtin) return { source: "builtin", group: builtin[1]! };
  const upstream = /^mcp server (.+)$/.exec(origin);
  if (upstream) return { source: "mcp", group: upstream[1]! };
  const skill = /^skill ([^/]+)/.exec(origin);
  if (skill) return { source: "skills", group: skill[1]! };
  if (/\.\w+$/.test(origin)) return placeOfFile(origin);
  return { source: "other", group: category };
}

function placeOfFile(file: string): Place {
  const folders = file.split("/").slice(0, -1);
  return { source: "files", group: folders.slice(1).join("/") };
}

function toolRow(tool: ToolSummary): Extract<TreeRow, { kind: "tool" }> {
  return { kind: "tool", id: `tool ${tool.name}`, tool, level: 3 };
}

function fileRow(file: FileReport): Extract<TreeRow, { kind: "file" }> {
  return { kind: "file", id: `file ${file.file}`, file, level: 3 };
}

function byName(left: TreeRow, right: TreeRow): number {
  return left.id < right.id ? -1 : 1;
}

/** The tool names of a row: its own, or those of its group or source. `all` must have nothing folded. */
export function toolsOf(all: readonly TreeRow[], row: TreeRow): string[] {
  if (row.kind === "tool") return [row.tool.name];
  const at = all.findIndex(({ id }) => id === row.id);
  if (row.kind === "file" || at === -1) return [];
  const isEnd = ({ kind }: TreeRow) => kind === "source" || (row.kind === "group" && kind === "group");
  const below = all.slice(at + 1);
  const end = below.findIndex(isEnd);
  return below
    .slice(0, end === -1 ? below.length : end)
    .flatMap((one) => (one.kind === "tool" ? [one.tool.name] : []));
}

/** The tool names between two rows in either order, both included. */
export function toolsBetween(rows: readonly TreeRow[], from: number, to: number): string[] {
  const [first, last] = from < to ? [from, to] : [to, from];
  return rows.slice(first, last + 1).flatMap((row) => (row.kind === "tool" ? [row.tool.name] : []));
}

/** Marks all names, or unmarks them when all are marked. */
export function toggled(marks: ReadonlySet<string>, names: readonly string[]): Set<string> {
  const next = new Set(marks);
  const areAll = names.every((name) => marks.has(name));
  for (const name of names) {
    if (areAll) next.delete(name);
    else next.add(name);
  }
  return next;
}
