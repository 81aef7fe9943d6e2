import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, join, relative, sep } from "node:path";

export interface ScannedFile {
  /** Absolute. */
  readonly path: string;
  /** Changes whenever the content does. */
  readonly signature: string;
}

export interface UnreadableFile {
  readonly path: string;
  readonly reason: string;
}

export interface Scan {
  readonly files: ReadonlyMap<string, ScannedFile>;
  readonly unreadable: readonly UnreadableFile[];
}

const sources = /\.(?:ts|mts|cts|tsx|js|mjs|cjs|jsx)$/;
/** Types, tests, configs, and index files, which gather other files and are no tools themselves. */
const others =
  /^index\.[mc]?[jt]sx?$|\.d\.[mc]?ts$|\.(?:test|spec|test-d)\.[mc]?[jt]sx?$|\.config\.[mc]?[jt]s$/;

/**
 * Every source file below the folder, in an order that is the same on every machine. A folder that does not exist
 * is empty, and a source file in its place is the only one. What has the time and size that it had before is taken to be unchanged; everything else is read.
 */
export async function scanFiles(folder: string, before?: ReadonlyMap<string, ScannedFile>): Promise<Scan> {
  const found: string[] = [];
  const unreadable: UnreadableFile[] = [];
  await walk(folder, found, unreadable);
  found.sort((one, other) => compare(relative(folder, one), relative(folder, other)));
  const files = await signFiles(found, before);
  return { files, unreadable };
}

/** The same for files that are known by name. One that cannot be read has a signature too, and fails when loaded. */
export async function signFiles(
  paths: readonly string[],
  before?: ReadonlyMap<string, ScannedFile>,
): Promise<Map<string, ScannedFile>> {
  const signed = await Promise.all(paths.map((path) => sign(path, before?.get(path))));
  return new Map(signed.map((file) => [file.path, file]));
}

async function walk(folder: string, found: string[], unreadable: UnreadableFile[]): Promise<void> {
  let entries: import("node:fs").Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException;
    if (code === "ENOTDIR" && isSource(basename(folder)) && (await isFile(folder))) found.push(folder);
    else if (code !== "ENOENT" && code !== "ENOTDIR") unreadable.push({ path: folder, reason: message });
    return;
  }
  await Promise.all(
    entries.map(async (entry) => {
      if (entry.name.startsWith(".") || entry.name === "node_modules") return;
      const path = join(folder, entry.name);
      if (entry.isDirectory()) await walk(path, found, unreadable);
      else if (isSource(entry.name) && (entry.isFile() || (await isFile(path)))) found.push(path);
    }),
  );
}

function isSource(name: string): boolean {
  return sources.test(name) && !others.test(name);
}

/** A link counts as what it points to. */
async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}

async function sign(path: string, before: ScannedFile | undefined): Promise<ScannedFile> {
  try {
    const { mtimeMs, size, ino } = await stat(path);
    const stamp = `${mtimeMs}:${size}:${ino}`;
    if (before?.signature.startsWith(`${stamp} `)) return before;
    const digest = createHash("sha256")
      .update(await readFile(path))
      .digest("base64");
    // Written again with the same content: a new stamp, but no change.
    return { path, signature: `${stamp} ${digest}` };
  } catch (thrown) {
    return { path, signature: `? ${(thrown as NodeJS.ErrnoException).code ?? "unreadable"}` };
  }
}

/** Whether two scans saw the same content. */
export function sameContent(one: ScannedFile, other: ScannedFile): boolean {
  return one.signature.split(" ")[1] === other.signature.split(" ")[1];
}

/** Folders by name, then files by name: the same everywhere, whatever the file system's own order. */
function compare(one: string, other: string): number {
  const left = one.split(sep).join("/");
  const right = other.split(sep).join("/");
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
