import {
  IdTable,
  type Logger,
  type RackEvent,
  type ToolCallRecord,
  type ToolRegistry,
  type ToolResult,
} from "@toolrack/core";
import type { CallLine, CallStore, StartedCall } from "../store/index.ts";
import { CallLines } from "./live-calls.ts";

/** Characters of what a tool says with its progress. */
const LONGEST_MESSAGE = 2_000;

/** What a surface knows of a call before it begins. */
export type AnnouncedCall = Omit<StartedCall, "parameters"> & { readonly replayOf?: string };

export interface RecordedCall {
  readonly record: ToolCallRecord;
  /** False when the record is not safe: the store refused it, or cannot take it now. The call happened all the same. */
  readonly recorded: boolean;
}

type StateEvent = Extract<RackEvent, { type: "state" }>;

/** What is known of a call until it has ended. */
interface Noted {
  /** Undefined when nobody announced it. */
  readonly call: AnnouncedCall | undefined;
  readonly settle: ((recorded: RecordedCall) => void) | undefined;
  readonly depth: number;
  hasBegun: boolean;
  /** Made for the first line: most calls say nothing. */
  lines: CallLines | undefined;
}

/**
 * Keeps every call of the rack in the store, also those that tools make and those of other surfaces: noted when it
 * begins, so that a crash leaves a trace, and kept when it ends. Whoever announced one learns when its record is safe.
 */
export class CallRecorder {
  readonly #registry: ToolRegistry;
  readonly #calls: CallStore;
  readonly #logger: Logger;
  readonly #noted = new IdTable<Noted>();
  readonly #writes = new OpenWrites();
  readonly #unsubscribe: () => void;
  #failures = 0;

  constructor(registry: ToolRegistry, calls: CallStore, logger: Logger) {
    this.#registry = registry;
    this.#calls = calls;
    this.#logger = logger;
    this.#unsubscribe = registry.subscribe((event) => this.#listen(event));
    // As long as there is a store: it may be refused what was safe when the recorder was closed.
    calls.onRefused((callId, thrown) => this.#keptBack(callId, thrown));
  }

  /** How many records the store refused for good. */
  get failures(): number {
    return this.#failures;
  }

  /** To be called right before the call is made. Resolves once it has ended and its record is safe. */
  announce(call: AnnouncedCall): Promise<RecordedCall> {
    return new Promise((settle) => {
      this.#noted.set(call.callId, {
        call,
        settle,
        depth: call.depth ?? 0,
        hasBegun: false,
        lines: undefined,
      });
    });
  }

  /** What a call under way has said so far. */
  linesOf(callId: string): readonly CallLine[] {
    return this.#noted.get(callId)?.lines?.all() ?? [];
  }

  /** Resolves when the records of all calls that have ended by now are safe, or refused. */
  flush(): Promise<void> {
    return this.#writes.settled();
  }

  close(): Promise<void> {
    this.#unsubscribe();
    return this.flush();
  }

  #listen(event: RackEvent): void {
    if (event.type === "state") this.#begin(event);
    if (event.type === "record") this.#end(event.record, event.result);
    if (event.type === "log" || event.type === "progress") this.#note(event);
  }

  #note(event: Extract<RackEvent, { type: "log" | "progress" }>): void {
    const line = lineOf(event);
    const noted = this.#noted.get(event.callId);
    if (line === undefined || noted === undefined) return;
    noted.lines ??= new CallLines();
    noted.lines.add(line);
  }

  #begin(event: StateEvent): void {
    const { callId, status } = event;
    const noted = this.#noted.get(callId);
    // One that was refused at once is only told of when it has ended.
    if (noted?.hasBegun || status === "completed" || status === "error") return;
    const depth = noted?.depth ?? this.#depthBelow(event.parentCallId);
    if (noted !== undefined) noted.hasBegun = true;
    else
      this.#noted.set(callId, {
        call: undefined,
        settle: undefined,
        depth,
        hasBegun: true,
        lines: undefined,
      });
    try {
      this.#calls.started(new Beginning(noted?.call ?? this.#unannounced(event), depth, event));
    } catch (thrown) {
      this.#refused(callId, thrown);
    }
  }

  #depthBelow(parentCallId: string | undefined): number {
    return parentCallId === undefined ? 0 : (this.#noted.get(parentCallId)?.depth ?? 0) + 1;
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
    const noted = this.#noted.get(record.callId);
    this.#noted.delete(record.callId);
    const group = this.#writes.begin();
    const settle = (recorded: boolean) => {
      this.#writes.end(group);
      noted?.settle?.({ record, recorded });
    };
    const refuse = (thrown: unknown) => {
      this.#refused(record.callId, thrown);
      settle(false);
    };
    try {
      const whole = this.#wholeText(record);
      const replayOf = noted?.call?.replayOf;
      this.#calls.finished(record, result, replayOf, whole, noted?.lines?.all()).then((safety) => {
        settle(safety === "safe");
        if (safety === "held") this.#endChain(record);
      }, refuse);
    } catch (thrown) {
      refuse(thrown);
    }
  }

  /** What a call makes is not refused where calls are handed in, so the call itself ends when no more can be held. */
  #endChain({ parentCallId }: ToolCallRecord): void {
    if (parentCallId === undefined || !this.#calls.held.isFull) return;
    this.#registry.cancel(
      parentCallId,
      "the store cannot take the records of its calls, and no more are kept",
    );
  }

  /** The caller is given a part of a long result; the store is given all of it, for reading on. */
  #wholeText({ callId, flags }: ToolCallRecord): string | undefined {
    if (flags?.truncated !== true) return undefined;
    return this.#registry.readResult(callId, { limit: Number.POSITIVE_INFINITY })?.text;
  }

  #refused(callId: string, thrown: unknown): void {
    this.#failures++;
    this.#logger.error(`The call ${callId} could not be recorded: ${reasonOf(thrown)}`);
  }

  /** Its caller has been told that the record is safe, and so it is. */
  #keptBack(callId: string, thrown: unknown): void {
    this.#failures++;
    this.#logger.error(
      `The database refuses the record of call ${callId}: ${reasonOf(thrown)}. It stays in the journal, is tried again every second, and is brought in at the next start at the latest.`,
    );
  }
}

