import { callerGone, callerUnknown, disabled, takenDown } from "../../error/messages.ts";
import { PermissionDeniedError, ToolDisabledError, ToolNotFoundError } from "../../error/tool-error.ts";
import type { CallFrame } from "../frame.ts";
import { permit } from "./permit.ts";
import { reach } from "./reach.ts";

/**
 * Looks again at what let the call in, after a person has thought about it: that may have taken hours. What runs is the
 * version that was agreed to, also where the rack has a newer one.
 */
export async function recheck(frame: CallFrame): Promise<void> {
  const why = await whyWithdrawn(frame);
  if (why !== undefined) {
    throw new PermissionDeniedError(callerGone(frame.toolName, why), {
      toolName: frame.toolName,
      input: frame.input,
    });
  }
  requireStanding(frame);
}

/** Throws when the tool is gone or switched off, or out of reach of the caller by now. */
export function requireStanding(frame: CallFrame): void {
  const { toolName, input } = frame;
  const before = frame.current ?? frame.tool;
  const now = frame.host.find(before.info.name);
  // Another tool may have taken the name for an alias of its own.
  if (now === undefined || now.key !== before.key) {
    throw new ToolNotFoundError(takenDown(toolName), { toolName, input, data: { suggestions: [] } });
  }
  if (now !== frame.entry) frame.current = now;
  if (now.info.disabled) {
    throw new ToolDisabledError(disabled(toolName, now.info.metadata.disabledReason), { toolName, input });
  }
  reach(frame);
  permit(frame);
}

/** Who made the first call of a chain is behind all of them. */
async function whyWithdrawn(frame: CallFrame): Promise<string | undefined> {
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    const why = await whyWithdrawnFrom(at);
    if (why !== undefined) return why;
  }
  return undefined;
}

async function whyWithdrawnFrom({ callId, options, host }: CallFrame): Promise<string | undefined> {
  try {
    return await options.withdrawn?.(callId);
  } catch (thrown) {
    // What failed there is for whoever runs the rack, not for the caller.
    host.settings.logger.error(`It is not known whether the caller of ${callId} is still there:`, thrown);
    return callerUnknown;
  }
}
