import type { Dirent } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { setImmediate } from "node:timers/promises";
import { loadLinearPatterns, type Pattern } from "@toolrack/core/internal";
import { isInside, privatePaths, realRoots } from "../../../access/index.ts";
import { globPattern } from "../../../helpers/index.ts";
import { type Confinement, entryAt, foldersUpTo } from "../../paths.ts";
import { carefulRead, type EntryKind, kindOf } from "./copy-and-remove.ts";

/** How many entries are matched against the rules before other work gets a turn. */
const ENTRIES_PER_TURN = 200;

export interface WalkEntry {
  /** Absolute. */
  readonly path: string;
  /** Relative to the start, with forward slashes. */
  readonly relative: string;
  readonly name: string;
  readonly type: EntryKind;
}

interface WalkOptions {
  /** Levels below the start; 1 is the folder's own entries. Default: all. */
  readonly depth?: number | undefined;
  /** More patterns to leave out, in the syntax of `.gitignore`; `"nothing"` shows everything. */
  readonly ignore?: readonly string[] | "nothing";
  readonly signal: AbortSignal;
  /** Called for a folder that could not be read; the walk continues. */
  readonly onUnreadable?: (relative: string, reason: string) => void;
}

/**
 * The entries below a folder, level by level, so that a caller that stops early has seen the upper levels of
 * all folders. In each folder, subfolders come first, then the rest, both by name; the order is the same on
 * every machine. Links are not followed. Paths that are hidden from the caller are left out.
 */
export async function* walk(
  workspace: Confinement,
  start: string,
  { depth: deepest = Number.POSITIVE_INFINITY, ignore = [], signal, onUnreadable }: WalkOptions,
): AsyncGenerator<WalkEntry> {
  const isPrivate = await privatePaths(workspace);
  const rules = ignore === "nothing" ? [] : await rulesFor(workspace, start, ignore);
  let level = [{ path: start, relative: "", rules }];
  for (let depth = 1; depth <= deepest && level.length > 0; depth += 1) {
    const next: typeof level = [];
    for (const folder of level) {
      signal.throwIfAborted();
      const found = await readdir(folder.path, { withFileTypes: true }).catch(
        (error: NodeJS.ErrnoException): Dirent[] => {
          onUnreadable?.(folder.relative, error.code ?? error.message);
          return [];
        },
      );
      const entries: WalkEntry[] = [];
      for (const [index, dirent] of found.entries()) {
        // Many entries times many rules would block the process.
        if (index % ENTRIES_PER_TURN === ENTRIES_PER_TURN - 1) await setImmediate();
        const { name } = dirent;
        const path = join(folder.path, name);
        if (isPrivate(path)) continue;
        const type = await typeOf(dirent, path);
        if (type === undefined || ignores(folder.rules, path, type === "directory")) continue;
        entries.push({
          path,
          relative: folder.relative === "" ? name : `${folder.relative}/${name}`,
          name,
          type,
        });
      }
      for (const entry of entries.sort(compareEntries)) {
        yield entry;
        if (entry.type !== "directory" || depth === deepest) continue;
        const { path, relative } = entry;
        next.push({
          path,
          relative,
          rules: ignore === "nothing" ? [] : await withOwnRules(folder.rules, path),
        });
      }
    }
    level = next;
  }
}

/** Folders first, then by name in code units: no locale may change the order. */
function compareEntries(a: Pick<WalkEntry, "name" | "type">, b: Pick<WalkEntry, "name" | "type">): number {
  if ((a.type === "directory") !== (b.type === "directory")) return a.type === "directory" ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}

/** Some file systems do not report the type with the name. */
async function typeOf(dirent: Dirent, path: string): Promise<EntryKind | undefined> {
  const type = kindOf(dirent);
  if (type !== "other") return type;
  const stats = await entryAt(path);
  return stats === undefined ? undefined : kindOf(stats);
}

interface Rule {
  readonly pattern: Pattern;
  /** The line began with `!`: matching entries are shown after all. */
  readonly isException: boolean;
  /** The line ended with a slash: the rule matches only folders. */
  readonly isForFolders: boolean;
}

/** The `.gitignore` rules of a folder and all folders up to the root, outermost first. */
type RuleSets = readonly { readonly base: string; readonly rules: readonly Rule[] }[];

