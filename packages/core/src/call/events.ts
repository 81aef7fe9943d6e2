import type { ToolError } from "../error/tool-error.ts";
import type { LoopVerdict } from "../loop/types.ts";
import type { ProgressUpdate } from "../tool/context.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ApprovalDecision, ApprovalRequest } from "./approval.ts";
import type { LogLevel } from "./call-log.ts";
import type { ToolCallRecord } from "./record.ts";
import type { ToolState, ToolStatus } from "./state.ts";

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
