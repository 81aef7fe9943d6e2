import type { CallSummary, LoopVerdict } from "../../api/types.ts";

export interface CaughtLoop {
  readonly callId: string;
  readonly tool: string;
  /** The name that models are given. */
  readonly toolName: string;
  readonly session: string;
  readonly at: number;
  readonly action: LoopVerdict["action"];
  readonly verdict: LoopVerdict;
}

/** The loops that were caught, newest first; of one loop, only the last call that belonged to it. */
export function loopsOf(calls: readonly CallSummary[]): CaughtLoop[] {
  const seen = new Set<string>();
  return calls.flatMap((call) => {
    const { loop } = call.flags ?? {};
    if (loop === undefined) return [];
    const key = `${call.sessionID} ${loop.fingerprint ?? call.callId}`;
    if (seen.has(key)) return [];
    seen.add(key);
    const { callId, toolName, displayName = toolName, sessionID = "", timestamp = 0 } = call;
    return [
      {
        callId,
        tool: displayName,
        toolName,
        session: sessionID,
        at: timestamp,
        action: loop.action,
        verdict: loop,
      },
    ];
  });
}
