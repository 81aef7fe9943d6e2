import type { FileReport, ToolPage, ToolSummary } from "../../api/index.ts";

export interface Rack {
  /** All tools; of a large rack, those that were read. */
  readonly tools: readonly ToolSummary[];
  /** How many tools there are; with filters on a large rack, how many fit them. */
  readonly total?: number;
  /** The groups of a large rack without filters. */
  readonly groups?: NonNullable<ToolPage["groups"]>;
  /** The tags of a large rack. */
  readonly tags?: NonNullable<ToolPage["tags"]>;
  /** Files that failed to load; an older version of some is still in use. Only admins get them. */
  readonly troubled: readonly FileReport[];
}

export type Activity = ReadonlyMap<string, { readonly calls: number; readonly errors: number }>;

export const shows = ["all", "failed", "disabled", "dangerous", "quiet"] as const;
export type Show = (typeof shows)[number];
const passes: Readonly<Record<Show, (tool: ToolSummary, activity?: Activity) => boolean>> = {
  all: () => true,
  failed: ({ status }) => status === "stale",
  disabled: ({ status }) => status === "disabled",
  dangerous: ({ dangerous }) => dangerous,
  quiet: ({ name }, activity) => (activity?.get(name)?.calls ?? 0) === 0,
};

export type Source = ToolSummary["source"];
export const sources: readonly Source[] = ["files", "skills", "mcp", "builtin", "other"];

/** A row of the list: a source at level 1, a group at level 2, a tool, or a file with problems. */
export type TreeRow = { readonly id: string; readonly level: number } & (
  | {
      readonly kind: "branch";
      readonly label: string;
      readonly count: number;
      /** What the definitions of its enabled tools cost a model's context. Absent for search results. */
      readonly tokens?: number;
      readonly isOpen: boolean;
    }
  | { readonly kind: "tool"; readonly tool: ToolSummary }
  | { readonly kind: "file"; readonly file: FileReport }
);
type LeafRow = Exclude<TreeRow, { kind: "branch" }>;
type ToolRow = Extract<TreeRow, { kind: "tool" }>;

export interface TreeFilter {
  readonly q: string;
  readonly show: Show;
  readonly tag: string;
  readonly source?: Source | undefined;
}

/** A tool or file with its place in the tree and the text that a search looks at. */
interface Leaf {
  readonly source: Source;
  readonly group: string;
  readonly text: string;
  readonly row: LeafRow;
}

/**
 * The rows of the list: tools and files with problems, by source and group. Folded rows and rows that the
 * filter excludes are left out.
 */
export function treeRows(
  rack: Rack,
  filter: TreeFilter,
  folded: ReadonlySet<string>,
  activity?: Activity,
): TreeRow[] {
  const words = wordsOf(filter.q);
  const leaves = [...rack.troubled.map(leafOfFile), ...rack.tools.map(leafOf)].filter((leaf) =>
    fits(leaf, filter, words, activity),
  );
  const branch = (
    id: string,
    label: string,
    level: number,
    inner: readonly Leaf[],
    rows: () => TreeRow[],
  ) => {
    const isOpen = !folded.has(id);
    const tools = inner.flatMap(({ row }) => (row.kind === "tool" ? [row.tool] : []));
    const tokens = tools.reduce((sum, tool) => sum + (tool.status === "disabled" ? 0 : tool.tokens), 0);
    const head: TreeRow = { kind: "branch", id, label, level, count: tools.length, tokens, isOpen };
    return isOpen ? [head, ...rows()] : [head];
  };
  const bySource = Map.groupBy(leaves, ({ source }) => source);
  return sources.flatMap((source) => {
    const inSource = bySource.get(source);
    if (inSource === undefined) return [];
    const groups = [...Map.groupBy(inSource, ({ group }) => group)].sort(([left], [right]) =>
      left.localeCompare(right),
    );
    const groupRows = ([group, inner]: [string, Leaf[]]): TreeRow[] => {
      const rows = inner.map(({ row }) => row).sort((left, right) => (left.id < right.id ? -1 : 1));
      if (group === "") return rows.map((row) => ({ ...row, level: 2 }));
      return branch(`${source}/${group}`, group, 2, inner, () => rows);
    };
    return branch(source, source, 1, inSource, () => groups.flatMap(groupRows));
  });
}

