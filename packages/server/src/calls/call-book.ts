import { randomFillSync } from "node:crypto";
import type { Span } from "@opentelemetry/api";
import type {
  AdmittedCall,
  CallClient,
  ProgressUpdate,
  RackEvent,
  ToolCallRecord,
  ToolError,
  ToolRegistry,
  ToolResult,
  ToolState,
} from "@toolrack/core";
import { type Grant, masterGrant } from "../access/index.ts";
import { currentCall } from "../helpers/current-call.ts";
import { PassingMap } from "../helpers/index.ts";
import type { CallLine, CallTrace, StartedCall } from "../store/index.ts";
import { traceOf } from "./call-trace.ts";
import { callToolName } from "./meta-tools.ts";

export type StateEvent = Extract<RackEvent, { type: "state" }>;
export type LogEvent = Extract<RackEvent, { type: "log" }>;

export type AnnouncedCall = Omit<StartedCall, "parameters"> & {
  readonly replayOf?: string | undefined;
  readonly via?: string | undefined;
  readonly resumedAt?: number | undefined;
};

/** Receives the events of one call while it is under way. */
export interface CallWatcher {
  state?(state: ToolState): void;
  progress?(update: ProgressUpdate): void;
  log?(line: LogEvent): void;
  /** Called when the call begins to wait for an answer of a person or of its caller, and when it waits no more. */
  waits?(isWaiting: boolean): void;
}

export interface RecordedCall {
  readonly record: ToolCallRecord;
  /** False when the store refused the record or cannot take it now. The call happened all the same. */
  readonly recorded: boolean;
  /** Another process has the call of a lane by now, or has ended it: how it ended here does not count. */
  readonly isTaken?: boolean;
  /** Where in its author's files the tool failed. For admins only: it names files of the server. */
  readonly trace?: CallTrace | undefined;
}

/** The headers of an HTTP request, by their names in lower case. */
export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** How the names of the headers begin by which callers give their own values for upstream servers. */
export const callerHeaders = "x-toolrack-caller-";

/** A client's connection to the rack: a session of MCP over HTTP, or the client of a process over stdio. */
export interface ClientConnection {
  /** No two connections share it. */
  readonly id: string;
  /** Calls the listener once, when the connection has ended. Returns a function that takes the listener away. */
  whenClosed(listener: () => void): () => void;
}

/** Who made the first call of a chain, and how it reached the rack. */
export interface Origin {
  /** The first call. Undefined when no recorded call began the chain. */
  readonly callId?: string;
  readonly caller: string;
  readonly isAdmin: boolean;
  /** The id of the caller's token; `master` for the operator. */
  readonly owner: string;
  /** The session that the caller named; empty when it named none. */
  readonly sessionID: string;
  readonly connection: ClientConnection | undefined;
  /** Forgotten when the first call has ended, because they may hold credentials of the caller. */
  headers: RequestHeaders | undefined;
  /** The caller's program, if it can be asked questions while the first call runs. */
  client?: CallClient | undefined;
}

/** What a process that performs a call must know of it to record it, as plain JSON. */
export interface CallHandover
  extends Pick<AnnouncedCall, "displayName" | "timestamp" | "rootCallId" | "replayOf" | "via" | "expert"> {
  readonly origin: Omit<Origin, "connection" | "client"> | undefined;
}

/** How a surface was asked for a call. */
export interface CallEntrance {
  readonly grant: Grant;
  readonly watcher?: CallWatcher | undefined;
  readonly connection?: ClientConnection | undefined;
  /** The session was made for one request, so that nothing at an upstream server belongs to it. */
  readonly isPassingSession?: boolean | undefined;
  /** The headers of the HTTP request by which the caller made the call. */
  readonly headers?: RequestHeaders | undefined;
  readonly client?: CallClient | undefined;
}

