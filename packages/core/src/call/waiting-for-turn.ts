import type { ToolContext } from "../tool/context.ts";
import { frameOf } from "./frame-context.ts";

/**
 * Says that the call waits for its turn and has done nothing yet: it need not report anything meanwhile, and if its time
 * runs out, nothing of it stands. Answers how to say that its turn has come.
 */
export function waitingForTurn(context: Pick<ToolContext, "signal">): () => void {
  const frame = frameOf(context);
  if (frame === undefined) return () => {};
  frame.waitsForTurn = true;
  return () => {
    frame.waitsForTurn = false;
    if (frame.ended) return;
    frame.lastActivity = performance.now();
    frame.host.deadlines.watch(frame);
  };
}
