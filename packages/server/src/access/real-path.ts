import { readlink, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, parse, relative, resolve, sep } from "node:path";

/** As many links in a row as Linux follows. */
const MOST_LINKS = 40;

/** Whether `path` is `directory` or lies in it. Both must be absolute, with their links resolved. */
export function isInside(directory: string, path: string): boolean {
  const way = relative(directory, path);
  // A name may begin with two dots: only the segment ".." itself leads out.
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/**
 * Folds a path for comparison with protected paths. Some file systems ignore case, Unicode composition or invisible
 * characters in names; Windows ignores dots and blanks at the end of a name.
 */
export function foldPath(path: string): string {
  const folded = path
    .normalize("NFKC")
    .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
    .toLowerCase();
  return folded
    .split(sep)
    .map((name) => (/^\.+$/.test(name) ? name : name.replace(/[. ]+$/, "")))
    .join(sep);
}

/**
 * Like `realpath`, for paths whose end does not exist yet. A link to a missing file is followed too; otherwise a new
 * file could be written through it to anywhere.
 */
export async function realPathOf(path: string, links = 0): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // The file system throws such errors.
    if (code !== "ENOENT" && code !== "ENOTDIR") throw error;
  }
  const parent = await realPathOf(dirname(path), links);
  const here = join(parent, basename(path));
  const target = await readlink(here).catch(() => undefined);
  if (target === undefined) return here;
  if (links >= MOST_LINKS) throw Object.assign(new Error("too many links in a row"), { code: "ELOOP" });
  return realPathOf(resolve(parent, target), links + 1);
}

/**
 * Returns every link that is followed from a path, and the place where the path ends. Replacing one of these,
 * or a folder above it, changes what the path leads to. In a circle of links, `MOST_LINKS` links are
 * followed.
 */
export async function waysTo(path: string): Promise<string[]> {
  const ways: string[] = [];
  let at = parse(path).root;
  let rest = namesOf(path);
  for (let links = 0; rest.length > 0; ) {
    const [name = "", ...others] = rest;
    const here = join(at, name);
    const target = links < MOST_LINKS ? await readlink(here).catch(() => undefined) : undefined;
    rest = others;
    if (target === undefined) at = here;
    else {
      links++;
      ways.push(here);
      const followed = resolve(at, target);
      at = parse(followed).root;
      rest = [...namesOf(followed), ...others];
    }
  }
  return [...ways, at];
}

function namesOf(path: string): string[] {
  return relative(parse(path).root, path)
    .split(sep)
    .filter((name) => name !== "");
}
