import { type ChildProcess, spawn } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { markOfRack } from "./processes.ts";

/** Its sources while we run from sources, the built file once we are built. */
const program = fileURLToPath(new URL(`./watchdog-main${extname(import.meta.url)}`, import.meta.url));

let watchdog: ChildProcess | undefined;
const groups = new Set<number>();

/**
 * Has a process group ended when this process ends in whatever way, SIGKILL included. One small process watches over
 * all of them; it is started with the first and costs nothing where no server is a process.
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
  const child = spawn(
    process.execPath,
    ["--disable-sigusr1", "--max-old-space-size=32", program, markOfRack],
    {
      // A session of its own: what is sent to the rack's group does not reach it.
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
      env: { PATH: process.env.PATH ?? "" },
      cwd: "/",
    },
  );
  watchdog = child;
  // Without a watchdog the servers still end with an orderly end of the rack.
  child.on("error", () => {});
  child.stdin.on("error", () => {});
  child.on("exit", () => {
    if (watchdog !== child) return;
    watchdog = undefined;
    // Somebody ended it. While there is something to watch over, there is one.
    if (groups.size > 0)
      setTimeout(() => groups.size > 0 && watchdog === undefined && start(), 1_000).unref();
  });
  child.unref();
  // The types call it a stream; it is a socket, which would keep this process running.
  (child.stdin as unknown as { unref?: () => void }).unref?.();
  for (const id of groups) tell(`+${id}`);
}

function tell(line: string): void {
  if (watchdog?.stdin?.writable) watchdog.stdin.write(`${line}\n`);
}
