import { LoopBlockedError } from "../../error/tool-error.ts";
import { loopMessage } from "../../loop/loop-messages.ts";
import type { CallFrame } from "../frame.ts";

/** Asks loop detection whether the session repeats itself. A detector that fails lets the call pass. */
export function guard(frame: CallFrame): void {
  if (!frame.host.sessions.watches(frame)) return;
  const verdict = frame.host.sessions.assessNext(frame);
  if (verdict === undefined || verdict.action === "none" || verdict.action === "nudge") return;
  frame.flag().loop = verdict;
  throw new LoopBlockedError(loopMessage(verdict), {
    toolName: frame.toolName,
    input: frame.input,
    data: { verdict },
    recoverable: verdict.action !== "stop",
  });
}