/** The origin of what the program itself, its command line and the master token ask for. */
export const operatorOrigin: Origin = Object.freeze({
  caller: "",
  isAdmin: true,
  owner: masterGrant.id,
  sessionID: "",
  connection: undefined,
  headers: undefined,
});

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
  /** The id of the call that this one repeats. */
  readonly replayOf: string | undefined;
  /** By what the caller made the call, such as an MCP client. Undefined for a call that a tool makes. */
  readonly via: string | undefined;
  /** The name of the expert as whom the caller makes the call. */
  readonly expert: string | undefined;
  /** The line of the program that made the call. */
  readonly line: number | undefined;
  /** When this process went on with the call, which another one began at `timestamp`. */
  readonly resumedAt: number | undefined;
  readonly origin: Origin | undefined;
  readonly owner: string;
  readonly rootCallId: string | undefined;
  /** Undefined for a call that no surface made, such as one that a tool makes. */
  readonly grant: Grant | undefined;
  watcher: CallWatcher | undefined;
  /** The call's first state event; undefined until the call begins. */
  beginning: StateEvent | undefined = undefined;
  span: Span | undefined = undefined;
  /** Made when the call logs its first line: most calls log nothing. */
  lines: CallLines | undefined = undefined;
  /** Stops watching the caller's token. Set only while the call waits for an answer. */
  endWaiting: (() => void) | undefined = undefined;
  /** The lane whose worker performs the call. */
  lane: string | undefined = undefined;
  /** Whether the worker that performed the call has stored its record. Undefined for a call that ended here. */
  isRecorded: boolean | undefined = undefined;
  /**
   * True when the server stops and the call goes on at the next start: its end here is not recorded, so that the store has
   * it as running.
   */
  isLeft = false;
  /** What became of the id that the caller chose: `open` until the hand-over of the call claims it, `taken` when another has it. */
  claim: "open" | "taken" | undefined = undefined;
  /** Called when the call has ended and it is known whether its record is stored. */
  settle: ((recorded: RecordedCall) => void) | undefined = undefined;

  constructor(
    call: AnnouncedCall,
    depth: number,
    origin: Origin | undefined,
    grant?: Grant,
    watcher?: CallWatcher,
  ) {
    this.callId = call.callId;
    this.parentCallId = call.parentCallId;
    this.toolName = call.toolName;
    this.displayName = call.displayName;
    this.sessionID = call.sessionID;
    this.caller = call.caller;
    this.timestamp = call.timestamp;
    this.depth = depth;
    this.replayOf = call.replayOf;
    this.via = call.via;
    this.expert = call.expert;
    this.line = call.line;
    this.resumedAt = call.resumedAt;
    this.origin = origin;
    this.owner = origin === undefined || origin.owner === masterGrant.id ? "" : origin.caller;
    this.rootCallId = call.rootCallId;
    this.grant = grant;
    this.watcher = watcher;
  }

  /**
   * The call's arguments, with secrets masked. Read only when the store writes that the call has begun; most
   * calls end before that.
   */
  get parameters(): Record<string, unknown> {
    return this.beginning?.state.input ?? {};
  }
}

/** Receives the events of every call of the rack. Must not throw. */
export interface CallFollower {
  begun?(call: LiveCall, event: StateEvent): void;
  /**
   * Called when the call begins to wait for an answer from a person or from its caller, and when it stops
   * waiting.
   */
  waits?(call: LiveCall, isWaiting: boolean): void;
  /** `call` is undefined for a call that was refused before it began. */
  ended?(
    call: LiveCall | undefined,
    record: ToolCallRecord,
    result: ToolResult,
    /** Where in its author's files the tool failed. */
    trace: CallTrace | undefined,
    /** What the tool threw, or the reason why it was not run. */
    error: ToolError | undefined,
  ): void;
}

/**
 * How many ended calls have their origin remembered: a timer that a call started may make calls long after
 * the call has ended.
 */
const MOST_ORIGINS = 10_000;
/** Callers that act for the operator: the program itself, its command line, and the master token. */
const operators: ReadonlySet<string> = new Set(["", "cli", masterGrant.caller]);

/**
 * The calls under way on a rack. Also knows the caller of the first call of each chain. A nested call names
 * as its caller the tool that made it, or a name that this tool chose, but has the rights and approval rules
 * of the chain's first caller.
 */
export class CallBook {
  readonly registry: ToolRegistry;
  readonly #workspace: string;
  readonly #live = new PassingMap<string, LiveCall>();
  readonly #followers: CallFollower[] = [];
  /**
   * Origins of calls that have ended. When `#ended` is full, it becomes `#endedBefore`, and the origins that
   * were there are forgotten.
   */
  #ended = new Map<string, Origin>();
  #endedBefore = new Map<string, Origin>();
  readonly #unsubscribe: () => void;

  /** Must be created before the first call. `workspace`: the absolute path of the folder that the tools are in. */
  constructor(registry: ToolRegistry, workspace = process.cwd()) {
    this.registry = registry;
    this.#workspace = workspace;
    this.#unsubscribe = registry.subscribe(this.#listen, ["state", "progress", "log", "waiting", "record"]);
  }

  /** Returns a function that stops following. */
  follow(follower: CallFollower): () => void {
    this.#followers.push(follower);
    return () => {
      const at = this.#followers.indexOf(follower);
      if (at >= 0) this.#followers.splice(at, 1);
    };
  }

