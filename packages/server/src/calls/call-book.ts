import { randomFillSync } from "node:crypto";
import type { Span } from "@opentelemetry/api";
import type {
  ProgressUpdate,
  RackEvent,
  ToolCallRecord,
  ToolRegistry,
  ToolResult,
  ToolState,
} from "@toolrack/core";
import { type Grant, masterGrant } from "../access/index.ts";
import { currentCall } from "../helpers/current-call.ts";
import type { CallLine, StartedCall } from "../store/index.ts";
import { callToolName } from "./meta-tools.ts";

export type StateEvent = Extract<RackEvent, { type: "state" }>;
export type LogEvent = Extract<RackEvent, { type: "log" }>;

/** What is known of a call before it begins. */
export type AnnouncedCall = Omit<StartedCall, "parameters"> & { readonly replayOf?: string };

/** Is told of a call while it is under way. */
export interface CallWatcher {
  state?(state: ToolState): void;
  progress?(update: ProgressUpdate): void;
  log?(line: LogEvent): void;
}

export interface RecordedCall {
  readonly record: ToolCallRecord;
  /** False when the record is not safe: the store refused it, or cannot take it now. The call happened all the same. */
  readonly recorded: boolean;
}

/** Whoever made the first call of a chain. */
interface Origin {
  readonly caller: string;
  readonly isAdmin: boolean;
}

/** All that the server knows of a call under way. */
export class LiveCall implements StartedCall {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly sessionID: string;
  readonly caller: string;
  readonly timestamp: number;
  readonly depth: number;
  /** The call that this one repeats. */
  readonly replayOf: string | undefined;
  readonly origin: Origin | undefined;
  /** Undefined for a call that was not handed in by a surface, such as one that a tool makes. */
  readonly grant: Grant | undefined;
  watcher: CallWatcher | undefined;
  /** Its first state; undefined until it begins. */
  beginning: StateEvent | undefined = undefined;
  span: Span | undefined = undefined;
  /** Made for the first line: most calls say nothing. */
  lines: CallLines | undefined = undefined;
  /** Set while it waits for somebody's answer: stops looking whether its caller's token is still good. */
  endWaiting: (() => void) | undefined = undefined;
  /** Is told once the call has ended and its record is safe. */
  settle: ((recorded: RecordedCall) => void) | undefined = undefined;

  constructor(
    call: AnnouncedCall,
    depth: number,
    origin: Origin | undefined,
    grant?: Grant,
    watcher?: CallWatcher,
  ) {
    this.callId = call.callId;
    if (call.parentCallId !== undefined) this.parentCallId = call.parentCallId;
    this.toolName = call.toolName;
    this.displayName = call.displayName;
    this.sessionID = call.sessionID;
    this.caller = call.caller;
    this.timestamp = call.timestamp;
    this.depth = depth;
    this.replayOf = call.replayOf;
    this.origin = origin;
    this.grant = grant;
    this.watcher = watcher;
  }

  /** Masked. Read only when it is written that the call has begun: most calls end before. */
  get parameters(): Record<string, unknown> {
    return this.beginning?.state.input ?? {};
  }
}

/** Is told of every call of the rack. Must not throw. */
export interface CallFollower {
  begun?(call: LiveCall, event: StateEvent): void;
  /** Somebody is asked, and the call waits for the answer; or it waits no more. */
  waits?(call: LiveCall, isWaiting: boolean): void;
  /** `call` is undefined for one that was refused before it began. */
  ended?(call: LiveCall | undefined, record: ToolCallRecord, result: ToolResult): void;
}

/** Timers that a call set may make calls long after it has ended, but not for ever. */
const MOST_REMEMBERED = 10_000;
/** Callers that act for the operator of the workspace: the program itself, its command line, and its own token. */
const operators: ReadonlySet<string> = new Set(["", "cli", masterGrant.caller]);

/**
 * The calls under way on a rack, each with all that is known of it. Also knows who is behind a call: one that a tool makes
 * names that tool as its caller, or whatever the tool says; rights and rules are those of whoever made the first call of the
 * chain.
 */
