import type { ToolErrorResponse } from "../error/codes.ts";
import type { ToolError } from "../error/tool-error.ts";
import { hashValue } from "../schema/hash.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ToolState, ToolStatus } from "../tool/types.ts";
import type { CallFrame, ShownInput } from "./call-frame.ts";
import type { ToolCallRecord } from "./events.ts";
import { Mask } from "./mask.ts";
import { redact } from "./redact.ts";
import { toEpoch } from "./time.ts";

/** The state of a call as others see it: secrets masked, plain JSON. */
export function stateOf(frame: CallFrame): ToolState {
  return new StateEvent(frame).state;
}

/**
 * Sets the title of a call under way and merges metadata into its state, as its tool or its host reports
 * them. Only the pipeline changes the status, and a finished state never changes.
 */
export function updateState(frame: CallFrame, update: Partial<ToolState> | undefined): void {
  if (frame.ended || typeof update !== "object" || update === null) return;
  if (typeof update.title === "string") frame.title = update.title;
  if (typeof update.metadata === "object" && update.metadata !== null) {
    frame.stateMetadata = { ...frame.stateMetadata, ...update.metadata };
  }
  stateChanged(frame);
}

/**
 * Passes the new state to the caller's `metadata` function and to listeners. Costs nothing when there are
 * none.
 */
export function stateChanged(frame: CallFrame): void {
  const { events } = frame.host;
  const { metadata } = frame.options;
  if (!events.wanted && metadata === undefined) return;
  const event = new StateEvent(frame);
  if (metadata !== undefined) events.tell(metadata, event.state);
  events.emit(event);
}

/**
 * The event for the state of a call at one moment. `state`, a masked copy, is made when it is read for the
 * first time, because most listeners read only the status.
 */
class StateEvent {
  readonly type = "state";
  readonly callId: string;
  readonly parentCallId: string | undefined;
  readonly toolName: string;
  readonly sessionID: string;
  readonly caller: string;
  readonly status: ToolStatus;
  readonly line: number | undefined;
  readonly #frame: CallFrame;
  readonly #source: unknown;
  readonly #title: string | undefined;
  readonly #metadata: Record<string, unknown> | undefined;
  readonly #result: ToolResult | undefined;
  readonly #error: ToolError | undefined;
  #state: ToolState | undefined;

  constructor(frame: CallFrame) {
    this.callId = frame.callId;
    this.parentCallId = frame.isNested ? frame.parentCallId : undefined;
    this.toolName = frame.toolName;
    this.sessionID = frame.sessionID;
    this.caller = frame.caller;
    this.status = frame.status;
    this.line = frame.options.line;
    this.#frame = frame;
    this.#source = frame.status !== "pending" && frame.startedAt > 0 ? frame.input : frame.raw;
    this.#title = frame.title;
    this.#metadata = frame.stateMetadata;
    this.#result = frame.result;
    this.#error = frame.error;
  }

