import { stat } from "node:fs/promises";
import { Lookout } from "../async/lookout.ts";
import { watchFiles } from "./watch-files.ts";

/**
 * Calls `onChange` after a file changed, came or went: at once where the system tells of it, and otherwise within about
 * a second. The system tells nothing of a link that is turned to another file, of a file behind a link that was away, and
 * of files on some network drives.
 */
export function watchFile(path: string, onChange: () => Promise<unknown>): { close(): Promise<void> } {
  let seen: string | undefined;
  const watcher = watchFiles([path], async () => {
    // Before it is read, so that a change in between is seen.
    seen = await fingerprintOf(path);
    await onChange();
  });
  const look = async () => {
    const now = await fingerprintOf(path);
    const isChanged = seen !== undefined && now !== seen;
    seen = now;
    if (isChanged) await onChange();
  };
  // Who is told of a change tells of its own failures.
  const lookout = new Lookout({ look, failed: () => {} });
  lookout.start();
  void lookout.look();
  return {
    async close() {
      await Promise.all([lookout.stop(), watcher.close()]);
    },
  };
}

/** Of the file that a link leads to. */
async function fingerprintOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(" ");
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code ?? "unreadable";
  }
}
