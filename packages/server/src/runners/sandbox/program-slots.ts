/** Lets a few programs of one name run at once. The others wait for their turn, in the order in which they came. */
export class ProgramSlots {
  readonly #names = new Map<string, { running: number; readonly waiting: Set<() => void> }>();

  /** Resolves to what has to be called when the program has ended. Rejects with the signal's reason. */
  async take(name: string, atOnce: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const slots = this.#names.get(name) ?? { running: 0, waiting: new Set<() => void>() };
    this.#names.set(name, slots);
    if (slots.running < atOnce) slots.running++;
    else await turn(slots.waiting, signal);
    return () => {
      const [next] = slots.waiting;
      // The place is handed on, so that nobody who comes later is faster.
      if (next !== undefined) return next();
      slots.running--;
      if (slots.running === 0) this.#names.delete(name);
    };
  }
}

function turn(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = () => {
      leave();
      resolve();
    };
    const giveUp = () => {
      leave();
      reject(signal.reason);
    };
    const leave = () => {
      waiting.delete(go);
      signal.removeEventListener("abort", giveUp);
    };
    waiting.add(go);
    signal.addEventListener("abort", giveUp, { once: true });
  });
}