  /** Masked, like the rest of the state. The state is made for it only when there is a title. */
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
    // The state of a call under way mostly has only the arguments, which are masked already.
    const isMasked = found.size === 0 && this.#title === undefined && this.#metadata === undefined;
    if (isMasked && (state.status === "pending" || state.status === "running")) return state;
    const mask = this.#frame.host.settings.secrets().and(ownSecrets(this.#frame, this.#error, found));
    const shown = redact(state, { mask }) as ToolState; // A copy of the same shape.
    const { attachments } = this.#result ?? {};
    return {
      ...shown,
      // Status and times come from the pipeline, not from the tool, so they are never masked.
      status: state.status,
      ...("time" in state && { time: state.time }),
      ...("attachments" in shown && attachments && { attachments: mask.inMessage(attachments) }),
    } as ToolState; // The cast is safe: masking keeps the shape.
  }

  #raw(input: Record<string, unknown>): ToolState {
    const { status } = this;
    const { startedAt, createdAt, endedAt } = this.#frame;
    const base = {
      input,
      ...(this.#title !== undefined && { title: this.#title }),
      ...(this.#metadata && { metadata: { ...this.#metadata } }),
    };
    const start = toEpoch(startedAt || createdAt);
    if (status === "pending") return { status, ...base };
    if (status === "running") return { status, ...base, time: { start } };
    const time = { start, end: toEpoch(endedAt) };
    if (status === "error") return { status, ...base, error: this.#error?.message ?? "", time };
    const { content = "", attachments } = this.#result ?? {};
    return { status, ...base, output: content, ...(attachments && { attachments }), time };
  }
}

/**
 * Makes the record of a call. `shown`: its masked arguments. `secrets`: the secrets found in the arguments
 * and in the error.
 */
export function recordOf(
  frame: CallFrame,
  shown = shownInput(frame),
  secrets = frame.error === undefined ? shown.found : ownSecrets(frame, frame.error, shown.found),
): ToolCallRecord {
  const { entry, options, parent, error, flags } = frame;
  const parentCallId = frame.isNested ? frame.parentCallId : undefined;
  const tid = parent === undefined ? options.tid : frame.tid;
  const record = {
    toolName: frame.toolName,
    displayName: entry?.info.displayName ?? frame.toolName,
    parameters: shown.input,
    parametersHash: frame.parametersHash ?? hashValue(frame.startedAt > 0 ? frame.input : frame.raw),
    timestamp: toEpoch(frame.createdAt),
    callId: frame.callId,
    depth: frame.depth,
    sessionID: frame.sessionID,
    messageID: options.messageID ?? parent?.options.messageID ?? "",
    caller: frame.caller,
    status: error === undefined ? ("completed" as const) : ("error" as const),
    duration: frame.endedAt - frame.createdAt,
    runDuration: frame.startedAt === 0 ? 0 : frame.endedAt - frame.startedAt - frame.waitedInRun,
    afterDuration: frame.ranAt === 0 ? 0 : frame.endedAt - frame.ranAt,
  };
  // Most calls have no parent, task, error or flags; their record is complete here.
  if (parentCallId === undefined && tid === undefined && error === undefined && flags === undefined)
    return record;
  const known = frame.host.settings.secrets();
  return {
    ...record,
    ...(parentCallId !== undefined && { parentCallId }),
    ...(tid !== undefined && { tid }),
    ...(error && { error: shownError(error.toResponse(), known.and(secrets)) }),
    ...(flags && { flags: known.inMessage({ ...flags }) }),
  };
}

/** An error for records: masked as a value that is logged, but for its name, its code and the tool's name. */
function shownError(error: ToolErrorResponse, mask: Mask): ToolErrorResponse {
  const { name, code, details } = error;
  const shown = redact(error, { mask }) as ToolErrorResponse; // A copy of the same shape.
  const toolName = details?.toolName ?? "";
  return { ...shown, name, code, ...(shown.details && { details: { ...shown.details, toolName } }) };
}

const none: ReadonlySet<string> = new Set();
/** An empty set for the next arguments that contain a secret. Most do not, so it is reused. */
let spare = new Set<string>();

/** The arguments with secrets masked. Input that is not an object is shown under the key `raw`. */
export function shownInput(
  frame: CallFrame,
  // The validated arguments once the tool has started; until then, the arguments as the caller sent them.
  source: unknown = frame.status !== "pending" && frame.startedAt > 0 ? frame.input : frame.raw,
): ShownInput {
  const known = frame.host.settings.secrets();
  const before = frame.shown;
  if (before !== undefined && before.source === source && before.known === known) return before;
  // What is secret in the arguments of a call is secret in those of the calls that it makes.
  let inherited = none;
  if (frame.parent !== undefined) inherited = shownInput(frame.parent).found;
  // Secrets of the calls above one that another process admitted.
  else if (frame.admitted !== undefined) inherited = new Set(frame.admitted.secrets);
  const found = inherited.size === 0 ? spare : new Set(inherited);
  const marked = redact(source, { mask: known, found });
  if (found.size > inherited.size) addForms(frame, found, inherited);
  // A secret that is known by the name of one argument may stand in another one too.
  const plain = found.size === 0 ? marked : Mask.none.and(found).apply(marked);
  let input: Record<string, unknown> = {};
  if (typeof plain === "object" && plain !== null && !Array.isArray(plain)) {
    input = plain as Record<string, unknown>; // `redact` makes plain objects.
  } else if (plain !== undefined && plain !== null) input = { raw: plain };
  if (found === spare && found.size > 0) spare = new Set();
  const shown = { source, known, input, found: found.size > 0 ? found : none };
  frame.shown = shown;
  return shown;
}

/** The secrets of the call's own arguments, which its result or error may repeat. */
export function ownSecrets(
  frame: CallFrame,
  error: ToolError | undefined,
  found: ReadonlySet<string>,
): ReadonlySet<string> {
  if (error === undefined) return found;
  // The frame keeps only a masked extract of large arguments; the error still has the whole.
  const all = new Set(found);
  redact(error.input, { found: all });
  if (all.size > found.size) addForms(frame, all, found);
  return all;
}

/** Adds the forms of new secrets: a tool may write those of its arguments into JSON, or a URL. */
function addForms({ host }: CallFrame, found: Set<string>, known: ReadonlySet<string>): void {
  for (const secret of [...found].filter((one) => !known.has(one)))
    for (const form of host.settings.secretForms(secret)) found.add(form);
}