/** At most this many rules of a file are used, because every entry is matched against every rule. */
const MOST_RULES = 1_000;
/** Rules that apply before those of the `.gitignore` files. */
const defaultRules = toRules([".git", "node_modules", ".toolrack"]);

/**
 * The rules for the folder in which a walk starts, followed by the caller's patterns. When the rules would
 * leave out that folder, they do not apply, because the caller asked for it by name.
 */
async function rulesFor(
  workspace: Confinement,
  folder: string,
  patterns: readonly string[],
): Promise<RuleSets> {
  await loadLinearPatterns();
  const root = (await realRoots(workspace)).find((candidate) => isInside(candidate, folder)) ?? folder;
  let sets: RuleSets = [{ base: root, rules: defaultRules }];
  for (const above of foldersUpTo(folder, root).reverse()) {
    const isLeftOut = above !== root && ignores(sets, above, true);
    sets = await withOwnRules(
      isLeftOut ? [{ base: folder, rules: defaultRules }] : sets,
      isLeftOut ? folder : above,
    );
    if (isLeftOut) break;
  }
  return patterns.length === 0 ? sets : [...sets, { base: folder, rules: toRules(patterns) }];
}

/** Adds the rules of the folder's own `.gitignore`, if it has one. */
async function withOwnRules(sets: RuleSets, folder: string): Promise<RuleSets> {
  // Like git, does not read a .gitignore that is a link.
  const options = { encoding: "utf8", flag: carefulRead } as const;
  const own = await readFile(join(folder, ".gitignore"), options).catch(() => undefined);
  return own === undefined ? sets : [...sets, { base: folder, rules: toRules(own.split("\n")) }];
}

/** Whether the path is left out. As in git, the last matching rule of the nearest `.gitignore` decides. */
function ignores(sets: RuleSets, path: string, isFolder: boolean): boolean {
  for (const { base, rules } of sets.toReversed()) {
    const inner = relative(base, path).split(sep).join("/");
    const last = rules.findLast((rule) => (isFolder || !rule.isForFolders) && rule.pattern.test(inner));
    if (last !== undefined) return !last.isException;
  }
  return false;
}

/** Like git, skips lines that cannot be parsed. */
function toRules(lines: readonly string[]): Rule[] {
  return lines.slice(0, MOST_RULES).flatMap((line) => toRule(line) ?? []);
}

function toRule(line: string): Rule | undefined {
  let end = line.length;
  // A blank at the end counts only after a backslash.
  while (end > 0 && /[ \t\r]/.test(line[end - 1]!) && (line[end - 1] === "\r" || line[end - 2] !== "\\"))
    end--;
  const text = line.slice(0, end);
  if (text === "" || text.startsWith("#")) return undefined;
  const isException = text.startsWith("!");
  const rest = isException ? text.slice(1) : text;
  const isForFolders = rest.endsWith("/");
  const glob = isForFolders ? rest.slice(0, -1) : rest;
  // A pattern with a slash is relative to the folder of the rules; without one it matches at any depth.
  const before = glob.includes("/") ? "" : "(?:.*/)?";
  try {
    const pattern = globPattern(glob.replace(/^\//, ""), { braces: false, ignoreCase: true, before });
    return { pattern, isException, isForFolders };
  } catch {
    return undefined;
  }
}

type TreeEntry = Pick<WalkEntry, "name" | "relative" | "type">;

/** Entries as an indented tree, which costs a model the fewest tokens. `note` is the text after a name. */
export function renderTree<Entry extends TreeEntry>(
  entries: readonly Entry[],
  note: (entry: Entry) => string,
): string {
  const folderOf = ({ relative, name }: Entry) => relative.slice(0, -name.length).replace(/\/$/, "");
  const children = Map.groupBy(entries, folderOf);
  const render = (folder: string, indent: string): string[] =>
    (children.get(folder) ?? []).sort(compareEntries).flatMap((entry) => {
      const isFolder = entry.type === "directory";
      const line = `${indent}${entry.name}${isFolder ? "/" : ""}${note(entry)}`;
      return isFolder ? [line, ...render(entry.relative, `${indent}  `)] : [line];
    });
  return render("", "").join("\n");
}
