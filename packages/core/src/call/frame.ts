import type { ToolError } from "../error/tool-error.ts";
import type { ResultKeys } from "../loop/text-keys.ts";
import type { LoopVerdict } from "../loop/types.ts";
import type { ToolEntry } from "../registry/entry.ts";
import type { ToolResult } from "../tool/result.ts";
import type { RawResult } from "../tool/to-result.ts";
import type { CallHost } from "./host.ts";
import type { CallOptions } from "./options.ts";
import type { ToolStatus } from "./state.ts";
import type { ShownInput } from "./visible-input.ts";

/** What the pipeline did to a call that a reader of the record should know. */
export interface CallFlags {
  /** The arguments were not JSON and were mended. */
  repaired?: boolean;
  /** Unknown arguments that were dropped. */
  dropped?: readonly string[];
  /** A person changed the arguments before agreeing. */
  edited?: boolean;
  /** The model was given a part of the result only; of a call that a tool made, the record has a part only. */
  truncated?: boolean;
  /** The result does not fit the output schema, and the tool is not held to it. */
  outputMismatch?: string;
  loop?: LoopVerdict;
  /** Milliseconds that it waited for a person to agree, before it ran. */
  waited?: number;
}

const noInput: Record<string, unknown> = Object.freeze({});

/**
 * One call on its way through the pipeline. Every field is set at birth so that all frames have one shape;
 * whatever a call does not use stays undefined and costs nothing.
 */
export class CallFrame {
  readonly host: CallHost;
  /** Counts the calls of a registry; the id is made of it when somebody asks. */
  readonly sequence: number;
  #callId: string | undefined;
  /** The name as the caller wrote it. */
  readonly name: string;
  /** The arguments as the caller sent them. */
  raw: unknown;
  readonly options: CallOptions;
  readonly parent: CallFrame | undefined;
  readonly depth: number;
  readonly sessionID: string;
  readonly permissions: readonly string[];
  readonly createdAt: number;

  entry: ToolEntry | undefined = undefined;
  /** The tool as it is registered now, when that is not the version that runs. What it demands counts as well. */
  current: ToolEntry | undefined = undefined;
  input: Record<string, unknown> = noInput;
  status: ToolStatus = "pending";
  /** Whether a stage had to wait, so that time has passed since the call was made. */
  waited = false;
  startedAt = 0;
  /** When the tool gave its result; 0 while it has not, and where nobody listens. */
  ranAt = 0;
  endedAt = 0;
  title: string | undefined = undefined;
  stateMetadata: Record<string, unknown> | undefined = undefined;
  /** What the tool returned, until it is made a result. */
  output: unknown = undefined;
  draft: RawResult | undefined = undefined;
  result: ToolResult | undefined = undefined;
  error: ToolError | undefined = undefined;
  flags: CallFlags | undefined = undefined;

  /** The arguments as others see them, once somebody has looked. */
  shown: ShownInput | undefined = undefined;
  /** Kept when the arguments themselves are too large to keep. */
  parametersHash: string | undefined = undefined;
  argsKey: string | undefined = undefined;
  resultKeys: ResultKeys | undefined = undefined;

  /** Milliseconds on the `performance` clock. */
  deadline = Number.POSITIVE_INFINITY;
  timeLimit = 0;
  idleLimit = 0;
  lastActivity = 0;
  /** How many questions to a person this call and its children are waiting for. */
  asking = 0;
  /** Since when, on the `performance` clock, while it waits for any. */
  askingSince = 0;
  /** It has done nothing yet: others are before it. */
  waitsForTurn = false;

  /** The neighbours in the list of calls under way. */
  older: CallFrame | undefined = undefined;
  newer: CallFrame | undefined = undefined;

  controller: AbortController | undefined = undefined;
  abortReason: ToolError | undefined = undefined;
  /** Is told when the call is aborted, by whoever needs nothing else of a signal. */
  onAbort: ((reason: ToolError) => void) | undefined = undefined;
  unlistenCaller: (() => void) | undefined = undefined;
  children: Set<CallFrame> | undefined = undefined;
  resolve: (result: ToolResult) => void = ignore;

  constructor(
    host: CallHost,
    sequence: number,
    callId: string | undefined,
    name: string,
    raw: unknown,
    options: CallOptions,
    parent: CallFrame | undefined,
  ) {
    this.host = host;
    this.sequence = sequence;
    this.#callId = callId;
    this.name = name;
    this.raw = raw;
    this.options = options;
    this.parent = parent;
    this.depth = parent === undefined ? 0 : parent.depth + 1;
    this.sessionID = (parent === undefined ? options.sessionID : parent.sessionID) ?? "";
    this.permissions =
      parent === undefined ? (options.permissions ?? host.settings.permissions) : parent.permissions;
    this.createdAt = performance.now();
  }

  get callId(): string {
    this.#callId ??= this.host.history.idOf(this.sequence);
    return this.#callId;
  }

  get ended(): boolean {
    return this.status === "completed" || this.status === "error";
  }

  get toolName(): string {
    return this.entry === undefined ? this.name : this.entry.info.name;
  }

  get caller(): string {
    return (
      this.options.caller ??
      (this.parent === undefined ? "" : `${this.parent.toolName}_${this.parent.callId}`)
    );
  }

  /** The tool of a call that has been resolved. */
  get tool(): ToolEntry {
    if (this.entry === undefined) throw new Error("The call has not been resolved yet.");
    return this.entry;
  }

  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      if (this.abortReason !== undefined) this.controller.abort(this.abortReason);
    }
    return this.controller.signal;
  }

  flag(): CallFlags {
    this.flags ??= {};
    return this.flags;
  }

  /** A sign of life: the idle limit starts anew. */
  touch(): void {
    if (this.idleLimit > 0) this.lastActivity = performance.now();
  }
}

function ignore(): void {}
