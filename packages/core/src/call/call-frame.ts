import { clip, type ToolError, type ToolErrorOptions } from "../error/tool-error.ts";
import type { ArgumentsKey } from "../loop/arguments.ts";
import type { ResultKeys } from "../loop/result-keys.ts";
import type { LoopVerdict } from "../loop/types.ts";
import type { ToolEntry } from "../registry/entry.ts";
import { hashValue } from "../schema/hash.ts";
import type { RawResult, ToolResult } from "../tool/result.ts";
import type { RegistryView, ToolStatus } from "../tool/types.ts";
import type { AdmittedCall, CallDispatcher, CallLink, HandedCall, PerformedCall } from "./admitted-call.ts";
import type { CallFlags, EventHub } from "./events.ts";
import type { Mask } from "./mask.ts";
import type { KeptResults } from "./results.ts";
import type { CallMock, CallOptions, CheckedSettings, Environment } from "./settings.ts";

const noInput: Record<string, unknown> = Object.freeze({});

/**
 * One call on its way through the pipeline. What most calls need is set from the start, so that their frames have one
 * shape for the JavaScript engine. What few calls need is only declared, which makes a frame 170 bytes smaller; `rarelySet` has
 * the first values, on the prototype.
 */
export class CallFrame {
  readonly host: CallHost;
  /** The number of the call in its registry. The call id is made from it when the id is first read. */
  readonly sequence: number;
  #callId: string | undefined;
  /** The name as the caller wrote it. */
  readonly name: string;
  /** The arguments as the caller sent them. */
  raw: unknown;
  readonly options: CallOptions;
  readonly parent: CallFrame | undefined;
  /** Whether a tool made the call, here or in the process that admitted it. */
  readonly isNested: boolean;
  readonly sessionID: string;
  readonly permissions: readonly string[];
  readonly mock: CallMock | undefined;
  createdAt: number;
  /** Set when another process admitted the call and this one performs it. */
  readonly admitted: (AdmittedCall & { readonly link: CallLink }) | undefined;
  /** Set while another process performs the call. */
  declare handed: HandedCall | undefined;
  /** When the call was handed over; 0 before that. */
  declare dispatchedAt: number;

  /** How many calls are above this one in its chain; 0 for a call that no other call made. */
  readonly depth: number;
  /** The called tool, once `resolve` has found it. */
  entry: ToolEntry | undefined = undefined;
  /** The name of the tool; until the tool is found, the name as the caller wrote it. */
  toolName: string;
  /**
   * The tool as it is registered now. Set when that is not the version that the caller was shown, which this call
   * runs. Then the permissions of both versions are required, and the call is dangerous if either version is.
   */
  declare current: ToolEntry | undefined;
  input: Record<string, unknown> = noInput;
  /** Whether the history keeps only a part of `input`. */
  isLarge = false;
  /** Whether the result is a text that is not too long, and nothing beside it. */
  isShort = false;
  status: ToolStatus = "pending";
  ended = false;
  /** Whether a stage had to wait, so that time has passed since the call was made. */
  waited = false;
  startedAt = 0;
  /** When the tool returned; 0 before that, and when nobody listens to events. */
  declare ranAt: number;
  endedAt = 0;
  declare title: string | undefined;
  declare stateMetadata: Record<string, unknown> | undefined;
  /** The settings and secrets that the rack gives the tool. */
  declare environment: Environment | undefined;
  /** Gives what the tool would return, when something stands in for the tool. */
  declare answer: (() => unknown) | undefined;
  /** What the tool returned, until it is made a result. */
  output: unknown = undefined;
  draft: RawResult | undefined = undefined;
  /** A mask that was already applied to a long text of the draft and found nothing, so that it need not look again. */
  declare cleanOf: Mask | undefined;
  declare kept: KeptTexts | undefined;
  result: ToolResult | undefined = undefined;
  error: ToolError | undefined = undefined;
  flags: CallFlags | undefined = undefined;

  /** The arguments with secrets masked, once somebody has asked for them. */
  shown: ShownInput | undefined = undefined;
  /** The hash of the whole arguments, set when they are too large to keep. */
  declare parametersHash: string | undefined;
  argsKey: string | ArgumentsKey | undefined = undefined;
  resultKeys: ResultKeys | undefined = undefined;

