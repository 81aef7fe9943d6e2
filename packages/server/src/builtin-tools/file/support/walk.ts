import { constants, type Dirent } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { setImmediate } from "node:timers/promises";
import { loadLinearPatterns, type Pattern } from "@toolrack/core";
import { isInside } from "../../../access/index.ts";
import { globPattern } from "../../../helpers/index.ts";
import { type EntryKind, entryAt, kindOf } from "./entries.ts";

/** Entries that are held against the rules before others have their turn. */
const TOGETHER = 200;

export interface WalkEntry {
  /** Absolute. */
  readonly path: string;
  /** From the folder where the walk began, with forward slashes. */
  readonly relative: string;
  readonly name: string;
  readonly type: EntryKind;
}

interface WalkOptions {
  /** Levels below the start; 1 is the folder's own entries. */
  readonly depth: number;
  /** What to leave out; `undefined` shows everything. */
  readonly rules: IgnoreRules | undefined;
  /** What the caller is not to know of, whatever else is shown. */
  readonly isPrivate: (path: string) => boolean;
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
function compareEntries(a: Pick<WalkEntry, "name" | "type">, b: Pick<WalkEntry, "name" | "type">): number {
  if ((a.type === "directory") !== (b.type === "directory")) return a.type === "directory" ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}

async function entriesOf(folder: Folder, options: WalkOptions): Promise<WalkEntry[]> {
  const entries: WalkEntry[] = [];
  for (const [index, dirent] of (await readFolder(folder, options)).entries()) {
    // Many entries times many rules would keep everybody else waiting.
    if (index % TOGETHER === TOGETHER - 1) await setImmediate();
    const { name } = dirent;
    const path = join(folder.path, name);
    if (options.isPrivate(path)) continue;
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

/** Every entry is held against every rule, so a file with more than anybody writes by hand is read so far. */
const MOST_RULES = 1_000;
/** Never worth showing unless someone asks for it by name. */
const always = toRules([".git", "node_modules", ".toolrack"]);

// A .gitignore that is a link is not read, as git itself does not.
const flag = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * What `.gitignore` files leave out: those of a folder and of every folder above it, up to the root. The rules
 * nearest to an entry decide, as in git.
 */
export class IgnoreRules {
  readonly #base: string;
  readonly #rules: readonly Rule[];
  readonly #outer: IgnoreRules | undefined;

  private constructor(base: string, rules: readonly Rule[], outer: IgnoreRules | undefined) {
    this.#base = base;
    this.#rules = rules;
    this.#outer = outer;
  }

  /** The rules that hold in `folder`, which lies in `root`; a folder that they leave out itself was asked for by name. */
  static async forFolder(root: string, folder: string): Promise<IgnoreRules> {
    await loadLinearPatterns();
    const start = new IgnoreRules(folder, always, undefined);
    let rules: IgnoreRules | undefined;
    for (const above of foldersBetween(root, folder)) {
      if (rules?.ignores(above, true)) return start.enter(folder);
      rules = await (rules ?? new IgnoreRules(root, always, undefined)).enter(above);
    }
    return rules ?? start;
  }

  /** The rules inside a folder that these rules let pass. */
  async enter(folder: string): Promise<IgnoreRules> {
    const own = await readFile(join(folder, ".gitignore"), { encoding: "utf8", flag }).catch(() => undefined);
    return own === undefined ? this : new IgnoreRules(folder, toRules(own.split("\n")), this);
  }

  /** These rules, and before them patterns in the same language that hold from `folder` on. */
  with(folder: string, patterns: readonly string[]): IgnoreRules {
    return patterns.length === 0 ? this : new IgnoreRules(folder, toRules(patterns), this);
  }

  ignores(path: string, isFolder: boolean): boolean {
    if (!isInside(this.#base, path) || path === this.#base) return false;
    const inner = relative(this.#base, path).split(sep).join("/");
    const last = this.#rules.findLast((rule) => (isFolder || !rule.isForFolders) && rule.pattern.test(inner));
    if (last !== undefined) return !last.isException;
    return this.#outer?.ignores(path, isFolder) ?? false;
  }
}

interface Rule {
  readonly pattern: Pattern;
  /** It began with `!`: what fits is shown after all. */
  readonly isException: boolean;
  /** It ended with a slash. */
  readonly isForFolders: boolean;
}

/** The last rule that fits decides. A line that cannot be read is passed over, as git does. */
function toRules(lines: readonly string[]): Rule[] {
  return lines.slice(0, MOST_RULES).flatMap((line) => {
    const rule = toRule(line);
    return rule === undefined ? [] : [rule];
  });
}

function toRule(line: string): Rule | undefined {
  const text = withoutBlanksAtEnd(line);
  if (text === "" || text.startsWith("#")) return undefined;
  const isException = text.startsWith("!");
  const wish = isException ? text.slice(1) : text;
  const isForFolders = wish.endsWith("/");
  const glob = isForFolders ? wish.slice(0, -1) : wish;
  // A slash ties it to the folder of the rules; without one it holds at any depth.
  const before = glob.includes("/") ? "" : "(?:.*/)?";
  try {
    const pattern = globPattern(glob.replace(/^\//, ""), { braces: false, ignoreCase: true, before });
    return { pattern, isException, isForFolders };
  } catch {
    return undefined;
  }
}

/** A blank behind a backslash is one that is meant. */
function withoutBlanksAtEnd(line: string): string {
  let end = line.length;
  while (end > 0 && (line[end - 1] === "\r" || (" \t".includes(line[end - 1]!) && line[end - 2] !== "\\")))
    end--;
  return line.slice(0, end);
}

/** From the root down to the folder itself. */
function foldersBetween(root: string, folder: string): string[] {
  const folders = [folder];
  for (let at = folder; at !== root && at !== dirname(at); ) {
    at = dirname(at);
    folders.unshift(at);
  }
  return folders;
}

interface TreeEntry {
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
