import type { CallFrame } from "./frame.ts";
import type { ToolState } from "./state.ts";
import { StateEvent } from "./state-event.ts";

/** The state of a call as others see it: secrets masked, plain JSON. */
export function stateOf(frame: CallFrame): ToolState {
  return new StateEvent(frame).state;
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
  const event = new StateEvent(frame);
  if (metadata !== undefined) events.guard(() => metadata(event.state), undefined);
  events.emit(event);
}
