import { constants, type Stats } from "node:fs";
import {
  access,
  type FileHandle,
  mkdir,
  open,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
} from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { copyModeAndOwner, reasonOf } from "../../helpers/index.ts";
import { CliError } from "../cli-error.ts";

/** Readable by its owner only, because the file may hold a token. */
const NEW_MODE = 0o600;

/** A configuration file of another program at the time of reading. */
export interface ClientFile {
  /** The path that the client uses; it may be a link. */
  readonly path: string;
  /** Undefined when there is no file. */
  readonly text: string | undefined;
  /** Whether others than its owner may read it. */
  readonly isShared: boolean;
}

/** Throws `CliError` when the file exists but cannot be read as text. */
export async function readClientFile(path: string): Promise<ClientFile> {
  const found = await read(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw new CliError(`${path} cannot be read: ${error.message}`, { code: "unreadable_file" });
  });
  if (found === undefined) return { path, text: undefined, isShared: false };
  const { bytes, mode } = found;
  const isShared = process.platform !== "win32" && (mode & 0o077) !== 0;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return { path, text, isShared };
  } catch {
    throw new CliError(`${path} is not encoded in UTF-8, so it was left as it is. Save it in UTF-8 first.`, {
      code: "invalid_file",
    });
  }
}

/**
 * Replaces the file's text. Readers see the old file or the new one, never a part; its mode stays, and a link stays a
 * link. A copy of an existing file is kept beside it, made once, unless the file holds a token. Returns the path of the
 * copy. Throws `CliError` and leaves the file unchanged when the file cannot be written, or was changed since it was
 * read. Only one run of this program writes at a time; a change that another program makes at the last moment is lost.
 */
export async function writeClientFile(file: ClientFile, text: string): Promise<string | undefined> {
  try {
    const target = await targetOf(file.path);
    await mkdir(dirname(target), { recursive: true });
    const before = await stat(target).catch(() => undefined);
    if (before !== undefined) await requireWritable(target, before);
    return await replace(file, target, text, before);
  } catch (thrown) {
    if (thrown instanceof CliError) throw thrown;
    const reason = reasonOf(thrown);
    throw new CliError(`${file.path} cannot be written: ${reason}`, { code: "unwritable_file" });
  }
}

async function read(path: string): Promise<{ bytes: Buffer; mode: number }> {
  const found = await stat(path);
  // Reading a pipe would never end, and a device would be replaced by a file.
  if (!found.isFile()) throw new Error("it is not a regular file.");
  return { bytes: await readFile(path), mode: found.mode };
}

/** The target of a link, also when it does not exist yet. */
async function targetOf(path: string): Promise<string> {
  let target = path;
  // Operating systems usually follow this many links at most.
  for (let links = 0; links < 40; links++) {
    const real = await realpath(target).catch(() => undefined);
    if (real !== undefined) return real;
    const next = await readlink(target).catch(() => undefined);
    if (next === undefined) return target;
    // A relative target begins at the real folder of the link.
    target = resolve(await realpath(dirname(target)), next);
  }
  return target;
}

/** Refuses a read-only file, which a rename would replace although its owner did not want that. */
async function requireWritable(target: string, { mode }: Stats): Promise<void> {
  if ((mode & 0o222) === 0) throw new Error("it is read-only. Make it writable first.");
  await access(target, constants.W_OK);
}

async function replace(
  file: ClientFile,
  target: string,
  text: string,
  before: Stats | undefined,
): Promise<string | undefined> {
  const draft = `${target}.toolrack-new`;
  const handle = await takeDraft(file.path, draft);
  try {
    try {
      await handle.writeFile(text);
      if (before !== undefined) await copyModeAndOwner(handle, before);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await requireUnchanged(file);
    const backup = before && (await backUp(file, before));
    // Checks again just before the rename, in case the client has written the file meanwhile.
    await requireUnchanged(file);
    await rename(draft, target);
    return backup;
  } catch (thrown) {
    await rm(draft, { force: true });
    throw thrown;
  }
}

/** The draft is also a lock: the run that creates it may write, and every other run finds it and leaves the file alone. */
async function takeDraft(path: string, draft: string): Promise<FileHandle> {
  return open(draft, "wx", NEW_MODE).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    throw new CliError(
      `Another run of Toolrack is changing ${path}, so it was left as it is. Run the command again; if no other runs, delete ${draft} first: one that was ended midway left it behind.`,
      { code: "file_changed", details: { file: path, draft } },
    );
  });
}

async function requireUnchanged(file: ClientFile): Promise<void> {
  if ((await readClientFile(file.path)).text === file.text) return;
  throw new CliError(`${file.path} was changed meanwhile, so it was left as it is. Run the command again.`, {
    code: "file_changed",
    details: { file: file.path },
  });
}

/**
 * Copies the old file, unless its text holds a token, which would stay readable in the copy after it was
 * removed from the file.
 */
async function backUp({ path, text = "" }: ClientFile, before: Stats): Promise<string | undefined> {
  if (/trk_[\w-]{43}/.test(text)) return undefined;
  const backup = `${path}.toolrack-backup`;
  const handle = await open(backup, "wx", NEW_MODE).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  if (handle === undefined) return backup;
  try {
    await handle.writeFile(text);
    await copyModeAndOwner(handle, before);
  } finally {
    await handle.close();
  }
  return backup;
}