export class CallBook {
  readonly registry: ToolRegistry;
  readonly #live = new Map<string, LiveCall>();
  readonly #followers: CallFollower[] = [];
  /** Origins of calls that have ended. Two halves, of which the older one gives way whole. */
  #ended = new Map<string, Origin>();
  #endedBefore = new Map<string, Origin>();
  readonly #unsubscribe: () => void;

  /** To be made before any call is. */
  constructor(registry: ToolRegistry) {
    this.registry = registry;
    this.#unsubscribe = registry.subscribe(this.#listen, ["state", "progress", "log", "waiting", "record"]);
  }

  /** Returns a function that ends it. */
  follow(follower: CallFollower): () => void {
    this.#followers.push(follower);
    return () => {
      const at = this.#followers.indexOf(follower);
      if (at >= 0) this.#followers.splice(at, 1);
    };
  }

  /** To be called right before a surface makes a call. It stays in the book until `leave`. */
  enter(call: AnnouncedCall, grant: Grant, watcher?: CallWatcher): LiveCall {
    const origin = { caller: grant.caller, isAdmin: grant.admin };
    const live = new LiveCall(call, call.depth ?? 0, origin, grant, watcher);
    this.#live.set(call.callId, live);
    return live;
  }

  leave(call: LiveCall): void {
    this.#live.delete(call.callId);
  }

  /** The call, while it is under way. */
  get(callId: string): LiveCall | undefined {
    return this.#live.get(callId);
  }

  /** The caller of the first call of the chain. Undefined when it is not known any more. */
  of(callId: string): string | undefined {
    return this.#originOf(callId)?.caller;
  }

  /**
   * Whether whoever made the first call has an admin grant. So has the program itself: its command line, and the code of
   * whoever uses it as a library and names no other caller. Nobody who is not known any more has one.
   */
  isAdmin(callId: string): boolean {
    return this.#originOf(callId)?.isAdmin === true;
  }

  close(): void {
    this.#unsubscribe();
  }

  #originOf(callId: string): Origin | undefined {
    return this.#live.get(callId)?.origin ?? this.#ended.get(callId) ?? this.#endedBefore.get(callId);
  }

  readonly #listen = (event: RackEvent): void => {
    switch (event.type) {
      case "state": {
        const { callId, status } = event;
        const isOver = status === "completed" || status === "error";
        let call = this.#live.get(callId);
        if (!isOver && call?.beginning === undefined) {
          call ??= this.#take(event);
          call.beginning = event;
          for (const follower of this.#followers) follower.begun?.(call, event);
        }
        if (call?.watcher?.state !== undefined) call.watcher.state(event.state);
        return;
      }
      case "progress":
      case "log":
        this.#say(event);
        return;
      case "waiting": {
        const call = this.#live.get(event.callId);
        if (call !== undefined) for (const each of this.#followers) each.waits?.(call, event.isWaiting);
        return;
      }
      case "record": {
        const { record, result } = event;
        const call = this.#live.get(record.callId);
        if (call?.origin !== undefined) {
          this.#ended.set(record.callId, call.origin);
          if (this.#ended.size >= MOST_REMEMBERED / 2) {
            this.#endedBefore = this.#ended;
            this.#ended = new Map();
          }
        }
        if (call?.grant === undefined) this.#live.delete(record.callId);
        for (const follower of this.#followers) follower.ended?.(call, record, result);
      }
    }
  };

  /** Takes up a call that no surface has handed in. */
  #take(event: StateEvent): LiveCall {
    const { callId, parentCallId, toolName, sessionID, caller } = event;
    // It may be called by an alias.
    const info = this.registry.get(toolName);
    const name = info?.name ?? toolName;
    const call = {
      callId,
      ...(parentCallId === undefined ? {} : { parentCallId }),
      toolName: name,
      displayName: info?.displayName ?? name,
      sessionID,
      caller,
      timestamp: Date.now(),
    };
    const parent = parentCallId === undefined ? undefined : this.#live.get(parentCallId);
    const depth = parentCallId === undefined ? 0 : (parent?.depth ?? 0) + 1;
    // This runs inside the call that makes the new one, also when that has ended and a timer of it goes on.
    const maker = parentCallId ?? currentCall.getStore()?.callId;
    const origin = maker === undefined ? { caller, isAdmin: operators.has(caller) } : this.#originOf(maker);
    // What is called through `toolrack_call` stands for it, so that who watches the one is told of the other.
    const { progress, log } = (parent?.toolName === callToolName && parent.watcher) || {};
    const watcher = { ...(progress && { progress }), ...(log && { log }) };
    const live = new LiveCall(call, depth, origin, undefined, watcher);
    this.#live.set(callId, live);
    return live;
  }

  #say(event: Extract<RackEvent, { type: "log" | "progress" }>): void {
    const call = this.#live.get(event.callId);
    if (call === undefined) return;
    const line = lineOf(event);
    if (line !== undefined) {
      call.lines ??= new CallLines();
      call.lines.add(line);
    }
    if (event.type === "log") call.watcher?.log?.(event);
    else call.watcher?.progress?.(event.update);
  }
}