  /** When the call's time is over, in milliseconds on the `performance` clock. */
  deadline = Number.POSITIVE_INFINITY;
  declare idleLimit: number;
  declare lastActivity: number;
  /** How many questions to a person this call and its children are waiting for. */
  declare asking: number;
  /** Milliseconds for which a person was waited for while the tool ran. */
  declare waitedInRun: number;
  /** Since when the call has been waiting for answers, on the `performance` clock. */
  declare askingSince: number;
  /** True while the tool cannot begin because other calls come first. The idle limit does not run meanwhile. */
  declare waitsForTurn: boolean;

  /** Links to the next older and the next newer call in the list of calls under way. */
  older: CallFrame | undefined = undefined;
  newer: CallFrame | undefined = undefined;

  declare controller: AbortController | undefined;
  declare abortReason: ToolError | undefined;
  /** Called when the call is aborted. `whenAborted` sets it, to avoid the cost of a signal. */
  declare onAbort: ((reason: ToolError) => void) | undefined;
  /** The listener on the caller's abort signal, kept so that it can be removed when the call ends. */
  declare onCallerAbort: (() => void) | undefined;
  declare children: Set<CallFrame> | undefined;
  resolve: (result: ToolResult) => void = ignore;

  constructor(
    host: CallHost,
    sequence: number,
    callId: string | undefined,
    name: string,
    raw: unknown,
    options: CallOptions,
    parent: CallFrame | undefined,
    createdAt: number,
    admitted?: AdmittedCall & { readonly link: CallLink },
  ) {
    this.host = host;
    this.sequence = sequence;
    this.#callId = callId;
    this.name = name;
    this.raw = raw;
    this.options = options;
    this.parent = parent;
    this.admitted = admitted;
    this.isNested = parent !== undefined || admitted?.parentCallId !== undefined;
    this.sessionID = options.sessionID ?? parent?.sessionID ?? "";
    this.permissions =
      parent === undefined ? (options.permissions ?? host.settings.permissions) : parent.permissions;
    this.mock = parent === undefined ? (options.mock ?? host.settings.mock) : parent.mock;
    this.createdAt = createdAt;
    this.depth = parent === undefined ? (admitted?.depth ?? 0) : parent.depth + 1;
    this.toolName = name;
  }

  get callId(): string {
    this.#callId ??= this.host.history.idOf(this.sequence);
    return this.#callId;
  }

  /** The id of the call that made this one. */
  get parentCallId(): string | undefined {
    return this.parent === undefined ? this.admitted?.parentCallId : this.parent.callId;
  }

  /** The task that the call, or the nearest call above it that names one, belongs to. */
  get tid(): string | undefined {
    for (let at: CallFrame | undefined = this; at !== undefined; at = at.parent) {
      if (at.options.tid !== undefined) return at.options.tid;
    }
    return undefined;
  }

  /** The caller that the host named; for a call that a tool makes, otherwise the name and id of the tool's own call. */
  get caller(): string {
    const { options, parent } = this;
    return options.caller ?? (parent === undefined ? "" : `${parent.toolName}_${parent.callId}`);
  }

  /** The tool's name for people to read: with its display name, where that is another. */
  get shownName(): string {
    const displayName = this.entry?.info.displayName;
    if (displayName === undefined || displayName === this.toolName) return this.toolName;
    return `${displayName} (${this.toolName})`;
  }

  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      if (this.abortReason !== undefined) this.controller.abort(this.abortReason);
    }
    return this.controller.signal;
  }

  /** The called tool, for the stages after `resolve`. */
  get tool(): ToolEntry {
    return this.entry as ToolEntry; // Nothing reads it before.
  }

  /** The validated arguments; until they are validated, the arguments as the caller sent them. */
  get given(): unknown {
    return this.input === noInput ? this.raw : this.input;
  }

  /** Makes an error with the tool and the arguments of this call. */
  refusal<Refusal extends ToolError>(
    Type: new (message: string, options: ToolErrorOptions) => Refusal,
    message: string,
    options?: ToolErrorOptions,
  ): Refusal {
    return new Type(message, { toolName: this.toolName, input: this.given, ...options });
  }

  flag(): CallFlags {
    this.flags ??= {};
    return this.flags;
  }
}

