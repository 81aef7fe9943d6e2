import { type ChildProcess, spawn } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { markOfRack } from "./processes.ts";

/** Has the same ending as this file, so that it works from sources and when built. */
const program = fileURLToPath(new URL(`./watchdog-main${extname(import.meta.url)}`, import.meta.url));

let watchdog: ChildProcess | undefined;
const groups = new Set<number>();

/**
 * Makes sure that a process group ends when this process ends, even by SIGKILL. One small watchdog process does this for
 * all groups. It is started for the first group.
 */
export function watchGroup(id: number): void {
  groups.add(id);
  if (watchdog === undefined) start();
  else tell(`+${id}`);
}

export function unwatchGroup(id: number): void {
  if (!groups.delete(id)) return;
  tell(`-${id}`);
}

function start(): void {
  const args = ["--disable-sigusr1", "--max-old-space-size=32", program, markOfRack];
  const env = { PATH: process.env.PATH ?? "" };
  // In a session of its own, so that signals to the rack's group do not reach it.
  const stdio: ["pipe", "ignore", "ignore"] = ["pipe", "ignore", "ignore"];
  const child = spawn(process.execPath, args, { detached: true, stdio, env, cwd: "/" });
  watchdog = child;
  // Without a watchdog the servers still end when the rack stops normally.
  child.on("error", () => {});
  child.stdin.on("error", () => {});
  child.on("exit", () => {
    if (watchdog !== child) return;
    watchdog = undefined;
    // Start it again while there are groups to watch.
    if (groups.size > 0)
      setTimeout(() => groups.size > 0 && watchdog === undefined && start(), 1_000).unref();
  });
  child.unref();
  // It is a socket, although the types do not say so, and would keep this process running.
  (child.stdin as unknown as { unref?: () => void }).unref?.();
  for (const id of groups) tell(`+${id}`);
}

function tell(line: string): void {
  if (watchdog?.stdin?.writable) watchdog.stdin.write(`${line}\n`);
}
