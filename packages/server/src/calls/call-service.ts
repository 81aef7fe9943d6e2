import type { CallClient, CallOptions, Logger, ToolInfo, ToolRegistry, ToolResult } from "@toolrack/core";
import { type Grant, GrantWatch, masterGrant } from "../access/index.ts";
import type { CallStore, HeldRecords, Store } from "../store/index.ts";
import {
  type AnnouncedCall,
  type CallBook,
  type CallFollower,
  type CallWatcher,
  type LiveCall,
  newCallId,
  type RecordedCall,
} from "./call-book.ts";
import { isMetaTool } from "./meta-tools.ts";
import { CallRecorder } from "./recorder.ts";
import { CallSpans, isTracing } from "./spans.ts";

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
  /** A smaller set than the caller's own, such as that of an expert. */
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

export interface EndedCall extends RecordedCall {
  readonly callId: string;
  readonly result: ToolResult;
}

interface CallOfficeOptions {
  readonly book: CallBook;
  readonly store: Pick<Store, "calls" | "tokens" | "follower">;
  readonly logger: Logger;
  /** How many calls of one tool may be under way. Default 256. */
  readonly maxCallsPerTool?: number;
}

/** What all surfaces of one process share: where calls are handed in, recorded and traced. */
export interface Calls {
  readonly service: CallService;
  readonly recorder: CallRecorder;
  /** Lets calls end for so many milliseconds, cancels the rest, and resolves when their records are written. */
  close(limit: number): Promise<void>;
}

export function openCalls({ book, store, logger, maxCallsPerTool = 256 }: CallOfficeOptions): Calls {
  const recorder = new CallRecorder(book, store.calls, logger);
  const service = new CallService(book, store.calls, new GrantWatch(store, logger), maxCallsPerTool);
  const spans = book.follow(service.spans);
  return {
    service,
    recorder,
    async close(limit) {
      await service.drain(limit);
      await recorder.close();
      spans();
    },
  };
}

/** Where surfaces hand in calls: it gives them ids, limits them, has them recorded and lets them be cancelled. */
export class CallService implements CallFollower {
  readonly spans = new CallSpans();
  readonly #book: CallBook;
  readonly #calls: CallStore;
  readonly #grants: GrantWatch;
  /**
   * How many calls of one tool may be under way. One that waits for an answer, of a person or of its caller, takes no place
   * of those that run, since that may take hours; but one caller cannot let more of them wait than could run, so that it
   * fills only its own share.
   */
  readonly #most: number;
  readonly #running = new Map<string, number>();
  /** By tool and caller. */
  readonly #waiting = new Map<string, number>();
  readonly #unfollow: () => void;
  #onIdle: (() => void) | undefined;
  #promised = 0;

  constructor(book: CallBook, calls: CallStore, grants: GrantWatch, most: number) {
    this.#book = book;
    this.#calls = calls;
    this.#grants = grants;
    this.#most = most;
    this.#unfollow = book.follow(this);
  }

  /**
   * Makes the call and resolves when its record is safe. Rejects with `CallRefused` only for what never became a
   * call: a tool that the caller may not see, an id that is taken, too many calls at once, a record that could not be kept.
   */
  async run(request: CallRequest): Promise<EndedCall> {
    const { registry } = this.#book;
    const info = registry.get(request.name);
    const call = this.#admit(request, info);
    const { callId } = call;
    let live: LiveCall | undefined;
    this.#promised++;
    try {
      if (request.callId !== undefined) await this.#claim(call);
      live = this.#book.enter(call, request.grant, request.watcher);
      const recording = Promise.withResolvers<RecordedCall>();
      live.settle = recording.resolve;
      const options = this.#optionsOf(request, callId);
      const running = isTracing()
        ? this.spans.run(live, info, request.headers, () =>
            registry.execute(request.name, request.input, options),
          )
        : registry.execute(request.name, request.input, options);
      request.begun?.((reason) => registry.cancel(callId, reason));
      const result = await running;
      const { record, recorded } = await recording.promise;
      return { callId, result, record, recorded };
    } finally {
      this.#leave(call, live);
    }
  }

  /** A call under way that a surface handed in. */
  find(callId: string): AnnouncedCall | undefined {
    const call = this.#book.get(callId);
    return call?.grant === undefined ? undefined : call;
  }

  /** Who made the call, while it is under way. */
  callerOf(callId: string): string | undefined {
    return this.find(callId)?.caller;
  }

  /** Whether the call waits for somebody's answer. */
  isWaiting(callId: string): boolean {
    return this.#book.get(callId)?.endWaiting !== undefined;
  }

  /** To be called when a token was taken back here: ends what it has waiting. Never rejects. */
  endWithdrawn(): Promise<void> {
    return this.#grants.look();
  }

  /** Lets all calls on the rack end for so many milliseconds, then cancels what is left. */
  async drain(limit: number): Promise<void> {
    await this.#whenIdle(limit);
    const { registry } = this.#book;
    for (const { callId } of registry.activeCalls()) registry.cancel(callId, "the server is stopping");
    // A cancelled call ends at once, so that only its record is waited for.
    await this.#whenIdle(limit);
    this.#unfollow();
  }

