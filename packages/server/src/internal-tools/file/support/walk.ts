import type { Dirent } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { type EntryKind, entryAt, kindOf } from "./entry-at.ts";
import type { IgnoreRules } from "./ignore-rules.ts";

export interface WalkEntry {
  /** Absolute. */
  readonly path: string;
  /** From the folder where the walk began, with forward slashes. */
  readonly relative: string;
  readonly name: string;
  readonly type: EntryKind;
}

export interface WalkOptions {
  /** Levels below the start; 1 is the folder's own entries. */
  readonly depth: number;
  /** What to leave out; `undefined` shows everything. */
  readonly rules: IgnoreRules | undefined;
  readonly signal: AbortSignal;
  /** A folder that could not be read; the walk goes on. */
  readonly onUnreadable: (relative: string, reason: string) => void;
}

interface Folder {
  readonly path: string;
  readonly relative: string;
  readonly rules: IgnoreRules | undefined;
}

/**
 * The entries under a folder, level by level, so that whoever stops early has seen the top of everything. In a
 * folder, folders come first, each kind by name; the same tree gives the same order everywhere. Links are
 * entries, never followed.
 */
export async function* walk(start: string, options: WalkOptions): AsyncGenerator<WalkEntry> {
  let level: Folder[] = [{ path: start, relative: "", rules: options.rules }];
  for (let depth = 1; depth <= options.depth && level.length > 0; depth += 1) {
    const next: Folder[] = [];
    for (const folder of level) {
      options.signal.throwIfAborted();
      for (const entry of await entriesOf(folder, options)) {
        yield entry;
        if (entry.type !== "directory" || depth === options.depth) continue;
        next.push({
          path: entry.path,
          relative: entry.relative,
          rules: await folder.rules?.enter(entry.path),
        });
      }
    }
    level = next;
  }
}

/** Folders first, then by name, by code units: no locale may change the order. */
export function compareEntries(
  a: Pick<WalkEntry, "name" | "type">,
  b: Pick<WalkEntry, "name" | "type">,
): number {
  if ((a.type === "directory") !== (b.type === "directory")) return a.type === "directory" ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}

async function entriesOf(folder: Folder, options: WalkOptions): Promise<WalkEntry[]> {
  const entries: WalkEntry[] = [];
  for (const dirent of await readFolder(folder, options)) {
    const { name } = dirent;
    const path = join(folder.path, name);
    const type = await typeOf(dirent, path);
    if (type === undefined || folder.rules?.ignores(path, type === "directory")) continue;
    entries.push({
      path,
      relative: folder.relative === "" ? name : `${folder.relative}/${name}`,
      name,
      type,
    });
  }
  return entries.sort(compareEntries);
}

async function readFolder(folder: Folder, options: WalkOptions): Promise<Dirent[]> {
  return readdir(folder.path, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    options.onUnreadable(folder.relative, error.code ?? error.message);
    return [];
  });
}

/** Some file systems do not tell the type with the name. */
async function typeOf(dirent: Dirent, path: string): Promise<EntryKind | undefined> {
  const type = kindOf(dirent);
  if (type !== "other") return type;
  const stats = await entryAt(path);
  return stats === undefined ? undefined : kindOf(stats);
}
