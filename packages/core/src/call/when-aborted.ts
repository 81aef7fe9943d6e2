import type { ToolContext } from "../tool/context.ts";
import { frameOf } from "./frame-context.ts";

/**
 * Acts when the call is aborted, at once when it has been. Answers how to stop waiting for it. The same as listening to
 * the context's signal, for those that are in the way of every call: making a signal costs more than most tools.
 */
export function whenAborted(
  context: Pick<ToolContext, "signal">,
  act: (reason: unknown) => void,
): () => void {
  const frame = frameOf(context);
  if (frame === undefined || frame.onAbort !== undefined || frame.abortReason !== undefined) {
    return listen(context.signal, act);
  }
  frame.onAbort = act;
  return () => {
    if (frame.onAbort === act) frame.onAbort = undefined;
  };
}

function listen(signal: AbortSignal, act: (reason: unknown) => void): () => void {
  const onAbort = () => act(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return () => signal.removeEventListener("abort", onAbort);
}
