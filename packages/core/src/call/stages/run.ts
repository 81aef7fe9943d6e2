import { badOutput } from "../../error/messages.ts";
import { ToolExecutionError } from "../../error/tool-error.ts";
import type { SchemaOutcome } from "../../schema/types.ts";
import { toResult } from "../../tool/to-result.ts";
import { FrameContext } from "../context.ts";
import type { CallFrame } from "../frame.ts";
import { stateChanged } from "../state.ts";

/** Runs the tool. Its time limits start here. */
export function run(frame: CallFrame): Promise<unknown> | undefined {
  const { implementation } = frame.tool;
  start(frame);
  if (frame.ended) return; // A listener cancelled the call at its start.
  // The arguments have passed the tool's schema.
  const output = implementation.run(new FrameContext(frame) as never);
  if (!isThenable(output)) {
    frame.output = output;
    return;
  }
  return Promise.resolve(output);
}

function start(frame: CallFrame): void {
  const { metadata } = frame.tool.info;
  // Reading the clock is skipped when nothing waited and nobody listens.
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

/** Zero and undefined both mean no limit. */
function shortest(own: number, callers: number | undefined): number {
  if (callers === undefined || callers <= 0) return own;
  return own > 0 ? Math.min(own, callers) : callers;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

/**
 * Converts the tool's return value to a result and checks it against the output schema. A returned error counts like a
 * thrown one.
 */
export function check(frame: CallFrame): Promise<void> | undefined {
  if (frame.host.events.wanted) frame.ranAt = performance.now();
  const draft = toResult(frame.output);
  frame.output = undefined;
  frame.draft = draft;
  if (draft.title !== undefined) frame.title = draft.title;
  if (draft.type === "error") {
    throw new ToolExecutionError(draft.content || "The tool reported an error without saying which.", {
      toolName: frame.toolName,
      input: frame.input,
      data: { returned: true },
    });
  }
  const { output } = frame.tool;
  if (output === undefined) return;
  const outcome = output.validate(draft.structured);
  if (outcome instanceof Promise) return outcome.then((settled) => requireFit(frame, settled));
  requireFit(frame, outcome);
}

function requireFit(frame: CallFrame, outcome: SchemaOutcome): void {
  if (outcome.ok) return;
  const message = badOutput(frame.toolName, outcome.issues);
  if (frame.tool.info.metadata.outputCheck === "warn") {
    frame.flag().outputMismatch = message;
    return;
  }
  throw new ToolExecutionError(message, {
    toolName: frame.toolName,
    input: frame.input,
    data: { issues: outcome.issues },
  });
}

/**
 * Masks known secrets in the result for a client. Results for another tool keep them, since a program may need them;
 * their events are masked.
 */
export function mask(frame: CallFrame): void {
  const { draft, parent, host } = frame;
  if (draft === undefined || parent !== undefined) return;
  frame.draft = host.settings.secrets().apply(draft);
}