/** The others are undefined until they are set. */
const rarelySet: Partial<CallFrame> = {
  dispatchedAt: 0,
  ranAt: 0,
  idleLimit: 0,
  lastActivity: 0,
  asking: 0,
  waitedInRun: 0,
  askingSince: 0,
  waitsForTurn: false,
};
Object.assign(CallFrame.prototype, rarelySet);

function ignore(): void {}

/** The texts of a long draft as they are kept. */
interface KeptTexts extends Pick<RawResult, "content" | "structuredText"> {
  /** Whether the structured value is too large for a model. */
  readonly isBulky: boolean;
  /** The mask that hides the secrets in them. */
  readonly masked: Mask;
}

/** Arguments with secrets masked. Made once per call, for all listeners and records. */
export interface ShownInput {
  readonly source: unknown;
  readonly known: Mask;
  readonly input: Record<string, unknown>;
  /** The secrets that were found in the arguments and masked. */
  readonly found: ReadonlySet<string>;
}

/** A dispatcher as the pipeline uses it. `handOver` makes it of a `CallDispatcher`. */
export interface FrameDispatcher extends Pick<CallDispatcher, "laneOf"> {
  dispatch(frame: CallFrame, lane: string): Promise<PerformedCall>;
}

/** What the stages need of the registry they run in. */
export interface CallHost {
  readonly settings: CheckedSettings;
  readonly history: CallHistory;
  readonly results: KeptResults;
  /** Loop detection, session by session. Its methods never throw, so that a faulty detector fails no call. */
  readonly sessions: {
    watches(frame: CallFrame): boolean;
    assessNext(frame: CallFrame): LoopVerdict | undefined;
    observe(frame: CallFrame): void;
  };
  readonly deadlines: { watch(frame: CallFrame, now: number): void; release(now: number): void };
  readonly events: EventHub;
  /** Calls that wait for a person to agree before they run. */
  readonly undecided: Set<CallFrame>;
  /** The tools as they are now. */
  catalog: { readonly size: number; find(name: string): ToolEntry | undefined };
  /** Has calls of some tools performed elsewhere. Undefined: all run here. */
  dispatcher: FrameDispatcher | undefined;
  nearest(name: string): string[];
  view(frame: CallFrame): RegistryView;
  /** Makes a call as a child of `parent`; rejects with the child's `ToolError` when it fails. */
  callChild(parent: CallFrame, name: string, input: unknown, options: CallOptions): Promise<ToolResult>;
}

const LONGEST_RAW = 10_000;
/** Characters. Refused arguments with a longer text are cut before the history keeps them. */
const LARGE = 100_000;
const DEPTH_LOOKED_AT = 3;
const MOST_LOOKED_AT = 50;

/** `000` to `999`, each written when it is first used. */
const lastDigits: string[] = [];

/**
 * The calls under way and the last few that ended; the oldest ended call makes room for the newest. A call id
 * is made from the call's number, so that a call whose id nobody reads costs no text and no map entry; only
 * ids that callers chose themselves are kept in a map. The calls under way are a linked list through the
 * frames themselves: a Set would make a call half as expensive again.
 */
export class CallHistory {
  /** The newest call under way. */
  newest: CallFrame | undefined = undefined;
  readonly #limit: number;
  /** Replaced now and then: a Map whose entries come and go keeps all that it ever held until a full collection. */
  #chosen = new Map<string, CallFrame>();
  #chosenSince = 0;
  /** Makes the ids of one registry differ from those of any other. */
  readonly #prefix = `call_${Math.random().toString(36).slice(2, 10)}${Date.now().toString(36)}_`;
  /** The thousands of the id that was made last, and how the ids of this thousand begin. */
  #thousands = 0;
  #beginning = this.#prefix;
  #ring: (CallFrame | undefined)[] = [];
  #next = 0;
  /** How many calls there were. */
  count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  idOf(sequence: number): string {
    const thousands = Math.floor(sequence / 1_000);
    if (thousands !== this.#thousands) {
      this.#thousands = thousands;
      this.#beginning = this.#prefix + thousands;
    }
    // Two texts that are there already are put together: to write a new number takes V8 70 ns.
    const last = sequence % 1_000;
    lastDigits[last] ??= String(last).padStart(3, "0");
    return this.#beginning + lastDigits[last];
  }

