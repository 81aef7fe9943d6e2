import type { ToolError } from "../error/tool-error.ts";
import type { ToolResult } from "../tool/result.ts";
import type { CallFrame } from "./frame.ts";
import { redact } from "./redact.ts";
import type { ToolState, ToolStatus } from "./state.ts";
import { ownSecrets, shownInput, sourceOf, toEpoch } from "./visible-input.ts";

/**
 * Where a call stands at one moment. Its state, a masked copy of what there is, is made when it is read for the first
 * time: most who are told of a change look at the status only.
 */
export class StateEvent {
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