/** Characters of what a tool says with its progress. */
const LONGEST_MESSAGE = 2_000;

/** Of progress, only what it says in words. */
function lineOf(event: Extract<RackEvent, { type: "log" | "progress" }>): CallLine | undefined {
  if (event.type === "log") return { at: event.at, level: event.level, text: event.text };
  const { progress, total, message = "" } = event.update;
  if (message === "") return undefined;
  const share = total === undefined ? "" : ` (${progress}/${total})`;
  return { at: Date.now(), level: "progress", text: `${message.slice(0, LONGEST_MESSAGE)}${share}` };
}

/** Lines and bytes of each half. */
const MOST_LINES = 100;
const MOST_BYTES = 16 * 1024;

/** The lines of one call. Of more than may be kept, the first and the last are: what began it, and how it ended. */
export class CallLines {
  readonly #first = new Half();
  readonly #last = new Half();
  #isFull = false;
  #leftOut = 0;

  add(line: CallLine): void {
    this.#isFull ||= !this.#first.takes(line);
    if (!this.#isFull) {
      this.#first.add(line);
      return;
    }
    while (!this.#last.takes(line)) {
      this.#last.dropOldest();
      this.#leftOut++;
    }
    this.#last.add(line);
  }

  /** In order. A note stands where lines were left out. */
  all(): CallLine[] {
    const [next] = this.#last.lines;
    if (this.#leftOut === 0 || next === undefined) return [...this.#first.lines, ...this.#last.lines];
    const text = `${this.#leftOut} ${this.#leftOut === 1 ? "line was" : "lines were"} left out here.`;
    return [...this.#first.lines, { at: next.at, level: "note", text }, ...this.#last.lines];
  }
}

class Half {
  readonly lines: CallLine[] = [];
  #bytes = 0;

  /** Always true of the first line, so that one line is never too long. */
  takes({ text }: CallLine): boolean {
    if (this.lines.length === 0) return true;
    return this.lines.length < MOST_LINES && this.#bytes + Buffer.byteLength(text) <= MOST_BYTES;
  }

  add(line: CallLine): void {
    this.lines.push(line);
    this.#bytes += Buffer.byteLength(line.text);
  }

  dropOldest(): void {
    this.#bytes -= Buffer.byteLength(this.lines.shift()?.text ?? "");
  }
}

/** Random digits are made in stock: asking for random bytes costs more than all the rest. */
const stock = Buffer.alloc(4096);
const DIGITS = 16;
let random = "";
let used = 0;
/** The millisecond of the last id, how it is written, and how many ids it has: at most 4,096 have an order. */
let time = 0;
let timeText = "";
let count = 0;
const MOST_COUNT = 0xfff;

/** A UUID of version 7: by their text, the ids of this process are in the order in which they were made. */
export function newCallId(): string {
  const now = Date.now();
  if (now > time || count === MOST_COUNT) {
    time = Math.max(now, time + 1);
    count = 0;
    const digits = time.toString(16).padStart(12, "0");
    timeText = `${digits.slice(0, 8)}-${digits.slice(8)}-7`;
  } else count++;
  if (used === random.length) {
    random = randomFillSync(stock).toString("hex");
    used = 0;
  }
  const from = used;
  used += DIGITS;
  // The first two bits of the fourth group say which kind of UUID it is.
  const kind = "89ab"[random.charCodeAt(from) & 3];
  const order = (0x1000 + count).toString(16).slice(1);
  return `${timeText}${order}-${kind}${random.slice(from + 1, from + 4)}-${random.slice(from + 4, from + DIGITS)}`;
}