  /** Must be called right before a surface makes a call. The call stays in the book until `leave`. */
  enter(call: AnnouncedCall, entrance: CallEntrance): LiveCall {
    const { grant, watcher, connection, headers, client } = entrance;
    const { caller, admin: isAdmin, id: owner } = grant;
    const sessionID = entrance.isPassingSession ? "" : call.sessionID;
    const origin = { callId: call.callId, caller, isAdmin, owner, sessionID, connection, headers, client };
    const live = new LiveCall(call, call.depth ?? 0, origin, grant, watcher);
    this.#live.set(call.callId, live);
    return live;
  }

  /** What another process must know of a call to perform it. */
  handoverOf(call: LiveCall): CallHandover {
    const { displayName, timestamp, rootCallId, replayOf, via, expert, origin } = call;
    const { connection: _, client: __, headers = {}, ...plain } = origin ?? operatorOrigin;
    // Of the headers, only the caller's own values for upstream servers are for tools.
    const own = Object.entries(headers).filter(([name]) => name.startsWith(callerHeaders));
    const handed = origin && { ...plain, headers: Object.fromEntries(own) };
    return { displayName, timestamp, rootCallId, replayOf, via, expert, origin: handed };
  }

  /** Must be called right before a call is performed that another process admitted. Resolves when its record is stored or refused. */
  enterAdmitted(call: AdmittedCall, lane: string, handover: CallHandover): Promise<RecordedCall> {
    const { callId, toolName, depth, parentCallId, options } = call;
    const { origin, ...announced } = handover;
    const { sessionID = "", caller = "" } = options;
    const live = new LiveCall(
      { ...announced, callId, toolName, sessionID, caller, ...(parentCallId && { parentCallId }) },
      depth,
      origin && { ...origin, connection: undefined },
    );
    live.lane = lane;
    this.#live.set(callId, live);
    const recording = Promise.withResolvers<RecordedCall>();
    live.settle = recording.resolve;
    return recording.promise;
  }

  leave(call: LiveCall): void {
    const { origin } = call;
    if (origin !== undefined) {
      origin.headers = undefined;
      origin.client = undefined;
    }
    this.#live.entries.delete(call.callId);
  }

  get(callId: string): LiveCall | undefined {
    return this.#live.entries.get(callId);
  }

  /**
   * The caller of the first call of the chain that this call belongs to. Undefined when that caller is no
   * longer known.
   */
  firstCallerOf(callId: string): string | undefined {
    return this.originOf(callId)?.caller;
  }

  /**
   * Whether the first caller of the chain that this call belongs to has an admin's rights. The command line
   * has them, and so has code that uses the program as a library and names no other caller. False when the
   * first caller is no longer known.
   */
  isAdmin(callId: string): boolean {
    return this.originOf(callId)?.isAdmin === true;
  }

  /** Who made the first call of the chain that this call belongs to. Undefined when that is no longer known. */
  originOf(callId: string): Origin | undefined {
    return this.#live.entries.get(callId)?.origin ?? this.#ended.get(callId) ?? this.#endedBefore.get(callId);
  }

  /** The owner of a call that was refused before it began. */
  ownerOfRefused({ caller, parentCallId }: ToolCallRecord): string {
    const first = parentCallId === undefined ? caller : this.firstCallerOf(parentCallId);
    return first === undefined || operators.has(first) ? "" : first;
  }

  /** The first call of a chain that a new call belongs to. Undefined without a parent, or when it is no longer known. */
  rootUnder(parentCallId: string | undefined): string | undefined {
    if (parentCallId === undefined) return undefined;
    const parent = this.#live.entries.get(parentCallId);
    return parent === undefined ? this.originOf(parentCallId)?.callId : (parent.rootCallId ?? parentCallId);
  }

  close(): void {
    this.#unsubscribe();
  }

