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