/** Of progress, only what it says in words. */
function lineOf(event: Extract<RackEvent, { type: "log" | "progress" }>): CallLine | undefined {
  if (event.type === "log") return { at: event.at, level: event.level, text: event.text };
  const { progress, total, message = "" } = event.update;
  if (message === "") return undefined;
  const share = total === undefined ? "" : ` (${progress}/${total})`;
  return { at: Date.now(), level: "progress", text: `${message.slice(0, LONGEST_MESSAGE)}${share}` };
}

function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** A call as the store is told of it. Most calls end before their arguments are asked for. */
class Beginning implements StartedCall {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly sessionID: string;
  readonly caller: string;
  readonly timestamp: number;
  readonly depth: number;
  readonly #event: StateEvent;

  constructor(call: AnnouncedCall, depth: number, event: StateEvent) {
    this.callId = call.callId;
    if (call.parentCallId !== undefined) this.parentCallId = call.parentCallId;
    this.toolName = call.toolName;
    this.displayName = call.displayName;
    this.sessionID = call.sessionID;
    this.caller = call.caller;
    this.timestamp = call.timestamp;
    this.depth = depth;
    this.#event = event;
  }

  get parameters(): Record<string, unknown> {
    return this.#event.state.input;
  }
}

/** Writes under way, in groups: who waits for them waits for those of its time, however many come after. */
class OpenWrites {
  #group: WriteGroup = { open: 0, settled: undefined };
  readonly #awaited = new Set<WriteGroup>();

  begin(): WriteGroup {
    this.#group.open++;
    return this.#group;
  }

  end(group: WriteGroup): void {
    group.open--;
    if (group.open > 0 || group.settled === undefined) return;
    this.#awaited.delete(group);
    group.settled.resolve();
  }

  async settled(): Promise<void> {
    if (this.#group.open > 0) {
      this.#group.settled = Promise.withResolvers();
      this.#awaited.add(this.#group);
      this.#group = { open: 0, settled: undefined };
    }
    await Promise.all(Array.from(this.#awaited, ({ settled }) => settled?.promise));
  }
}

interface WriteGroup {
  open: number;
  /** Set once somebody waits for it; then no write joins it any more. */
  settled: PromiseWithResolvers<void> | undefined;
}
