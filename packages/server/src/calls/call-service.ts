import {
  type CallClient,
  type CallOptions,
  IdTable,
  type Logger,
  type ProgressUpdate,
  type RackEvent,
  type ToolInfo,
  type ToolRegistry,
  type ToolResult,
  type ToolState,
} from "@toolrack/core";
import type { CallOrigins } from "../access/index.ts";
import { type Grant, GrantWatch, masterGrant } from "../access/index.ts";
import type { CallStore, HeldRecords, Store } from "../store/index.ts";
import { CallPlaces, newCallId, WaitingCalls } from "./live-calls.ts";
import { callToolName, isMetaTool } from "./meta-tools.ts";
import { type AnnouncedCall, CallRecorder, type RecordedCall } from "./recorder.ts";
import { CallSpans } from "./spans.ts";

/** A call as a request asks for it. */
export interface CallRequest {
  readonly name: string;
  readonly input: unknown;
  readonly grant: Grant;
  /** Cancels the call. */
  readonly signal?: AbortSignal;
  /** Is given what cancels the call as soon as it is under way; costs less than a signal, which most calls never need. */
  readonly begun?: (cancel: (reason: string) => void) => void;
  /** What carries a trace on: `traceparent`, `tracestate`, `baggage`. */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
  /** A smaller set than the bearer's own, such as that of an expert. */
  readonly allow?: (tool: ToolInfo) => boolean;
  /** The caller, when it can be asked something while the call runs. */
  readonly client?: CallClient;
  readonly callId?: string;
  readonly sessionID?: string;
  readonly messageID?: string;
  readonly timeout?: number;
  /** Only tools of the sandbox have a dry run: whoever asks for one makes sure that the tool is such. */
  readonly dryRun?: boolean;
  /** The call that this one repeats. */
  readonly replayOf?: string;
  readonly watcher?: CallWatcher;
}

/** Is told of a call while it is under way. */
interface CallWatcher {
  state?(state: ToolState): void;
  progress?(update: ProgressUpdate): void;
  log?(line: LogEvent): void;
}

export type LogEvent = Extract<RackEvent, { type: "log" }>;

export interface EndedCall extends RecordedCall {
  readonly callId: string;
  readonly result: ToolResult;
}

interface CallDeskParts {
  readonly registry: ToolRegistry;
  readonly calls: CallStore;
  readonly recorder: CallRecorder;
  readonly spans: CallSpans;
  readonly grants: GrantWatch;
  /** Is told with which grant a call is made: what tools may touch depends on it. */
  readonly origins: Pick<CallOrigins, "announce">;
  readonly maxCallsPerTool: number;
}

/** A call under way, and who made it. */
interface HandedIn extends AnnouncedCall {
  readonly grant: Grant;
}

/** Where requests hand in calls: it gives them ids, limits them, has them recorded and knows those under way. */
export class CallDesk {
  readonly #parts: CallDeskParts;
  readonly #active = new IdTable<HandedIn>();
  readonly #watchers = new IdTable<CallWatcher>();
  readonly #places: CallPlaces;
  readonly #waiting: WaitingCalls;
  #onIdle: (() => void) | undefined;
  readonly #unsubscribe: () => void;
  #promised = 0;

  constructor(parts: CallDeskParts) {
    this.#parts = parts;
    this.#places = new CallPlaces(parts.maxCallsPerTool);
    this.#waiting = new WaitingCalls(parts.grants, (callId, why) => parts.registry.cancel(callId, why));
    this.#unsubscribe = parts.registry.subscribe((event) => this.#listen(event));
  }

