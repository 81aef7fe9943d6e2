import { setTimeout as delay } from "node:timers/promises";
import { findMarked } from "./mark.ts";

/**
 * A process of its own that ends what a rack left behind. It reads its standard input, the other end of which only the
 * rack holds: `+ID` and `-ID` say which process groups live. When the rack is gone, however it went, the input ends.
 */
const [prefix = ""] = process.argv.slice(2);
const groups = new Set<number>();
const GRACE = 1_500;

// Whatever ends the rack from a terminal must not end its watchdog first.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (piece: string) => {
  const lines = (rest + piece).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    const id = Number(line.slice(1));
    if (line.startsWith("+")) groups.add(id);
    else groups.delete(id);
  }
});
process.stdin.on("error", () => {});
process.stdin.on("close", () => void endAll());

async function endAll(): Promise<void> {
  signalAll("SIGTERM");
  const deadline = Date.now() + GRACE;
  while (Date.now() < deadline && isAnybodyLeft()) await delay(50);
  // Once more and without asking, until also what was being started at that moment is gone.
  for (let round = 0; round < 3; round++) {
    signalAll("SIGKILL");
    await delay(50);
  }
  process.exit(0);
}

function isAnybodyLeft(): boolean {
  return [...groups].some((id) => send(-id, 0)) || findMarked(prefix).length > 0;
}

function signalAll(signal: NodeJS.Signals): void {
  for (const id of groups) send(-id, signal);
  for (const id of findMarked(prefix)) send(id, signal);
}

function send(id: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(id, signal);
  } catch {
    return false;
  }
}