/** The rows of a large rack: all groups, and the tools of those in `opened`. */
export function groupRows(
  { groups = [], tools, troubled }: Rack,
  opened: ReadonlySet<string>,
  ungrouped: string,
): TreeRow[] {
  const leaves = Map.groupBy([...troubled.map(leafOfFile), ...tools.map(leafOf)], ({ source, group, row }) =>
    row.kind === "file" ? `${source} file` : `${source}/${group}`,
  );
  const rowsOf = (key: string) => (leaves.get(key) ?? []).map(({ row }) => row);
  return sources.flatMap((source): TreeRow[] => {
    const own = groups.filter((one) => one.source === source);
    const files = rowsOf(`${source} file`).map((row) => ({ ...row, level: 2 }));
    if (own.length + files.length === 0) return [];
    const count = own.reduce((sum, one) => sum + one.count, 0);
    const rows = own.flatMap(({ group, count: inGroup }): TreeRow[] => {
      const id = `${source}/${group}`;
      const isOpen = opened.has(id);
      const head: TreeRow = {
        kind: "branch",
        id,
        label: group || ungrouped,
        level: 2,
        count: inGroup,
        isOpen,
      };
      return isOpen ? [head, ...rowsOf(id)] : [head];
    });
    return [{ kind: "branch", id: source, label: source, level: 1, count, isOpen: true }, ...files, ...rows];
  });
}

/**
 * The best match of a search: the tool with this name, or else one whose name begins with the text, or else
 * one whose name contains it, or else the first tool.
 */
export function bestHit(rows: readonly TreeRow[], q: string): ToolRow | undefined {
  const wanted = q.trim().toLowerCase();
  const found = rows.filter((row) => row.kind === "tool");
  const named = (isHit: (name: string) => boolean) =>
    found.find(({ tool: { name, displayName, title = "" } }) =>
      [name, displayName, title].some((one) => isHit(one.toLowerCase())),
    );
  return (
    named((name) => name === wanted) ??
    named((name) => name.startsWith(wanted)) ??
    named((name) => name.includes(wanted)) ??
    found[0]
  );
}

/** Whether a tool passes the filters, regardless of folding. */
export function isShown(tool: ToolSummary, filter: TreeFilter, activity?: Activity): boolean {
  return fits(leafOf(tool), filter, wordsOf(filter.q), activity);
}

function wordsOf(q: string): readonly string[] {
  return q.toLowerCase().split(/\s+/).filter(Boolean);
}

/** The tags of tools, the commonest first. */
export function tagsOf(tools: readonly ToolSummary[]): NonNullable<Rack["tags"]> {
  const counts = new Map<string, number>();
  for (const tag of tools.flatMap(({ tags = [] }) => tags)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  return [...counts].map(([name, count]) => ({ name, count })).sort((one, other) => other.count - one.count);
}

function fits(
  { source, text, row }: Leaf,
  filter: TreeFilter,
  words: readonly string[],
  activity: Activity | undefined,
): boolean {
  const { show, tag } = filter;
  const isWanted =
    row.kind === "tool" ? passes[show](row.tool, activity) : show === "all" || show === "failed";
  if (!isWanted || (filter.source !== undefined && filter.source !== source)) return false;
  if (tag !== "" && !(row.kind === "tool" && row.tool.tags?.includes(tag))) return false;
  return words.every((word) => text.includes(word));
}

/** The leaf of each tool, made once, because a search reads all of them with every typed letter. */
const known = new WeakMap<ToolSummary, Leaf>();

function leafOf(tool: ToolSummary): Leaf {
  let leaf = known.get(tool);
  if (leaf === undefined) {
    const { name, displayName, title, description, category, origin, tags = [], aliases = [] } = tool;
    const { source, group } = tool;
    const parts = [name, displayName, title, description, category, origin, ...tags, ...aliases];
    const text = parts.filter(Boolean).join(" ").toLowerCase();
    leaf = { source, group, text, row: { kind: "tool", id: `tool ${name}`, tool, level: 3 } };
    known.set(tool, leaf);
  }
  return leaf;
}

function leafOfFile(file: FileReport): Leaf {
  const text = `${file.file} ${file.failure?.reason ?? ""}`.toLowerCase();
  const group = file.file.split("/").slice(1, -1).join("/");
  return { source: "files", group, text, row: { kind: "file", id: `file ${file.file}`, file, level: 3 } };
}

/** Names of a row's tools: one tool, or all tools of a group or source. In `all`, no branch may be folded. */
export function toolsOf(all: readonly TreeRow[], row: TreeRow): string[] {
  if (row.kind !== "branch") return toolNames([row]);
  const below = all.slice(all.findIndex(({ id }) => id === row.id) + 1);
  const end = below.findIndex(({ kind, level }) => kind === "branch" && level <= row.level);
  return toolNames(end === -1 ? below : below.slice(0, end));
}

/** The tool names between two rows in either order, both included. */
export function toolsBetween(rows: readonly TreeRow[], from: number, to: number): string[] {
  return toolNames(rows.slice(Math.min(from, to), Math.max(from, to) + 1));
}

function toolNames(rows: readonly TreeRow[]): string[] {
  return rows.flatMap((row) => (row.kind === "tool" ? [row.tool.name] : []));
}

/** Selects all names, or unselects them when all are selected. */
export function toggled(marks: ReadonlySet<string>, names: readonly string[]): ReadonlySet<string> {
  const isAdding = names.some((name) => !marks.has(name));
  return new Set(isAdding ? [...marks, ...names] : [...marks].filter((name) => !names.includes(name)));
}
