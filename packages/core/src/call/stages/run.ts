import { badOutput } from "../../error/messages.ts";
import { ToolExecutionError } from "../../error/tool-error.ts";
import type { SchemaOutcome } from "../../schema/types.ts";
import { toResult } from "../../tool/to-result.ts";
import { FrameContext } from "../context.ts";
import type { CallFrame } from "../frame.ts";
import { stateChanged } from "../state.ts";

/** Runs the tool, with its time limits watched from here on. */
export function run(frame: CallFrame): Promise<unknown> | undefined {
  const { implementation } = frame.tool;
  start(frame);
  if (frame.ended) return; // Somebody who was told of the start cancelled it.
  // The arguments have passed the schema, which promises what the tool declares.
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
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

/**
 * Makes a result of what the tool returned and holds it to the output schema. An error that the tool returned
 * is an error in every record, like one that it threw.
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
  if (outcome instanceof Promise) return outcome.then((settled) => hold(frame, settled));
  hold(frame, outcome);
}

function hold(frame: CallFrame, outcome: SchemaOutcome): void {
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
 * Hides known secrets from whoever reads the result. A call made by another tool keeps them: its reader is a program,
 * which may need them; what others are told of it is masked on the way.
 */
export function mask(frame: CallFrame): void {
  const { draft, parent, host } = frame;
  if (draft === undefined || parent !== undefined) return;
  frame.draft = host.settings.secrets().apply(draft);
}
