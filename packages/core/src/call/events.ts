import type { ToolErrorResponse } from "../error/codes.ts";
import type { ToolError } from "../error/tool-error.ts";
import type { LoopVerdict } from "../loop/types.ts";
import type { ToolResult } from "../tool/result.ts";
import type { Logger, ProgressUpdate, ToolState, ToolStatus } from "../tool/types.ts";
import type { ApprovalDecision, ApprovalRequest } from "./settings.ts";

export type LogLevel = keyof Logger;

/** What the pipeline did to a call, for readers of the record. */
export interface CallFlags {
  /** The arguments were not JSON and were mended. */
  repaired?: boolean;
  /** Unknown arguments that were dropped. */
  dropped?: readonly string[];
  /** A person changed the arguments before agreeing. */
  edited?: boolean;
  /** The model got only a part of the result. For a call that a tool made: the record has only a part. */
  truncated?: boolean;
  /** The result does not fit the output schema, and the tool asks only for a warning. */
  outputMismatch?: string;
  loop?: LoopVerdict;
  /** Milliseconds that the call waited for a person's consent before it ran. */
  waited?: number;
}

/** The events of a rack. `record` comes once for every call, after its last `state`. */
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
      readonly title?: string | undefined;
      /** Made on first read, so that listeners who need only the status pay nothing. */
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
      /**
       * The call, or a call that it made, began or stopped waiting for an answer. A call that has ended does not wait.
       */
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

/** See `ToolRegistry.subscribe`. */
export type RackListener = (event: RackEvent) => void;

type EventType = RackEvent["type"];

const eventTypes: readonly EventType[] = [
  "tools",
  "state",
  "progress",
  "log",
  "waiting",
  "approval",
  "loop",
  "record",
];

/** Calls the listeners. A listener that throws stays subscribed and never fails a call. */
export class EventHub {
  /** Lists are replaced, never changed, so that listeners may come and go during an event. */
  readonly #listeners = new Map<EventType, readonly RackListener[]>();
  #failures = 0;
  /** False while nobody listens, so that no events need be made. */
  wanted = false;

  /** How often a listener threw. */
  get failures(): number {
    return this.#failures;
  }

  /** Returns a function that unsubscribes. Without types, the listener gets all events. */
  subscribe(listener: RackListener, types: readonly EventType[] = eventTypes): () => void {
    for (const type of types) this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
    this.wanted = true;
    return () => {
      for (const type of types) {
        const left = this.#listeners.get(type)?.filter((other) => other !== listener) ?? [];
        if (left.length > 0) this.#listeners.set(type, left);
        else this.#listeners.delete(type);
      }
      this.wanted = this.#listeners.size > 0;
    };
  }

  emit(event: RackEvent): void {
    const listeners = this.#listeners.get(event.type);
    if (listeners === undefined) return;
    for (const listener of listeners) this.guard(listener, event);
  }

  /** Calls an observer. Counts its failures, also asynchronous ones. */
  guard<Told>(watch: (told: Told) => unknown, told: Told): void {
    try {
      const later = watch(told);
      if (later instanceof Promise) later.catch(() => this.#failures++);
    } catch {
      this.#failures++;
    }
  }
}

/** The record of a finished call. Plain JSON, secrets masked. */
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
  /** Milliseconds from arrival to end, and the part in which the tool ran. */
  readonly duration: number;
  readonly runDuration: number;
  /** The last part of `runDuration`, after the tool: checking, masking and cutting the result. 0 when not measured. */
  readonly afterDuration?: number;
  readonly error?: ToolErrorResponse;
  readonly flags?: CallFlags;
}
