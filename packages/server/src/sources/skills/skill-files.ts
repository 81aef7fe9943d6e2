import { createHash, randomUUID } from "node:crypto";
import { access, lstat, mkdir, readdir, rename, rm, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { SkillFile } from "../../store/skills/skill-store.ts";
import { readRegularFile } from "./read-regular-file.ts";

const MOST_FILES = 1_000;
const MOST_BYTES = 20 * 1024 * 1024;
const skipped = new Set(["node_modules", ".git", "__pycache__", ".DS_Store"]);

/** For people, of a folder with more than that. */
export const tooManyFiles = `It has more than ${MOST_FILES.toLocaleString("en-US")} files or 20 MiB, and can be neither shown, imported nor exported as a whole. Keep what is not needed elsewhere.`;

/** The files below a skill's folder, by their paths in order. Links are left out: they may lead anywhere. */
export async function readSkillFiles(folder: string): Promise<SkillFile[]> {
  const { files, isWhole } = await readFirstSkillFiles(folder);
  if (!isWhole) throw new Error(tooManyFiles);
  return files;
}

/** The same as far as a skill may reach. */
export async function readFirstSkillFiles(folder: string): Promise<{ files: SkillFile[]; isWhole: boolean }> {
  const listed = await listSkillFiles(folder);
  const files: SkillFile[] = [];
  for (const { path, executable } of listed.files) {
    files.push({ path, content: await readRegularFile(join(folder, path), MOST_BYTES), executable });
  }
  return { files, isWhole: listed.isWhole };
}

interface ListedFile {
  readonly path: string;
  readonly executable: boolean;
}

/** Without reading any. */
export async function listSkillFiles(folder: string): Promise<{ files: ListedFile[]; isWhole: boolean }> {
  const files: ListedFile[] = [];
  let size = 0;
  /** False when there is more than a skill may have. */
  const walk = async (path: string): Promise<boolean> => {
    const entries = await readdir(join(folder, path), { withFileTypes: true });
    for (const entry of entries.sort((one, other) => (one.name < other.name ? -1 : 1))) {
      if (skipped.has(entry.name)) continue;
      const own = path === "" ? entry.name : `${path}/${entry.name}`;
      if (entry.isDirectory() && !(await walk(own))) return false;
      if (!entry.isFile()) continue;
      const { mode, size: bytes } = await lstat(join(folder, own));
      size += bytes;
      if (size > MOST_BYTES || files.length === MOST_FILES) return false;
      files.push({ path: own, executable: (mode & 0o100) !== 0 });
    }
    return true;
  };
  return { isWhole: await walk(""), files };
}

/** Whether the path stays below the folder it is written to. */
export function isSafePath(path: string): boolean {
  const parts = path.split("/");
  return (
    path !== "" &&
    path.length <= 255 &&
    !/[\0\\:]/.test(path) &&
    parts.every((part) => part !== "" && part !== "." && part !== "..")
  );
}

/** Throws for a path that would leave the folder. */
export async function writeSkillFiles(folder: string, files: readonly SkillFile[]): Promise<void> {
  for (const { path, content, executable } of files) {
    if (!isSafePath(path)) throw new Error(`"${path}" cannot be the path of a file of a skill.`);
    const target = join(folder, path);
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, content, { mode: executable ? 0o755 : 0o644 });
  }
}

/**
 * A folder that holds exactly these files, made once for each content. Several processes may make it at once. Its name is
 * made of hashes alone: whoever wrote the skill chose the id, which must not become part of a path.
 */
export async function materialise(parent: string, id: string, files: readonly SkillFile[]): Promise<string> {
  const folder = join(parent, `${hashOf(id)}-${digestOf(files)}`);
  const isThere = await access(folder).then(
    () => true,
    () => false,
  );
  // Whoever cleans up takes it for as old as its last use.
  if (isThere) await utimes(folder, new Date(), new Date()).catch(() => {});
  if (isThere) return folder;
  const temporary = join(parent, `.${randomUUID()}`);
  await mkdir(temporary, { recursive: true, mode: 0o755 });
  try {
    await writeSkillFiles(temporary, files);
    await rename(temporary, folder);
  } catch (thrown) {
    await rm(temporary, { recursive: true, force: true });
    const { code } = thrown as NodeJS.ErrnoException;
    // Another process was faster, with the same files.
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw thrown;
  }
  return folder;
}

/** How long a folder that nothing refers to is kept: calls may still run in it. */
const KEPT = 24 * 60 * 60_000;

/** Deletes what `materialise` made of contents that are no longer used. Whatever cannot be deleted stays. */
export async function pruneMaterialised(parent: string, inUse: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(parent).catch(() => [])) {
    const folder = join(parent, name);
    const made = inUse.has(folder) ? undefined : await lstat(folder).catch(() => undefined);
    if (made === undefined || Date.now() - made.mtimeMs < KEPT) continue;
    await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

function digestOf(files: readonly SkillFile[]): string {
  const hash = createHash("sha256");
  for (const { path, content, executable } of files) {
    hash.update(`${path}\0${content.length}\0${executable}\0`).update(content);
  }
  return hash.digest("hex").slice(0, 16);
}
