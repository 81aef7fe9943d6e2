import type { Logger, RackEvent, ToolCallRecord, ToolRegistry, ToolResult } from "@toolrack/core";
import type { CallStore, StartedCall } from "../store/store.ts";

/** What a surface knows of a call before it begins. */
export type AnnouncedCall = Omit<StartedCall, "parameters"> & { readonly replayOf?: string };

export interface RecordedCall {
  readonly record: ToolCallRecord;
  /** False when the store refused the record: the call happened all the same. */
  readonly recorded: boolean;
}

type StateEvent = Extract<RackEvent, { type: "state" }>;

interface Announcement {
  readonly call: AnnouncedCall;
  readonly settle: (recorded: RecordedCall) => void;
}

/**
 * Keeps every call of the rack in the store, also those that tools make and those of other surfaces: noted when it
 * begins, so that a crash leaves a trace, and kept when it ends. Whoever announced one learns when its record is safe.
 */
export class CallRecorder {
  readonly #registry: ToolRegistry;
  readonly #calls: CallStore;
  readonly #logger: Logger;
  readonly #announced = new Map<string, Announcement>();
  readonly #begun = new Set<string>();
  readonly #writing = new Set<Promise<boolean>>();
  readonly #unsubscribe: () => void;
  #failures = 0;

  constructor(registry: ToolRegistry, calls: CallStore, logger: Logger) {
    this.#registry = registry;
    this.#calls = calls;
    this.#logger = logger;
    this.#unsubscribe = registry.subscribe((event) => this.#listen(event));
  }

  /** How many records the store refused. */
  get failures(): number {
    return this.#failures;
  }

  /** To be called right before the call is made. Resolves once it has ended and its record is safe. */
  announce(call: AnnouncedCall): Promise<RecordedCall> {
    return new Promise((settle) => {
      this.#announced.set(call.callId, { call, settle });
    });
  }

  /** Resolves when the records of all calls that have ended by now are written. */
  async flush(): Promise<void> {
    await Promise.all(this.#writing);
  }

  close(): Promise<void> {
    this.#unsubscribe();
    return this.flush();
  }

  #listen(event: RackEvent): void {
    if (event.type === "state") this.#begin(event);
    if (event.type === "record") this.#end(event.record, event.result);
  }

  #begin(event: StateEvent): void {
    const { callId, state } = event;
    // One that was refused at once is only told of when it has ended.
    if (this.#begun.has(callId) || state.status === "completed" || state.status === "error") return;
    this.#begun.add(callId);
    const { replayOf: _, ...call } = this.#announced.get(callId)?.call ?? this.#unannounced(event);
    try {
      this.#calls.started({ ...call, parameters: state.input });
    } catch (thrown) {
      this.#refused(callId, thrown);
    }
  }

  #unannounced({ callId, parentCallId, toolName, sessionID, caller }: StateEvent): AnnouncedCall {
    // It may be called by an alias.
    const info = this.#registry.get(toolName);
    const name = info?.name ?? toolName;
    return {
      callId,
      ...(parentCallId === undefined ? {} : { parentCallId }),
      toolName: name,
      displayName: info?.displayName ?? name,
      sessionID,
      caller,
      timestamp: Date.now(),
    };
  }

  #end(record: ToolCallRecord, result: ToolResult): void {
    const announcement = this.#announced.get(record.callId);
    this.#announced.delete(record.callId);
    this.#begun.delete(record.callId);
    const writing = this.#write(record, result, announcement?.call.replayOf);
    this.#writing.add(writing);
    writing.then((recorded) => {
      this.#writing.delete(writing);
      announcement?.settle({ record, recorded });
    });
  }

  async #write(record: ToolCallRecord, result: ToolResult, replayOf?: string): Promise<boolean> {
    try {
      await this.#calls.finished(record, result, replayOf, this.#wholeText(record));
      return true;
    } catch (thrown) {
      this.#refused(record.callId, thrown);
      return false;
    }
  }

  /** The caller is given a part of a long result; the store is given all of it, for reading on. */
  #wholeText({ callId, flags }: ToolCallRecord): string | undefined {
    if (flags?.truncated !== true) return undefined;
    return this.#registry.readResult(callId, { limit: Number.POSITIVE_INFINITY })?.text;
  }

  #refused(callId: string, thrown: unknown): void {
    this.#failures++;
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    this.#logger.error(`The call ${callId} could not be recorded: ${reason}`);
  }
}
