import type { CallFrame } from "./frame.ts";

/** While somebody is asked, neither this call nor those that wait for it run out of time. Listeners are told that they wait. */
export function pausing(frame: CallFrame): Disposable {
  const start = performance.now();
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    if (at.asking++ > 0) continue;
    at.askingSince = start;
    tell(at, true);
  }
  return {
    [Symbol.dispose]() {
      const now = performance.now();
      for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
        // Two questions at once are one pause.
        if (--at.asking > 0) continue;
        at.deadline += now - at.askingSince;
        at.lastActivity = now;
        if (at.ended) continue;
        at.host.deadlines.watch(at);
        tell(at, false);
      }
    },
  };
}

function tell(frame: CallFrame, isWaiting: boolean): void {
  const { host, callId, toolName } = frame;
  if (host.events.wanted) host.events.emit({ type: "waiting", callId, toolName, isWaiting });
}