  get(callId: string): CallFrame | undefined {
    const chosen = this.#chosen.get(callId);
    if (chosen !== undefined || !callId.startsWith(this.#prefix)) return chosen;
    const sequence = Number(callId.slice(this.#prefix.length));
    for (const frame of this.active())
      if (frame.sequence === sequence && frame.callId === callId) return frame;
    return this.#ring.find((frame) => frame?.sequence === sequence && frame.callId === callId);
  }

  /** The calls under way, the newest first. */
  *active(): Generator<CallFrame> {
    for (let frame = this.newest; frame !== undefined; ) {
      const next: CallFrame | undefined = frame.older;
      yield frame;
      frame = next;
    }
  }

  started(frame: CallFrame): void {
    frame.older = this.newest;
    if (this.newest !== undefined) this.newest.newer = frame;
    this.newest = frame;
    if (frame.options.callId !== undefined && frame.options.callId === frame.callId) {
      if (++this.#chosenSince > 256 + 2 * this.#chosen.size) {
        this.#chosen = new Map(this.#chosen);
        this.#chosenSince = 0;
      }
      this.#chosen.set(frame.callId, frame);
    }
  }

  ended(frame: CallFrame): void {
    const { older, newer } = frame;
    if (newer === undefined) this.newest = older;
    else newer.older = older;
    if (older !== undefined) older.newer = newer;
    frame.older = undefined;
    frame.newer = undefined;
    if (this.#limit === 0) {
      this.#forget(frame);
      return;
    }
    // An ended call is no longer in the processor's cache: it is only looked at if there is something to forget.
    if (this.#chosen.size > 0) this.#forget(this.#ring[this.#next]);
    this.#ring[this.#next] = frame;
    this.#next = this.#next + 1 === this.#limit ? 0 : this.#next + 1;
  }

  #forget(frame: CallFrame | undefined): void {
    const chosen = frame?.options.callId;
    // A call that asked for an id that was taken does not own it.
    if (chosen !== undefined && this.#chosen.get(chosen) === frame) this.#chosen.delete(chosen);
  }

  /** The last `limit` calls that ended, oldest first. */
  recent(limit: number): CallFrame[] {
    const inOrder = [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)];
    const ended = inOrder.filter((frame) => frame !== undefined);
    return ended.slice(Math.max(0, ended.length - Math.max(0, limit)));
  }

  /** Forgets every call that has ended. */
  clear(): void {
    for (const frame of this.#ring) this.#forget(frame);
    this.#ring = [];
    this.#next = 0;
  }
}

/**
 * Drops the parts of an ended call that only its caller needs, so that a hundred large results do not stay in memory. May
 * throw.
 */
export function shrink(frame: CallFrame): void {
  frame.shown = undefined;
  if (frame.kept !== undefined) frame.kept = undefined;
  if (frame.startedAt > 0) frame.raw = undefined;
  else if (isLarge(frame.raw, DEPTH_LOOKED_AT)) frame.raw = clip(frame.raw);
  if (frame.isLarge) {
    frame.parametersHash = hashValue(frame.input);
    frame.input = clip(frame.input);
  }
  if (!frame.isShort) frame.result = shrunk(frame.result!, frame.host.settings.maxContent);
}

function shrunk({ content, type, error, attachments }: ToolResult, maxContent: number): ToolResult {
  return {
    content: content.length > maxContent ? `${content.slice(0, LONGEST_RAW)}…` : content,
    type,
    error,
    attachments: attachments?.map((part) => (part.url.length > LONGEST_RAW ? { ...part, url: "" } : part)),
  };
}

/** Whether arguments that no schema has looked at are probably large. Looks only at its first levels, where large parts mostly show. */
function isLarge(value: unknown, depth: number): boolean {
  if (typeof value === "string") return value.length > LARGE;
  if (typeof value !== "object" || value === null || depth === 0) return false;
  if (Array.isArray(value)) {
    // Only the first member is measured: the members of a list are usually of similar size.
    return value.length > LARGE / 100 || (value.length > 0 && isLarge(value[0], depth - 1));
  }
  let looked = 0;
  for (const key in value) {
    if (++looked > MOST_LOOKED_AT) return true;
    // Any object may be read by its keys.
    if (isLarge((value as Record<string, unknown>)[key], depth - 1)) return true;
  }
  return false;
}
