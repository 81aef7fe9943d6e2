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
  /** The arguments were not valid JSON and were repaired. */
  repaired?: boolean;
  /** Unknown arguments that were dropped. */
  dropped?: readonly string[];
  /** A person changed the arguments before agreeing. */
  edited?: boolean;
  /**
   * The model was given only a part of the result. For a call that a tool made: the tool got the whole
   * result, but the record has only a part of it.
   */
  truncated?: boolean;
  /** How the result differs from the output schema, for a tool whose `outputCheck` is not `strict`. */
  outputMismatch?: string;
  /** The tool ended after its limit of milliseconds: it kept the process busy, so that it could not be stopped. */
  overran?: { readonly limit: number };
  /** A recorded answer stood in for the tool, which did not run. */
  mocked?: boolean;
  loop?: LoopVerdict;
  /** The line of the program that made the call. */
  line?: number;
  /**
   * Milliseconds for which the call waited for a person, before or while it ran. A call whose child waited has waited too.
   */
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
      /** The line of the program that made the call. */
      readonly line?: number | undefined;
      /** The same as the title in `state`, for listeners that read no state. */
      readonly title?: string | undefined;
      /** Made when it is first read, so that it costs nothing for a listener that reads only `status`. */
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
       * The call, or one below it in the chain, has begun to wait for somebody's answer, or waits for none
       * any more. A call that ends while it waits emits no further event of this type.
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
      /** The error with its stack, for logs. */
      readonly error?: ToolError;
    };

/** Called with events; see `ToolRegistry.subscribe`. */
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

/**
 * Passes events to listeners. A listener that throws still gets later events, and never makes a call fail.
 */
export class EventHub {
  /**
   * Listeners by event type. Every change replaces the list, so that a listener may be added or removed while
   * an event is being passed on.
   */
  readonly #listeners = new Map<EventType, readonly RackListener[]>();
  #failures = 0;
  /** False while nobody listens: then no event need be made. */
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
    for (const listener of listeners) this.tell(listener, event);
  }

  /** Calls a listener. Counts a failure, whether the listener throws or its promise rejects. */
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
  /** Equal for equal arguments, whatever the order of their keys. */
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
  /**
   * Milliseconds from the arrival of the call to its end; `runDuration`, without waiting, is the part from the start of the
   * tool.
   */
  readonly duration: number;
  readonly runDuration: number;
  /** The last part of `runDuration`: checking, masking and cutting the result. 0 when that was not measured. */
  readonly afterDuration?: number;
  readonly error?: ToolErrorResponse;
  readonly flags?: CallFlags;
}

/** Callers that name a way in, and nobody. */
const waysIn: ReadonlySet<string> = new Set(["", "http", "cli", "mcp", "chat"]);
/** The id behind the name of a token or a tool, as in `ci_01890a5d-…`. */
const ID = /_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Who made a call, for people. `name`: the token or the tool that made it, without its id. `by`: a way in (`console`, `chat`,
 * `schedule`, `cli`, `mcp`, `http`), or the program with its version. `via` is what the record of the call has.
 */
export function namedCaller({
  caller = "",
  via,
}: {
  readonly caller?: string;
  readonly via?: string | undefined;
}): {
  readonly name?: string;
  readonly by?: string;
} {
  const isSchedule = caller.startsWith("schedule_tool_");
  const hasName = !isSchedule && !waysIn.has(caller);
  const by = via?.replace(/^(chat|schedule) .*/, "$1") ?? (isSchedule ? "schedule" : hasName ? "" : caller);
  return { ...(hasName && { name: caller.replace(ID, "") }), ...(by !== "" && { by }) };
}
