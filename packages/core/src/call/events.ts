import type { ToolErrorResponse } from "../error/codes.ts";
import type { ToolError } from "../error/tool-error.ts";
import type { LoopVerdict } from "../loop/types.ts";
import type { ToolResult } from "../tool/result.ts";
import type { Logger, ProgressUpdate, ToolState, ToolStatus } from "../tool/types.ts";
import type { ApprovalDecision, ApprovalRequest } from "./settings.ts";

/** How much a line of a log matters. */
export type LogLevel = keyof Logger;

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

/** Tells listeners. One that throws is told on, and never becomes the cause of a failed call. */
export class EventHub {
  /** Listeners by what they listen to. Lists are replaced, so that one may come or go while they are told. */
  readonly #listeners = new Map<EventType, readonly RackListener[]>();
  #failures = 0;
  /** False while nobody listens: then no event need be made. */
  wanted = false;

  /** How often a listener threw. */
  get failures(): number {
    return this.#failures;
  }

  /** Returns a function that ends it. Without types, the listener is told of everything. */
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
    for (const listener of listeners) this.tell(listener, event);
  }

  /** Calls something that only watches. Counts its failure, whether it comes at once or later. */
  tell<News>(listener: (news: News) => unknown, news: News): void {
    try {
      const later = listener(news);
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