  /**
   * Makes the call and resolves when its record is safe. Rejects with `CallRefused` only for what never became a
   * call: a tool that the bearer may not see, an id that is taken, too many calls at once, a record that could not be kept.
   */
  async run(request: CallRequest): Promise<EndedCall> {
    const { registry, recorder, spans, origins } = this.#parts;
    let call: HandedIn | undefined;
    this.#promised++;
    try {
      const info = registry.get(request.name);
      call = this.#enter(request, info);
      const { callId, toolName } = call;
      if (request.callId !== undefined) await this.#claim(call);
      this.#active.set(callId, call);
      if (request.watcher !== undefined) this.#watchers.set(callId, request.watcher);
      const recording = recorder.announce(call);
      origins.announce(callId, request.grant);
      const running = spans.run({ callId, toolName, info }, request.headers, () =>
        registry.execute(request.name, request.input, optionsOf(request, callId, this.#withdrawn)),
      );
      request.begun?.((reason) => registry.cancel(callId, reason));
      const result = await running;
      const { record, recorded } = await recording;
      return { callId, result, record, recorded };
    } finally {
      if (call !== undefined) this.#leave(call);
      this.#promised--;
      this.#noteIdle();
    }
  }

  /** A call under way that came through this desk. */
  find(callId: string): AnnouncedCall | undefined {
    return this.#active.get(callId);
  }

  /** Who made the call, while it is under way. */
  callerOf(callId: string): string | undefined {
    return this.#active.get(callId)?.caller;
  }

  /** Whether the call waits for somebody's answer. */
  isWaiting(callId: string): boolean {
    return this.#waiting.has(callId);
  }

  /** To be called when a token was taken back here: ends what it has waiting. Never rejects. */
  dropUnwelcome(): Promise<void> {
    return this.#parts.grants.look();
  }

  /** Lets all calls on the rack end for so many milliseconds, then cancels what is left. */
  async drain(limit: number): Promise<void> {
    await this.#whenIdle(limit);
    const { registry } = this.#parts;
    for (const { callId } of registry.activeCalls()) registry.cancel(callId, "the server is stopping");
    // A cancelled call ends at once, so that only its record is waited for.
    await this.#whenIdle(limit);
    this.#unsubscribe();
  }

  /** Makes the id that a caller chose this call's own, before anything of the call is done. */
  async #claim(call: AnnouncedCall): Promise<void> {
    const { callId } = call;
    // A call under way need not be in the store yet; on a full disk, none is.
    const isKnown = () => this.#parts.registry.getState(callId) !== undefined;
    if (!isKnown() && (await this.#parts.calls.claim({ ...call, parameters: {} })) && !isKnown()) return;
    throw new CallRefused(
      "call_exists",
      `There is a call "${callId}" already. Leave callId out to get a new one.`,
      { callId },
    );
  }

  /** Lets a call in, or throws `CallRefused`. */
  #enter(request: CallRequest, info: ToolInfo | undefined): HandedIn {
    const { grant } = request;
    if (!grant.admin && (info === undefined || !grant.mayUse(info))) {
      throw unknownTool(this.#parts.registry, request.name, limitOf(request));
    }
    if (this.#parts.calls.held.isFull) throw recordsFull(this.#parts.calls.held);
    const toolName = info?.name ?? request.name;
    this.#places.enter({ toolName, caller: grant.caller });
    return announcementOf(request, toolName, info);
  }

  #leave(call: AnnouncedCall): void {
    this.#places.leave(call);
    // Another call may have the id that this one was refused.
    if (this.#active.get(call.callId) !== call) return;
    this.#active.delete(call.callId);
    this.#watchers.delete(call.callId);
    this.#waiting.delete(call.callId);
  }

  #listen(event: RackEvent): void {
    if (event.type === "record") this.#noteIdle();
    if (event.type === "waiting") this.#noteWaiting(event);
    if (this.#watchers.size === 0) return;
    if (event.type === "state") {
      if (event.parentCallId !== undefined) this.#relay(event, event.parentCallId);
      const watcher = this.#watchers.get(event.callId);
      if (watcher?.state !== undefined) watcher.state(event.state);
    }
    if (event.type === "progress") this.#watchers.get(event.callId)?.progress?.(event.update);
    if (event.type === "log") this.#watchers.get(event.callId)?.log?.(event);
  }

  /** What is called through `toolrack_call` stands for it, so that who watches the one is told of the other. */
  #relay({ callId, status }: Extract<RackEvent, { type: "state" }>, parentCallId: string): void {
    if (status === "completed" || status === "error") {
      this.#watchers.delete(callId);
      return;
    }
    if (this.#active.get(parentCallId)?.toolName !== callToolName) return;
    const { progress, log } = this.#watchers.get(parentCallId) ?? {};
    if (progress === undefined && log === undefined) return;
    this.#watchers.set(callId, {
      ...(progress === undefined ? {} : { progress }),
      ...(log === undefined ? {} : { log }),
    });
  }

  #noteWaiting({ callId, isWaiting }: Extract<RackEvent, { type: "waiting" }>): void {
    const call = this.#active.get(callId);
    if (call === undefined) return;
    if (isWaiting) {
      this.#places.waits(call);
      this.#waiting.add(callId, call.grant);
    } else {
      this.#places.goesOn(call);
      this.#waiting.delete(callId);
    }
  }

  /** One for all calls, most of which never need it: why the caller may have nothing run any more. */
  readonly #withdrawn = async (callId: string): Promise<string | undefined> => {
    const call = this.#active.get(callId);
    return call === undefined ? undefined : this.#parts.grants.whyEnded(call.grant);
  };

  #whenIdle(limit: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, limit);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#noteIdle();
    });
  }

  #noteIdle(): void {
    if (this.#onIdle === undefined || this.#promised > 0) return;
    // Other surfaces, and tools that nobody waits for, have calls on the rack too.
    if (this.#parts.registry.activeCalls().length === 0) this.#onIdle();
  }
}

function recordsFull({ records, bytes, reason }: HeldRecords): CallRefused {
  return new CallRefused(
    "store_unavailable",
    `The call was not made: the rack's store cannot take records now, and as many as are kept in memory wait for it already (${records}). Call again when it can; GET /readyz says what is wrong with it.`,
    { reason, heldRecords: records, heldBytes: bytes },
    RETRY_AFTER,
  );
}

