import { badOutput } from "../../error/messages.ts";
import { ToolExecutionError } from "../../error/tool-error.ts";
import type { SchemaOutcome } from "../../schema/types.ts";
import { toResult } from "../../tool/to-result.ts";
import type { CallFrame } from "../frame.ts";

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
