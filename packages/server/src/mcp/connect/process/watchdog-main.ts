import { setTimeout as delay } from "node:timers/promises";
import {
  descendantsOf,
  findFamilies,
  findMarked,
  isRunning,
  type KnownProcess,
  knownProcess,
  signalProcess,
} from "./processes.ts";

/**
 * A separate process that ends the processes a rack left behind. It reads lines from the rack: `+ID` adds a process group,
 * `-ID` removes it. Only the rack holds the other end of the pipe, so the input ends whenever the rack does.
 */
const [prefix = ""] = process.argv.slice(2);
/**
 * The watched process groups, by id. Each holds its leader, which has the id of the group, and all descendants
 * of the leader that were found so far, by process id.
 */
const groups = new Map<number, Map<number, KnownProcess>>();
const GRACE = 1_500;
/**
 * How often descendants are searched for, in milliseconds. A process that starts and loses its parent between
 * two searches is found only by its mark.
 */
const LOOK_EVERY = 5_000;

// A signal from the terminal must not end the watchdog before the rack.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (piece: string) => {
  const lines = (rest + piece).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    const id = Number(line.slice(1));
    if (line.startsWith("+")) remember(id);
    else forget(id);
  }
});
process.stdin.on("error", () => {});
process.stdin.on("close", () => void endAll());

setInterval(look, LOOK_EVERY).unref();

function remember(id: number): void {
  const leader = knownProcess(id);
  groups.set(id, new Map(leader === undefined ? [] : [[id, leader]]));
}

/** Remembers the descendants of each group. They can be found only while their parents run. */
function look(): void {
  if (groups.size === 0) return;
  const families = findFamilies();
  for (const family of groups.values()) {
    // The system may give the id of an ended process to another one.
    for (const known of family.values()) if (!isRunning(known)) family.delete(known.id);
    for (const found of descendantsOf(family.keys(), families)) family.set(found.id, found);
  }
}

/** Called when the rack has ended a group. Ends the descendants that the rack could not find. */
function forget(id: number): void {
  for (const known of groups.get(id)?.values() ?? [])
    if (isRunning(known)) signalProcess(known.id, "SIGKILL");
  groups.delete(id);
}

function strays(): number[] {
  const known = [...groups.values()].flatMap((family) => [...family.values()]).filter(isRunning);
  return [...findMarked(prefix).keys(), ...known.map(({ id }) => id)];
}

async function endAll(): Promise<void> {
  look();
  signalAll("SIGTERM");
  const deadline = performance.now() + GRACE;
  while (performance.now() < deadline && isAnybodyLeft()) await delay(50);
  // Several times, because a process may just be starting another one.
  for (let round = 0; round < 3; round++) {
    signalAll("SIGKILL");
    await delay(50);
  }
  process.exit(0);
}

function isAnybodyLeft(): boolean {
  return [...groups.keys()].some((id) => signalProcess(-id, 0)) || strays().length > 0;
}

function signalAll(signal: NodeJS.Signals): void {
  for (const id of groups.keys()) signalProcess(-id, signal);
  for (const id of strays()) signalProcess(id, signal);
}
