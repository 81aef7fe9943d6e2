import type { ToolError } from "../error/tool-error.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ToolState, ToolStatus } from "../tool/types.ts";
import { toEpoch } from "./clock.ts";
import type { CallFrame } from "./frame.ts";
import { ownSecrets, redact, shownInput, sourceOf } from "./mask.ts";

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

/**
 * Where a call stands at one moment. Its state, a masked copy of what there is, is made when it is read for the first
 * time: most who are told of a change look at the status only.
 */
class StateEvent {
  readonly type = "state";
  readonly callId: string;
  readonly parentCallId: string | undefined;
  readonly toolName: string;
  readonly sessionID: string;
  readonly caller: string;
  readonly status: ToolStatus;
  readonly #frame: CallFrame;
  readonly #source: unknown;
  readonly #title: string | undefined;
  readonly #metadata: Record<string, unknown> | undefined;
  readonly #result: ToolResult | undefined;
  readonly #error: ToolError | undefined;
  #state: ToolState | undefined;

  constructor(frame: CallFrame) {
    this.callId = frame.callId;
    this.parentCallId = frame.parent?.callId;
    this.toolName = frame.toolName;
    this.sessionID = frame.sessionID;
    this.caller = frame.caller;
    this.status = frame.status;
    this.#frame = frame;
    this.#source = sourceOf(frame);
    this.#title = frame.title;
    this.#metadata = frame.stateMetadata;
    this.#result = frame.result;
    this.#error = frame.error;
  }

  /** Masked like all the rest of the state, which is only made when there is one. */
  get title(): string | undefined {
    return this.#title === undefined ? undefined : this.state.title;
  }

  get state(): ToolState {
    this.#state ??= this.#masked();
    return this.#state;
  }

  toJSON(): object {
    return { ...this, state: this.state };
  }

  #masked(): ToolState {
    const { input, found } = shownInput(this.#frame, this.#source);
    const state = this.#raw(input);
    // Of a call under way there are mostly the arguments alone, which are masked already.
    const isMasked = found.size === 0 && this.#title === undefined && this.#metadata === undefined;
    if (isMasked && (state.status === "pending" || state.status === "running")) return state;
    // A copy of the same shape.
    return redact(state, {
      known: this.#frame.host.settings.secrets(),
      values: ownSecrets(this.#error, new Set(found)),
    }) as ToolState;
  }

  #raw(input: Record<string, unknown>): ToolState {
    const frame = this.#frame;
    const base = {
      input,
      ...(this.#title === undefined ? {} : { title: this.#title }),
      ...(this.#metadata === undefined ? {} : { metadata: { ...this.#metadata } }),
    };
    const start = toEpoch(frame.startedAt || frame.createdAt);
    switch (this.status) {
      case "pending":
        return { status: "pending", ...base };
      case "running":
        return { status: "running", ...base, time: { start } };
      case "completed": {
        const { content = "", attachments } = this.#result ?? {};
        const time = { start, end: toEpoch(frame.endedAt) };
        return {
          status: "completed",
          ...base,
          output: content,
          ...(attachments ? { attachments } : {}),
          time,
        };
      }
      case "error": {
        const time = { start, end: toEpoch(frame.endedAt) };
        return { status: "error", ...base, error: this.#error?.message ?? "", time };
      }
    }
  }
}
