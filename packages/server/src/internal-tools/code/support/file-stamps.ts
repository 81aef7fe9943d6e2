import { stat } from "node:fs/promises";
import { IgnoreRules } from "../../file/support/ignore-rules.ts";
import { walk } from "../../file/support/walk.ts";

/** Files by path, each with what changes when it is written. */
export type FileStamps = ReadonlyMap<string, string>;

/** The stamps of a file, or of every file under a folder that is not ignored. */
export async function fileStamps(
  path: string,
  root: string,
  isFolder: boolean,
  signal: AbortSignal,
): Promise<FileStamps> {
  const stamps = new Map<string, string>();
  const add = async (file: string) => {
    const stats = await stat(file, { bigint: true }).catch(() => undefined);
    if (stats !== undefined) stamps.set(file, `${stats.mtimeNs} ${stats.size} ${stats.ino}`);
  };
  if (!isFolder) {
    await add(path);
    return stamps;
  }
  const rules = await IgnoreRules.forFolder(root, path);
  const depth = Number.POSITIVE_INFINITY;
  for await (const entry of walk(path, { depth, rules, signal, onUnreadable: () => {} })) {
    if (entry.type === "file") await add(entry.path);
  }
  return stamps;
}

/** The files that were written between the two. */
export function changedFiles(before: FileStamps, after: FileStamps): string[] {
  return [...after].filter(([path, stamp]) => before.get(path) !== stamp).map(([path]) => path);
}