  /** A call that waits for somebody's answer, which may take hours, ends with the token of whoever made it. */
  waits(call: LiveCall, isWaiting: boolean): void {
    const { callId, toolName, grant } = call;
    if (grant === undefined || isWaiting === (call.endWaiting !== undefined)) return;
    change(this.#running, toolName, isWaiting ? -1 : 1);
    change(this.#waiting, shareOf(call), isWaiting ? 1 : -1);
    call.endWaiting?.();
    call.endWaiting = isWaiting
      ? this.#grants.watch(grant, (why) => this.#book.registry.cancel(callId, why))
      : undefined;
  }

  /** Lets a call in, or throws `CallRefused`. */
  #admit(request: CallRequest, info: ToolInfo | undefined): AnnouncedCall {
    const { grant, callId = newCallId(), sessionID = "", replayOf } = request;
    if (!grant.admin && (info === undefined || !grant.mayUse(info))) {
      throw unknownTool(this.#book.registry, request.name, limitOf(request));
    }
    if (this.#calls.held.isFull) throw recordsFull(this.#calls.held);
    const toolName = info?.name ?? request.name;
    const displayName = info?.displayName ?? toolName;
    const { caller } = grant;
    const call = { callId, toolName, displayName, sessionID, caller, timestamp: Date.now() };
    const running = this.#running.get(toolName) ?? 0;
    if (running >= this.#most) throw tooManyCalls(toolName, running, this.#most);
    const waiting = this.#waiting.size === 0 ? 0 : (this.#waiting.get(shareOf(call)) ?? 0);
    if (waiting >= this.#most) throw tooManyQuestions(toolName, waiting, this.#most);
    this.#running.set(toolName, running + 1);
    return replayOf === undefined ? call : { ...call, replayOf };
  }

  #leave(call: AnnouncedCall, live: LiveCall | undefined): void {
    if (live?.endWaiting === undefined) change(this.#running, call.toolName, -1);
    else change(this.#waiting, shareOf(call), -1);
    if (live !== undefined) {
      live.endWaiting?.();
      this.#book.leave(live);
    }
    this.#promised--;
    if (this.#onIdle !== undefined) this.#noteIdle();
  }

  /** Makes the id that a caller chose this call's own, before anything of the call is done. */
  async #claim(call: AnnouncedCall): Promise<void> {
    const { callId } = call;
    // A call under way need not be in the store yet; on a full disk, none is.
    const isKnown = () => this.#book.registry.getState(callId) !== undefined;
    if (!isKnown() && (await this.#calls.claim({ ...call, parameters: {} })) && !isKnown()) return;
    throw new CallRefused(
      "call_exists",
      `There is a call "${callId}" already. Leave callId out to get a new one.`,
      { callId },
    );
  }

  /** Filled in step by step: most calls have few. */
  #optionsOf(request: CallRequest, callId: string): CallOptions {
    const { client, sessionID, messageID, timeout, grant, signal } = request;
    const allow = grant.admin ? request.allow : limitOf(request);
    const options: { -readonly [Key in keyof CallOptions]: CallOptions[Key] } = {
      callId,
      caller: grant.caller,
    };
    // That of the operator is never taken back.
    if (grant.id !== masterGrant.id) options.withdrawn = () => this.#grants.whyEnded(grant);
    if (signal !== undefined) options.signal = signal;
    if (allow !== undefined) options.allow = allow;
    if (client !== undefined) options.client = client;
    if (sessionID !== undefined) {
      options.sessionID = sessionID;
      options.sessionCaller = grant.id;
    }
    if (messageID !== undefined) options.messageID = messageID;
    if (timeout !== undefined) options.timeout = timeout;
    if (request.dryRun === true) options.extra = { dryRun: true };
    return options;
  }

  #whenIdle(limit: number): Promise<void> {
    const unfollow = this.#book.follow({ ended: () => this.#noteIdle() });
    const idle = new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limit);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#noteIdle();
    });
    return idle.finally(unfollow);
  }

  #noteIdle(): void {
    // Other surfaces, and tools that nobody waits for, have calls on the rack too.
    if (this.#promised === 0 && this.#book.registry.activeCalls().length === 0) this.#onIdle?.();
  }
}

function change(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}

function shareOf({ toolName, caller }: Pick<AnnouncedCall, "toolName" | "caller">): string {
  return `${toolName} ${caller}`;
}

/** What the whole chain of calls may reach; an admin without further limits needs no asking. */
function limitOf({ grant, allow }: CallRequest): CallRequest["allow"] {
  if (grant.admin) return allow;
  return (tool) => grant.mayUse(tool) && allow?.(tool) !== false;
}

function tooManyCalls(toolName: string, running: number, limit: number): CallRefused {
  return new CallRefused(
    "too_many_calls",
    `"${toolName}" is running ${running} times, which is as often as it may. Call it when one has ended.`,
    { toolName, limit },
    1,
  );
}

function tooManyQuestions(toolName: string, waiting: number, limit: number): CallRefused {
  return new CallRefused(
    "too_many_calls",
    `${waiting} calls of "${toolName}" by this caller wait for an answer, which is as many as may. Answer one of them, or cancel it, and call again.`,
    { toolName, limit },
    1,
  );
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