  readonly #listen = (event: RackEvent): void => {
    switch (event.type) {
      case "state": {
        const { callId, status } = event;
        const isOver = status === "completed" || status === "error";
        let call = this.#live.entries.get(callId);
        if (!isOver && call?.beginning === undefined) {
          call ??= this.#enterNested(event);
          call.beginning = event;
          for (const follower of this.#followers) follower.begun?.(call, event);
        }
        if (call?.watcher?.state !== undefined) call.watcher.state(event.state);
        return;
      }
      case "progress":
      case "log":
        this.#addLine(event);
        return;
      case "waiting": {
        const call = this.#live.entries.get(event.callId);
        if (call !== undefined) for (const each of this.#followers) each.waits?.(call, event.isWaiting);
        call?.watcher?.waits?.(event.isWaiting);
        return;
      }
      case "record": {
        const { record, result, error } = event;
        const call = this.#live.entries.get(record.callId);
        if (call?.origin !== undefined) {
          this.#ended.set(record.callId, call.origin);
          if (this.#ended.size >= MOST_ORIGINS / 2) {
            this.#endedBefore = this.#ended;
            this.#ended = new Map();
          }
        }
        if (call?.grant === undefined) this.#live.entries.delete(record.callId);
        const trace = error && traceOf(error, record, this.#workspace);
        for (const follower of this.#followers) follower.ended?.(call, record, result, trace, error);
      }
    }
  };

  /** Adds a call that no surface made, such as one that a tool makes. */
  #enterNested(event: StateEvent): LiveCall {
    const { callId, parentCallId, toolName, sessionID, caller, line } = event;
    // The name may be an alias.
    const info = this.registry.get(toolName);
    const name = info?.name ?? toolName;
    const displayName = info?.displayName ?? name;
    const timestamp = Date.now();
    const rootCallId = this.rootUnder(parentCallId);
    const call = {
      ...{ callId, parentCallId, rootCallId, toolName: name },
      ...{ displayName, sessionID, caller, timestamp, line },
    };
    const parent = parentCallId === undefined ? undefined : this.#live.entries.get(parentCallId);
    const depth = parentCallId === undefined ? 0 : (parent?.depth ?? 0) + 1;
    // This runs in the async context of the call that makes the new one, even when that call has ended and only its
    // timer goes on.
    const makerId = parentCallId ?? currentCall.getStore()?.callId;
    const isAdmin = operators.has(caller);
    const origin =
      makerId === undefined
        ? { ...operatorOrigin, callId, caller, isAdmin, owner: isAdmin ? masterGrant.id : caller, sessionID }
        : this.originOf(makerId);
    // The watcher of a `toolrack_call` also gets the progress and the log lines of the tool that it calls.
    const { progress, log } = (parent?.toolName === callToolName && parent.watcher) || {};
    const live = new LiveCall(call, depth, origin, undefined, { progress, log });
    this.#live.set(callId, live);
    return live;
  }

  #addLine(event: Extract<RackEvent, { type: "log" | "progress" }>): void {
    const call = this.#live.entries.get(event.callId);
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

/** How many characters of a progress message are kept. */
const LONGEST_MESSAGE = 2_000;

/** Progress without a message makes no line. */
function lineOf(event: Extract<RackEvent, { type: "log" | "progress" }>): CallLine | undefined {
  if (event.type === "log") return { at: event.at, level: event.level, text: event.text };
  const { progress, total, message = "" } = event.update;
  if (message === "") return undefined;
  const share = total === undefined ? "" : ` (${progress}/${total})`;
  return { at: Date.now(), level: "progress", text: `${message.slice(0, LONGEST_MESSAGE)}${share}` };
}

/** How many lines each half of `CallLines` keeps. */
const MOST_LINES = 100;
/** How many bytes of text each half keeps. A single line may be longer. */
const MOST_BYTES = 16 * 1024;

/**
 * The log and progress lines of one call. When there are too many, the first and the last are kept, and those
 * between are dropped.
 */
export class CallLines {
  readonly #first: Half = { lines: [], bytes: 0 };
  readonly #last: Half = { lines: [], bytes: 0 };
  #isFull = false;
  #leftOut = 0;

  add(line: CallLine): void {
    const bytes = Buffer.byteLength(line.text);
    this.#isFull ||= !hasRoom(this.#first, bytes);
    const half = this.#isFull ? this.#last : this.#first;
    for (; !hasRoom(half, bytes); this.#leftOut++) half.bytes -= Buffer.byteLength(half.lines.shift()!.text);
    half.lines.push(line);
    half.bytes += bytes;
  }

  /** Returns the lines in order, with a note where lines were dropped. */
  all(): CallLine[] {
    const first = this.#first.lines;
    const last = this.#last.lines;
    if (this.#leftOut === 0) return [...first, ...last];
    const text = `${this.#leftOut} ${this.#leftOut === 1 ? "line was" : "lines were"} left out here.`;
    return [...first, { at: last[0]!.at, level: "note", text }, ...last];
  }
}

interface Half {
  readonly lines: CallLine[];
  bytes: number;
}

/** Whether a half has room for a line of `more` bytes. Its first line may have any length. */
function hasRoom({ lines, bytes }: Half, more: number): boolean {
  return lines.length === 0 || (lines.length < MOST_LINES && bytes + more <= MOST_BYTES);
}

/** Random digits are made in advance: asking for random bytes costs more than making the rest of an id. */
const stock = Buffer.alloc(4096);
const DIGITS = 16;
let random = "";
let used = 0;
/**
 * The millisecond in the last id. It may be ahead of the clock, because one millisecond has room for only
 * 4,096 ids.
 */
let time = 0;
/** `time` as the beginning of an id. */
let timeText = "";
/** How many ids before the last one have the same millisecond. */
let count = 0;
const MOST_COUNT = 0xfff;

/** A UUID of version 7. Sorted as text, the ids of one process are in the order in which they were made. */
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
