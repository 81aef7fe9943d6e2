import { mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const form = /^toolrack-test-(\d+)-/;
let isClean = false;

/**
 * A new folder for a test, whose name says which process made it. The first one of a process also removes what
 * processes left that were killed before they could tidy up.
 */
export function temporaryFolder(): string {
  if (!isClean) removeLeftovers();
  isClean = true;
  return mkdtempSync(join(realpathSync(tmpdir()), `toolrack-test-${process.pid}-`));
}

function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = form.exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    try {
      rmSync(join(tmpdir(), name), { recursive: true, force: true });
    } catch {
      // Another process removes it too, or it is another user's.
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
