import { constants } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import ignore, { type Ignore } from "ignore";
import { isInside } from "../../confine.ts";

/** Never worth showing unless someone asks for it by name. */
const always = [".git", "node_modules", ".toolrack"];

// A .gitignore that is a link is not read, as git itself does not.
const flag = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * What `.gitignore` files leave out: those of a folder and of every folder above it, up to the root. The rules
 * nearest to an entry decide, as in git.
 */
export class IgnoreRules {
  readonly #base: string;
  readonly #matcher: Ignore;
  readonly #outer: IgnoreRules | undefined;

  private constructor(base: string, matcher: Ignore, outer: IgnoreRules | undefined) {
    this.#base = base;
    this.#matcher = matcher;
    this.#outer = outer;
  }

  /** The rules that hold in `folder`, which lies in `root`; a folder that they leave out itself was asked for by name. */
  static async forFolder(root: string, folder: string): Promise<IgnoreRules> {
    const start = new IgnoreRules(folder, ignore().add(always), undefined);
    let rules: IgnoreRules | undefined;
    for (const above of foldersBetween(root, folder)) {
      if (rules?.ignores(above, true)) return start.enter(folder);
      rules = await (rules ?? new IgnoreRules(root, ignore().add(always), undefined)).enter(above);
    }
    return rules ?? start;
  }

  /** The rules inside a folder that these rules let pass. */
  async enter(folder: string): Promise<IgnoreRules> {
    const own = await readFile(join(folder, ".gitignore"), { encoding: "utf8", flag }).catch(() => undefined);
    return own === undefined ? this : new IgnoreRules(folder, ignore().add(own), this);
  }

  /** These rules, and before them patterns in the same language that hold from `folder` on. */
  with(folder: string, patterns: readonly string[]): IgnoreRules {
    return patterns.length === 0 ? this : new IgnoreRules(folder, ignore().add(patterns), this);
  }

  ignores(path: string, isFolder: boolean): boolean {
    if (!isInside(this.#base, path) || path === this.#base) return false;
    const { ignored, unignored } = this.#matcher.test(gitPath(this.#base, path, isFolder));
    if (ignored || unignored) return ignored;
    return this.#outer?.ignores(path, isFolder) ?? false;
  }
}

function gitPath(base: string, path: string, isFolder: boolean): string {
  const inner = relative(base, path).split(sep).join("/");
  return isFolder ? `${inner}/` : inner;
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