/** Seconds after which a call may find a store that takes records again. */
const RETRY_AFTER = 5;

function announcementOf(request: CallRequest, toolName: string, info: ToolInfo | undefined): HandedIn {
  const { grant } = request;
  const call: HandedIn = {
    callId: request.callId ?? newCallId(),
    toolName,
    displayName: info?.displayName ?? toolName,
    sessionID: request.sessionID ?? "",
    caller: grant.caller,
    timestamp: Date.now(),
    grant,
  };
  return request.replayOf === undefined ? call : { ...call, replayOf: request.replayOf };
}

/** Filled in step by step: most calls have few. */
function optionsOf(
  request: CallRequest,
  callId: string,
  withdrawn: NonNullable<CallOptions["withdrawn"]>,
): CallOptions {
  const { client, sessionID, messageID, timeout, grant, signal } = request;
  const allow = limitOf(request);
  const options: { -readonly [Key in keyof CallOptions]: CallOptions[Key] } = {
    callId,
    caller: grant.caller,
  };
  // That of the operator is never taken back.
  if (grant.id !== masterGrant.id) options.withdrawn = withdrawn;
  if (signal !== undefined) options.signal = signal;
  if (allow !== undefined) options.allow = allow;
  if (client !== undefined) options.client = client;
  if (sessionID !== undefined) {
    options.sessionID = sessionID;
    options.sessionOwner = grant.id;
  }
  if (messageID !== undefined) options.messageID = messageID;
  if (timeout !== undefined) options.timeout = timeout;
  if (request.dryRun === true) options.extra = { dryRun: true };
  return options;
}

/** What the whole chain of calls may reach; an admin without further limits needs no asking. */
function limitOf({ grant, allow }: CallRequest): CallRequest["allow"] {
  if (grant.admin) return allow;
  return (tool) => grant.mayUse(tool) && allow?.(tool) !== false;
}

/** What all surfaces of one process share: where calls are handed in, recorded and traced. */
export interface CallOffice {
  readonly desk: CallDesk;
  readonly recorder: CallRecorder;
  /** Lets calls end for so many milliseconds, cancels the rest, and resolves when their records are written. */
  close(limit: number): Promise<void>;
}

interface CallOfficeOptions {
  readonly registry: ToolRegistry;
  readonly store: Pick<Store, "calls" | "tokens" | "follower">;
  readonly origins: Pick<CallOrigins, "announce">;
  readonly logger: Logger;
  /** How many calls of one tool may be under way. Default 256. */
  readonly maxCallsPerTool?: number;
}

export function openCallOffice(options: CallOfficeOptions): CallOffice {
  const { registry, store, origins, logger, maxCallsPerTool = 256 } = options;
  const { calls } = store;
  const recorder = new CallRecorder(registry, calls, logger);
  const spans = new CallSpans();
  const unsubscribe = registry.subscribe(spans.listen);
  const grants = new GrantWatch(store, logger);
  const desk = new CallDesk({ registry, calls, recorder, spans, grants, origins, maxCallsPerTool });
  return {
    desk,
    recorder,
    async close(limit) {
      await desk.drain(limit);
      await recorder.close();
      unsubscribe();
    },
  };
}

type RefusalCode = "tool_not_found" | "call_exists" | "too_many_calls" | "store_unavailable";

/** A call that was never made: every surface says so in its own form. */
export class CallRefused extends Error {
  readonly code: RefusalCode;
  readonly details: Readonly<Record<string, unknown>>;
  /** Seconds after which asking again makes sense. */
  readonly retryAfter: number | undefined;

  constructor(
    code: RefusalCode,
    message: string,
    details: Readonly<Record<string, unknown>>,
    retryAfter?: number,
  ) {
    super(message);
    this.name = "CallRefused";
    this.code = code;
    this.details = details;
    this.retryAfter = retryAfter;
  }
}

/**
 * The same words for a tool that is not there and one that must not be seen. The nearest names are of those that may be.
 */
export function unknownTool(
  registry: Pick<ToolRegistry, "notFound">,
  name: string,
  mayUse: ((tool: ToolInfo) => boolean) | undefined,
): CallRefused {
  // Where these are listed, something else is said.
  const isListed = (tool: ToolInfo) => !isMetaTool(tool.name) && (mayUse?.(tool) ?? true);
  const { message, data } = registry.notFound(name, isListed);
  return new CallRefused("tool_not_found", message, { toolName: name, ...data });
}

const reference = /^["']?@?tool:\/\/([^\s"'/?#]+)["']?$/;

/** The name in `tool://name` or `@tool://name`; nothing when it is no such reference. */
export function parseToolReference(text: string): string | undefined {
  return reference.exec(text.trim())?.[1];
}
