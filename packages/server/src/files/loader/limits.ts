import vm from "node:vm";

const evaluate = Symbol.for("toolrack.evaluate");
const trampoline = new vm.Script('globalThis[Symbol.for("toolrack.evaluate")]()', {
  filename: "toolrack:evaluate",
});

/** Node can interrupt code only when a script starts it, so a script that does nothing else starts it. */
export function withinTime(call: () => void, limit: number): void {
  const slot = globalThis as unknown as Record<symbol, unknown>; // The script can see globals only.
  const { exit } = process;
  slot[evaluate] = call;
  process.exit = refuseExit;
  try {
    trampoline.runInThisContext({ timeout: limit, displayErrors: false });
  } finally {
    process.exit = exit;
    delete slot[evaluate];
  }
}

function refuseExit(): never {
  throw new Error("process.exit() is not available to tool files.");
}

/**
 * Timers made by one version of a file. When the version is dropped, whatever still runs is stopped: a forgotten
 * interval would otherwise keep the whole version in memory, and work, for ever.
 */
export class TrackedTimers {
  readonly #running = new Set<NodeJS.Timeout>();

  readonly setInterval = ((...args: Parameters<typeof setInterval>) => {
    const timer = setInterval(...args);
    this.#running.add(timer);
    return timer;
  }) as typeof setInterval;

  readonly clearInterval = ((timer: NodeJS.Timeout | undefined) => {
    if (timer !== undefined) this.#running.delete(timer);
    clearInterval(timer);
  }) as typeof clearInterval;

  /** How many intervals are running. */
  get size(): number {
    return this.#running.size;
  }

  stop(): void {
    for (const timer of this.#running) clearInterval(timer);
    this.#running.clear();
  }
}
