import type { CallFrame } from "./frame.ts";

/** While a person thinks, neither this call nor those that wait for it run out of time. */
export function pausing(frame: CallFrame): Disposable {
  const start = performance.now();
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) at.asking++;
  return {
    [Symbol.dispose]() {
      const now = performance.now();
      for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
        at.asking--;
        at.deadline += now - start;
        at.lastActivity = now;
        if (!at.ended) at.host.deadlines.watch(at);
      }
    },
  };
}
