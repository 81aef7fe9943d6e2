import type { TreeRow } from "./tool-tree.ts";

/** The names of the tools that a row stands for: its own, or those of its group or source. `all` has nothing folded. */
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

/** The names of the tools from one row to another, both counted, whichever comes first. */
export function toolsBetween(rows: readonly TreeRow[], from: number, to: number): string[] {
  const [first, last] = from < to ? [from, to] : [to, from];
  return rows.slice(first, last + 1).flatMap((row) => (row.kind === "tool" ? [row.tool.name] : []));
}

/** Marks all of the names, or takes the marks away when all of them had one. */
export function toggled(marks: ReadonlySet<string>, names: readonly string[]): Set<string> {
  const next = new Set(marks);
  const areAll = names.every((name) => marks.has(name));
  for (const name of names) {
    if (areAll) next.delete(name);
    else next.add(name);
  }
  return next;
}
