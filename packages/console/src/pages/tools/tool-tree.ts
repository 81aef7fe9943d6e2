import type { FileReport, ToolSummary } from "../../api/types.ts";
import type { Rack } from "./all-tools.ts";

export const shows = ["all", "failed", "disabled", "dangerous"] as const;
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
}

/** The rows of the list: tools and files in trouble, by source and group, without what is folded or filtered away. */
export function treeRows(rack: Rack, filter: TreeFilter, folded: ReadonlySet<string>): TreeRow[] {
  const leaves = [
    ...rack.troubled
      .filter((file) => fileFits(file, filter))
      .map((file) => ({ place: placeOfFile(file.file), row: fileRow(file) })),
    ...rack.tools
      .filter((tool) => toolFits(tool, filter))
      .map((tool) => ({ place: placeOf(tool), row: toolRow(tool) })),
  ];
  const bySource = Map.groupBy(leaves, ({ place }) => place.source);
  return sources.flatMap((source) => {
    const mine = bySource.get(source);
    if (mine === undefined) return [];
    const isOpen = !folded.has(source);
    const head: TreeRow = { kind: "source", id: source, source, count: mine.length, isOpen };
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
          count: rows.length,
          isOpen: groupIsOpen,
        };
        return groupIsOpen ? [groupRow, ...rows] : [groupRow];
      }),
    ];
  });
}

/** Whether the words of a search are all somewhere in what a tool says of itself. */
export function matches(text: string, q: string): boolean {
  const lower = text.toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}

/** Every tag with how many tools bear it, most first. */
export function tagsOf(tools: readonly ToolSummary[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const tag of tools.flatMap(({ tags = [] }) => tags)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  return [...counts].sort(([, left], [, right]) => right - left);
}

function toolFits(tool: ToolSummary, { q, show, tag }: TreeFilter): boolean {
  if (show === "failed" && tool.status !== "stale") return false;
  if (show === "disabled" && tool.status !== "disabled") return false;
  if (show === "dangerous" && !tool.dangerous) return false;
  if (tag !== "" && !tool.tags?.includes(tag)) return false;
  if (q === "") return true;
  const {
    name,
    displayName,
    title = "",
    description = "",
    category = "",
    tags = [],
    aliases = [],
    origin = "",
  } = tool;
  return matches([name, displayName, title, description, category, origin, ...tags, ...aliases].join(" "), q);
}

function fileFits({ file, failure }: FileReport, { q, show, tag }: TreeFilter): boolean {
  if (tag !== "" || show === "disabled" || show === "dangerous") return false;
  return q === "" || matches(`${file} ${failure?.reason ?? ""}`, q);
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
