import type { ToolErrorResponse } from "../error/codes.ts";
import type { ToolError } from "../error/tool-error.ts";
import type { LoopVerdict } from "../loop/types.ts";
import { hashValue } from "../schema/hash.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ProgressUpdate, ToolState, ToolStatus } from "../tool/types.ts";
import { toEpoch } from "./clock.ts";
import type { LogLevel } from "./context.ts";
import type { CallFlags, CallFrame } from "./frame.ts";
import { maskValue, ownSecrets, redact, visibleInput } from "./mask.ts";
import type { ApprovalDecision, ApprovalRequest } from "./stages/approve.ts";

/** What listeners are told. `record` comes once for every call, after its last `state`. */
export type RackEvent =
  | { readonly type: "tools"; readonly version: number }
  | {
      readonly type: "state";
      readonly callId: string;
      readonly parentCallId?: string | undefined;
      readonly toolName: string;
      readonly sessionID: string;
      readonly caller: string;
      readonly status: ToolStatus;
      /** That of the state. */
      readonly title?: string | undefined;
      /** Made when it is read: who needs the status only reads that, which costs nothing. */
      readonly state: ToolState;
    }
  | {
      readonly type: "progress";
      readonly callId: string;
      readonly toolName: string;
      readonly update: ProgressUpdate;
    }
  | {
      readonly type: "log";
      readonly callId: string;
      readonly toolName: string;
      readonly level: LogLevel;
      /** One line or several; at most 2,000 characters, secrets masked. */
      readonly text: string;
      /** Milliseconds since the epoch. */
      readonly at: number;
    }
  | {
      /** Somebody is asked something, by the call or by one that it makes, or nobody is any more. One that ended waits no more. */
      readonly type: "waiting";
      readonly callId: string;
      readonly toolName: string;
      readonly isWaiting: boolean;
    }
  | { readonly type: "approval"; readonly request: ApprovalRequest; readonly decision?: ApprovalDecision }
  | {
      readonly type: "loop";
      readonly callId: string;
      readonly sessionID: string;
      readonly verdict: LoopVerdict;
    }
  | {
      readonly type: "record";
      readonly record: ToolCallRecord;
      readonly result: ToolResult;
      /** With its stack, for logs. */
      readonly error?: ToolError;
    };

/** Is told of every change and call; see `ToolRegistry.subscribe`. */
export type RackListener = (event: RackEvent) => void;

/** Tells listeners. One that throws is told on, and never becomes the cause of a failed call. */
export class EventHub {
  readonly #listeners = new Set<RackListener>();
  #failures = 0;

  /** False while nobody listens: then no event need be made. */
  get wanted(): boolean {
    return this.#listeners.size > 0;
  }

  /** How often a listener threw. */
  get failures(): number {
    return this.#failures;
  }

  subscribe(listener: RackListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  emit(event: RackEvent): void {
    for (const listener of this.#listeners) this.guard(listener, event);
  }

  /** Runs something that only watches. Counts its failure, whether it comes at once or later. */
  guard<Told>(watch: (told: Told) => unknown, told: Told): void {
    try {
      const later = watch(told);
      if (later instanceof Promise) later.catch(() => this.#failures++);
    } catch {
      this.#failures++;
    }
  }
}

/** What is remembered of a finished call. Plain JSON, secrets masked. */
export interface ToolCallRecord {
  readonly toolName: string;
  /** The name people see. */
  readonly displayName: string;
  readonly parameters: Record<string, unknown>;
  /** The same for the same arguments in any order of keys. */
  readonly parametersHash: string;
  /** When the call arrived, in milliseconds since the epoch. */
  readonly timestamp: number;
  readonly callId: string;
  readonly parentCallId?: string;
  readonly depth: number;
  readonly sessionID: string;
  readonly messageID: string;
  readonly caller: string;
  readonly tid?: string;
  readonly status: "completed" | "error";
  /** Milliseconds from arrival to end, and the part of it that the tool itself ran. */
  readonly duration: number;
  readonly runDuration: number;
  /** The last part of `runDuration`: checking, masking and cutting the result. 0 when that was not measured. */
  readonly afterDuration?: number;
  readonly error?: ToolErrorResponse;
  readonly flags?: CallFlags;
}

/** `found` is given the secrets of the arguments. */
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
  // Most records end here.
  if (parent === undefined && tid === undefined && error === undefined && flags === undefined) return record;
  const known = frame.host.settings.secrets();
  return {
    ...record,
    ...(parent === undefined ? {} : { parentCallId: parent.callId }),
    ...(tid === undefined ? {} : { tid }),
    ...(error === undefined
      ? {}
      : {
          error: redact(error.toResponse(), { known, values: ownSecrets(error, found) }) as ToolErrorResponse,
        }),
    ...(flags === undefined ? {} : { flags: maskValue({ ...flags }, known) }),
  };
}

function tidOf(frame: CallFrame): string | undefined {
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    if (at.options.tid !== undefined) return at.options.tid;
  }
  return undefined;
}
