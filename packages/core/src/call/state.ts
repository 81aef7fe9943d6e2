import type { ToolErrorResponse } from "../error/codes.ts";
import type { ToolError } from "../error/tool-error.ts";
import { hashValue } from "../schema/hash.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ToolState, ToolStatus } from "../tool/types.ts";
import type { ToolCallRecord } from "./events.ts";
import type { CallFrame, ShownInput } from "./frame.ts";
import { Mask } from "./mask.ts";
import { toEpoch } from "./time.ts";

/** The state of a call as others see it: secrets masked, plain JSON. */
export function stateOf(frame: CallFrame): ToolState {
  return new StateEvent(frame).state;
}

/**
 * Sets the title and merges metadata of a running call. Only the pipeline changes the status, and a finished state
 * never changes.
 */
export function updateState(frame: CallFrame, update: Partial<ToolState> | undefined): void {
  if (frame.ended || typeof update !== "object" || update === null) return;
  if (typeof update.title === "string") frame.title = update.title;
  if (typeof update.metadata === "object" && update.metadata !== null) {
    frame.stateMetadata = { ...frame.stateMetadata, ...update.metadata };
  }
  stateChanged(frame);
}

/** Emits a state event, if anybody listens. */
export function stateChanged(frame: CallFrame): void {
  const { events } = frame.host;
  const { metadata } = frame.options;
  if (!events.wanted && metadata === undefined) return;
  const event = new StateEvent(frame);
  if (metadata !== undefined) events.guard(() => metadata(event.state), undefined);
  events.emit(event);
}

/**
 * The state of a call at one moment. The masked copy is made on first read, because most listeners need only the
 * status.
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

  /** Masked, so the whole state is made, but only if there is a title. */
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
    // A running call mostly has only its arguments, which are masked already.
    const isMasked = found.size === 0 && this.#title === undefined && this.#metadata === undefined;
    if (isMasked && (state.status === "pending" || state.status === "running")) return state;
    const mask = this.#frame.host.settings.secrets().and(ownSecrets(this.#error, new Set(found)));
    return mask.shown(state) as ToolState; // The mask keeps the shape.
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

/** Adds the secrets of the arguments to `found`. */
export function recordOf(frame: CallFrame, found = new Set<string>()): ToolCallRecord {
  const { entry, options, parent, error, flags } = frame;
  const tid = tidOf(frame);
  const record = {
    toolName: frame.toolName,
    displayName: entry?.info.displayName ?? frame.toolName,
    parameters: visibleInput(frame, found),
    parametersHash: frame.parametersHash ?? hashValue(frame.startedAt > 0 ? frame.input : frame.raw),
    timestamp: toEpoch(frame.createdAt),
    callId: frame.callId,
    depth: frame.depth,
    sessionID: frame.sessionID,
    messageID: options.messageID ?? parent?.options.messageID ?? "",
    caller: frame.caller,
    status: error === undefined ? ("completed" as const) : ("error" as const),
    duration: frame.endedAt - frame.createdAt,
    runDuration: frame.startedAt === 0 ? 0 : frame.endedAt - frame.startedAt,
    afterDuration: frame.ranAt === 0 ? 0 : frame.endedAt - frame.ranAt,
  };
  // Most calls need nothing more.
  if (parent === undefined && tid === undefined && error === undefined && flags === undefined) return record;
  const known = frame.host.settings.secrets();
  return {
    ...record,
    ...(parent === undefined ? {} : { parentCallId: parent.callId }),
    ...(tid === undefined ? {} : { tid }),
    ...(error === undefined
      ? {}
      : {
          error: known.and(ownSecrets(error, found)).shown(error.toResponse()) as ToolErrorResponse,
        }),
    ...(flags === undefined ? {} : { flags: known.apply({ ...flags }) }),
  };
}

function tidOf(frame: CallFrame): string | undefined {
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    if (at.options.tid !== undefined) return at.options.tid;
  }
  return undefined;
}

/** The masked arguments; `{ raw }` for input that never became arguments. Adds the secrets to `found`. */
export function visibleInput(frame: CallFrame, found?: Set<string>): Record<string, unknown> {
  const shown = shownInput(frame, sourceOf(frame));
  if (found !== undefined) for (const secret of shown.found) found.add(secret);
  return shown.input;
}

const none: ReadonlySet<string> = new Set();
/** Reused until arguments hold a secret, which most do not. */
let spare = new Set<string>();

export function shownInput(frame: CallFrame, source: unknown): ShownInput {
  const known = frame.host.settings.secrets();
  const before = frame.shown;
  if (before !== undefined && before.source === source && before.known === known) return before;
  const found = spare;
  const input = toRecord(known.shown(source, found));
  if (found.size > 0) spare = new Set();
  const shown = { source, known, input, found: found.size > 0 ? found : none };
  frame.shown = shown;
  return shown;
}

/** The validated arguments, or the raw input before validation. */
export function sourceOf({ status, startedAt, input, raw }: CallFrame): unknown {
  return status !== "pending" && startedAt > 0 ? input : raw;
}

/** The secrets of the call's own arguments, which its result or error may repeat. */
function ownSecrets(error: ToolError | undefined, found: Set<string>): ReadonlySet<string> {
  // The frame keeps only a masked extract of large arguments; the error has them whole.
  if (error !== undefined) Mask.none.shown(error.input, found);
  return found;
}

function toRecord(plain: unknown): Record<string, unknown> {
  if (typeof plain === "object" && plain !== null && !Array.isArray(plain)) {
    return plain as Record<string, unknown>; // The mask made a plain copy.
  }
  return plain === undefined || plain === null ? {} : { raw: plain };
}
