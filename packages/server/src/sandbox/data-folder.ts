import {
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { lstat, opendir, readdir, realpath, stat } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import type { FolderGrant } from "../config/index.ts";
import { LoadError, makeOwnFolder } from "../helpers/index.ts";
import { isConfinedUser, nextUserId } from "./confinement/confinement.ts";
import { type DataFolder, type OpenedFolders, type OpenFolder, SandboxError } from "./sandbox-types.ts";

/** What a data folder holds. */
export interface DataFolderReport {
  readonly name: string;
  readonly files: number;
  readonly bytes: number;
}

/**
 * The names of data folders: of a single-file tool its name; of a skill `skill.` with the name of its folder. Names of
 * tools have no dots, so that the two never meet.
 */
const folderName = /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}$/;

/**
 * The data folders of a workspace, `.toolrack/data/{name}`. Each belongs to one sandboxed tool or skill, which sees it
 * as its home; what is written there stays until somebody clears it.
 */
export class DataFolders {
  readonly #directory: string;

  /** `directory`: the absolute path of `.toolrack/data`. */
  constructor(directory: string) {
    this.#directory = directory;
  }

  pathOf(name: string): string {
    if (folderName.test(name)) return join(this.#directory, name);
    throw new RangeError(`"${name}" cannot be the name of a data folder.`);
  }

  /** Makes the folder if it is missing. */
  open(name: string): DataFolder {
    const path = this.pathOf(name);
    makeOwnFolder(this.#directory);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const owner = statSync(path).uid;
    // Every process of the tool must be able to write what an earlier one wrote, so that they share one user.
    if (isConfinedUser(owner)) return { name, path, uid: owner };
    const uid = nextUserId();
    if (uid === undefined) return { name, path };
    giveTo(uid, path);
    return { name, path, uid };
  }

  /** The folders with files in them, by name. */
  async list(): Promise<DataFolderReport[]> {
    const names = (await readdir(this.#directory).catch(() => [])).filter((name) => folderName.test(name));
    const reports = await Promise.all(names.sort().map((name) => this.report(name)));
    return reports.filter(({ files }) => files > 0);
  }

  async report(name: string): Promise<DataFolderReport> {
    const waiting = [this.pathOf(name)];
    let files = 0;
    let bytes = 0;
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      try {
        for await (const entry of await opendir(path)) {
          const inner = join(path, entry.name);
          if (entry.isDirectory()) waiting.push(inner);
          // A link leads to something that is counted elsewhere, such as an opened folder of the workspace.
          else if (!entry.isSymbolicLink()) {
            files++;
            bytes += (await lstat(inner)).size;
          }
        }
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException; // The file system throws errors with a code.
        // The tool may remove files meanwhile. What it made unreadable, as by a path too long, must not hide the rest.
        if (code !== "ENOENT") files++;
      }
    }
    return { name, files, bytes };
  }

  /**
   * Deletes everything in the folder, and returns what it held. The folder itself stays, because processes may have it
   * open, and so do links in it, which lead to opened folders of the workspace.
   */
  async clear(name: string): Promise<DataFolderReport> {
    const report = await this.report(name);
    const path = this.pathOf(name);
    // Unlike `rm`, `rmSync` follows no link that a running tool puts in its way, and knows no path that is too long.
    for (const entry of await readdir(path, { withFileTypes: true }).catch(() => []))
      if (!entry.isSymbolicLink()) rmSync(join(path, entry.name), { recursive: true, force: true });
    return report;
  }
}

/** Makes a user the owner of a folder with all that is in it. Links are changed, not what they lead to. */
function giveTo(uid: number, path: string): void {
  lchownSync(path, uid, uid);
  if (!lstatSync(path).isDirectory()) return;
  for (const name of readdirSync(path)) giveTo(uid, join(path, name));
}

/**
 * Reads `sandbox.grants.X.folders`. `isPowerful` tells which folders give power over the workspace, such as those of
 * tools: a sandboxed tool may read them, and never write there. Throws `LoadError`.
 */
export async function openFolders(
  grants: readonly FolderGrant[],
  workspace: string,
  isPowerful: (path: string) => boolean,
): Promise<OpenFolder[]> {
  return Promise.all(
    grants.map(async (grant) => {
      const { path: written, write: isWritable = false } =
        typeof grant === "string" ? { path: grant } : grant;
      const fail = (reason: string, remedy: string) =>
        new LoadError(`The config opens the folder "${written}" for it, ${reason}`, remedy, { retry: true });
      const root = await realpath(workspace);
      const path = await realpath(resolve(workspace, written)).catch(() => undefined);
      if (path === undefined || !(await stat(path)).isDirectory())
        throw fail("which is not there.", `Make the folder: mkdir -p ${written}`);
      const place = relative(root, path);
      if (place === "" || place === ".." || place.startsWith(`..${sep}`))
        throw fail("which is no folder in the workspace.", "Name a folder below the workspace.");
      if (place.split(sep)[0] === ".toolrack")
        throw fail("which belongs to the server itself.", "Open another folder.");
      if (isWritable && isPowerful(path))
        throw fail("which decides what runs in the workspace.", "Open another folder, or open it read-only.");
      return { path, place, isWritable };
    }),
  );
}

/**
 * Prepares the folders of a process at level 3. Opened folders directly below the workspace appear in the data folder,
 * which is the working directory: so that `reports/a.csv` is the same file for the tool as for everybody else. Links of
 * folders that are no longer open are removed.
 */
export function linkFolders({ data, folders = [] }: OpenedFolders): void {
  refuseMoved(folders);
  if (data === undefined) return;
  const workspace = realpathSync(join(data.path, "../../.."));
  const wanted = new Map(
    folders.filter(({ place }) => !place.includes(sep)).map(({ place, path }) => [place, path]),
  );
  for (const entry of readdirSync(data.path, { withFileTypes: true })) {
    const link = entry.isSymbolicLink() ? join(data.path, entry.name) : undefined;
    const target = link && readlinkSync(link);
    if (target !== undefined && wanted.get(entry.name) === target) wanted.delete(entry.name);
    else if (link !== undefined && target?.startsWith(workspace + sep)) unlinkSync(link);
    // What the tool itself has put there stays: it then reaches the folder by its whole path.
    else wanted.delete(entry.name);
  }
  for (const [place, path] of wanted) symlinkSync(path, join(data.path, place));
}

/**
 * Prepares the folders of a process at level 2, where Node's permissions alone confine it, and they follow links. Those
 * in the data folder are removed: a program made them at level 3, where they lead nowhere. Those in an opened folder are
 * the workspace's own, so that the folder is refused when one leads out of it.
 */
export function closeLinks({ data, folders = [] }: OpenedFolders): void {
  refuseMoved(folders);
  if (data !== undefined) for (const link of linksIn(data.path)) unlinkSync(link);
  for (const { path, place } of folders) {
    const out = linksIn(path).find((link) => !isWithin(path, link));
    if (out === undefined) continue;
    const link = join(place, relative(path, out));
    throw new SandboxError(
      "sandbox_refused",
      `The link ${link} leads out of the folder that the config opens. At the reduced isolation of this server a tool could follow it. Remove the link, or install bubblewrap.`,
    );
  }
}

/** Who may write above an opened folder, such as another tool, could have put a link in its place. */
function refuseMoved(folders: readonly OpenFolder[]): void {
  for (const { path, place } of folders) {
    if (realPath(path) === path) continue;
    throw new SandboxError(
      "sandbox_refused",
      `${place} is no longer the folder that was opened: it is gone, or a link has taken its place.`,
    );
  }
}

/** Node's own recursive reading would follow the links. */
function linksIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isSymbolicLink()) return [path];
    return entry.isDirectory() ? linksIn(path) : [];
  });
}

/** A link that leads nowhere counts as one that leads out: what it names may come to be there. */
function isWithin(folder: string, link: string): boolean {
  return realPath(link)?.startsWith(folder + sep) === true;
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
