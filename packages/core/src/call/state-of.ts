import type { CallFrame } from "./frame.ts";
import { redact } from "./redact.ts";
import type { ToolState } from "./state.ts";

/** The state of a call as others see it: secrets masked, plain JSON. */
export function stateOf(frame: CallFrame): ToolState {
  const found = new Set<string>();
  const state = rawState(frame, found);
  // Of a call under way there are mostly the arguments alone, which are masked already.
  const isMasked = found.size === 0 && frame.title === undefined && frame.stateMetadata === undefined;
  if (isMasked && (state.status === "pending" || state.status === "running")) return state;
  // A copy of the same shape.
  return redact(state, {
    known: frame.host.settings.secrets(),
    values: ownSecrets(frame, found),
  }) as ToolState;
}

/** The secrets of the call's own arguments, which its result or error may repeat. */
export function ownSecrets(frame: CallFrame, found: Set<string>): Iterable<string> {
  // Of large arguments only a masked extract is remembered; the error still has them.
  if (frame.error !== undefined) redact(frame.error.input, { found });
  return found;
}

function rawState(frame: CallFrame, found: Set<string>): ToolState {
  const base = {
    input: visibleInput(frame, found),
    ...(frame.title === undefined ? {} : { title: frame.title }),
    ...(frame.stateMetadata === undefined ? {} : { metadata: { ...frame.stateMetadata } }),
  };
  const start = toEpoch(frame.startedAt || frame.createdAt);
  switch (frame.status) {
    case "pending":
      return { status: "pending", ...base };
    case "running":
      return { status: "running", ...base, time: { start } };
    case "completed": {
      const { content = "", attachments } = frame.result ?? {};
      const time = { start, end: toEpoch(frame.endedAt) };
      return { status: "completed", ...base, output: content, ...(attachments ? { attachments } : {}), time };
    }
    case "error": {
      const time = { start, end: toEpoch(frame.endedAt) };
      return { status: "error", ...base, error: frame.error?.message ?? "", time };
    }
  }
}

/**
 * What a tool, or whoever runs it, says of a call under way: a title, and metadata that is merged. Only the
 * pipeline moves the status, and a finished state never changes.
 */
export function updateState(frame: CallFrame, update: Partial<ToolState> | undefined): void {
  if (frame.ended || typeof update !== "object" || update === null) return;
  if (typeof update.title === "string") frame.title = update.title;
  if (typeof update.metadata === "object" && update.metadata !== null) {
    frame.stateMetadata = { ...frame.stateMetadata, ...update.metadata };
  }
  stateChanged(frame);
}

/** Tells whoever wants to know. Costs nothing when nobody does. */
export function stateChanged(frame: CallFrame): void {
  const { events } = frame.host;
  const { metadata } = frame.options;
  if (!events.wanted && metadata === undefined) return;
  const state = stateOf(frame);
  if (metadata !== undefined) events.guard(() => metadata(state));
  if (!events.wanted) return;
  const { callId, parent, toolName, sessionID, caller } = frame;
  const chain = parent === undefined ? {} : { parentCallId: parent.callId };
  events.emit({ type: "state", callId, ...chain, toolName, sessionID, caller, state });
}

/**
 * The arguments with secrets masked; what came, in a field of its own, when it never became arguments. `found` is
 * given the secrets.
 */
export function visibleInput(frame: CallFrame, found = new Set<string>()): Record<string, unknown> {
  const validated = frame.status !== "pending" && frame.startedAt > 0;
  const shown: unknown = validated ? frame.input : frame.raw;
  const plain = redact(shown, { known: frame.host.settings.secrets(), found });
  if (typeof plain === "object" && plain !== null && !Array.isArray(plain))
    return plain as Record<string, unknown>;
  return plain === undefined || plain === null ? {} : { raw: plain };
}

/** From the `performance` clock to milliseconds since the epoch. */
export function toEpoch(time: number): number {
  return Math.round(performance.timeOrigin + time);
}
