import type { Stats } from "node:fs";
import { type FileHandle, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { checkSameFile } from "./same-file.ts";
import { withTemporary } from "./temporary.ts";

export interface ReplaceOptions {
  /** For people. */
  readonly shown: string;
  /** Whose mode and owner the new file takes over. */
  readonly like: Stats | undefined;
  readonly signal: AbortSignal;
}

/**
 * Puts `content` at `target`, which must be confined: a reader sees the old file or the new one, never a part,
 * also after a power cut. When it fails, the old file is untouched and nothing else is left.
 */
export function replaceFile(target: string, content: Uint8Array, options: ReplaceOptions): Promise<void> {
  return withTemporary(target, async (temporary) => {
    const handle = await open(temporary, "wx", options.like === undefined ? 0o666 : 0o600);
    try {
      await checkSameFile(handle, temporary, options.shown);
      await handle.writeFile(content, { signal: options.signal });
      if (options.like !== undefined) await takeOver(handle, options.like);
      await handle.sync();
    } finally {
      await handle.close();
    }
    options.signal.throwIfAborted();
    await rename(temporary, target);
    await syncFolder(dirname(target));
  });
}

/** Gives the file the mode, and where the system allows it the owner, of another. */
export async function takeOver(handle: FileHandle, like: Stats): Promise<void> {
  const { uid, gid } = await handle.stat();
  // Only the administrator may give files away; everyone else keeps what they write.
  if (uid !== like.uid || gid !== like.gid) await handle.chown(like.uid, like.gid).catch(() => {});
  await handle.chmod(like.mode & 0o7777);
}

/** Makes the rename itself durable. Some systems cannot sync a folder; the file's content is safe anyway. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r").catch(() => undefined);
  if (handle === undefined) return;
  await handle.sync().catch(() => {});
  await handle.close();
}
