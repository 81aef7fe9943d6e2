import type { CallFrame } from "../frame.ts";
import { FrameContext } from "../frame-context.ts";
import { stateChanged } from "../state-of.ts";

/** Runs the tool, with its time limits watched from here on. */
export function run(frame: CallFrame): Promise<unknown> | undefined {
  const { implementation } = frame.tool;
  start(frame);
  if (frame.ended) return; // Somebody who was told of the start cancelled it.
  const output = implementation.run(new FrameContext(frame) as never);
  if (!isThenable(output)) {
    frame.output = output;
    return;
  }
  return Promise.resolve(output);
}

function start(frame: CallFrame): void {
  const { metadata } = frame.tool.info;
  // What came before took no time worth asking for, unless somebody wants to know.
  const now = frame.waited || frame.host.events.wanted ? performance.now() : frame.createdAt;
  frame.status = "running";
  frame.startedAt = now;
  frame.lastActivity = now;
  frame.timeLimit = shortest(metadata.timeout ?? frame.host.settings.timeout, frame.options.timeout);
  frame.idleLimit = metadata.idleTimeout ?? 0;
  if (frame.timeLimit > 0) frame.deadline = now + frame.timeLimit;
  // A child never outlives the time that its parent has left.
  if (frame.parent !== undefined) frame.deadline = Math.min(frame.deadline, frame.parent.deadline);
  frame.host.deadlines.watch(frame);
  stateChanged(frame);
}

/** Zero and nothing both mean "no limit". */
function shortest(own: number, callers: number | undefined): number {
  if (callers === undefined || callers <= 0) return own;
  return own > 0 ? Math.min(own, callers) : callers;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function"
  );
}
