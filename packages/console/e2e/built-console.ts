import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

const root = join(import.meta.dirname, "..");
const repo = join(root, "..", "..");
const built = join(root, "dist", ".vite", "manifest.json");
/** Test files run side by side, and one build is enough for all of them. */
const lock = join(
  tmpdir(),
  `toolrack-console-build-${createHash("sha256").update(root).digest("hex").slice(0, 12)}`,
);
const LONGEST_BUILD = 180_000;

/** Builds the console, as `npm ci` does, unless what is built is as new as its sources. */
export async function buildConsole(): Promise<void> {
  while (!isFresh()) {
    if (!takeLock()) {
      await setTimeout(250);
      continue;
    }
    try {
      if (!isFresh()) build();
      return;
    } finally {
      rmSync(lock, { recursive: true, force: true });
    }
  }
}

function build(): void {
  const { status, stderr, stdout } = spawnSync(
    process.execPath,
    [join(repo, "scripts", "build-console.mjs")],
    {
      encoding: "utf8",
    },
  );
  if (status !== 0) throw new Error(`The console cannot be built:\n${stdout}${stderr}`);
}

function takeLock(): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    // Whoever built was killed, and took the lock with it.
    if (Date.now() - (timeOf(lock) ?? Date.now()) > LONGEST_BUILD)
      rmSync(lock, { recursive: true, force: true });
    return false;
  }
}

function isFresh(): boolean {
  const builtAt = timeOf(built);
  if (builtAt === undefined) return false;
  const sources = ["src", "public"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.endsWith(".test.ts"))
      .map((entry) => join(entry.parentPath, entry.name)),
  );
  const all = [
    ...sources,
    join(root, "index.html"),
    join(root, "vite.config.ts"),
    join(root, "package.json"),
  ];
  return all.every((path) => (timeOf(path) ?? 0) <= builtAt);
}

function timeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs;
}
