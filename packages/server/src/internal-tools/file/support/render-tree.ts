import type { EntryKind } from "./entry-at.ts";
import { compareEntries } from "./walk.ts";

export interface TreeEntry {
  readonly name: string;
  /** From the top of the tree, with forward slashes. */
  readonly relative: string;
  readonly type: EntryKind;
}

/**
 * Entries as an indented tree, two spaces a level: what a model reads with the fewest tokens. `note` is what to
 * say behind a name.
 */
export function renderTree<Entry extends TreeEntry>(
  entries: readonly Entry[],
  note: (entry: Entry) => string,
): string {
  const lines: string[] = [];
  const children = groupByFolder(entries);
  const add = (folder: string, indent: string): void => {
    for (const entry of (children.get(folder) ?? []).sort(compareEntries)) {
      lines.push(`${indent}${entry.name}${entry.type === "directory" ? "/" : ""}${note(entry)}`);
      if (entry.type === "directory") add(entry.relative, `${indent}  `);
    }
  };
  add("", "");
  return lines.join("\n");
}

function groupByFolder<Entry extends TreeEntry>(entries: readonly Entry[]): Map<string, Entry[]> {
  const children = new Map<string, Entry[]>();
  for (const entry of entries) {
    const folder = entry.relative.slice(0, Math.max(0, entry.relative.length - entry.name.length - 1));
    const siblings = children.get(folder);
    if (siblings === undefined) children.set(folder, [entry]);
    else siblings.push(entry);
  }
  return children;
}
