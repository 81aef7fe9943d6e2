import { ProxyTracerProvider, trace } from "@opentelemetry/api";
import type {
  CallClient,
  CallMock,
  CallOptions,
  Logger,
  ToolInfo,
  ToolRegistry,
  ToolResult,
} from "@toolrack/core";
import { mayBeCalledBy } from "@toolrack/core/internal";
import { type Grant, GrantWatch, masterGrant } from "../access/index.ts";
import type { Channel } from "../fleet/index.ts";
import { isRecord } from "../helpers/index.ts";
import type { CallStore, HeldRecords, Store } from "../store/index.ts";
import {
  type AnnouncedCall,
  type CallBook,
  type CallFollower,
  type CallWatcher,
  type ClientConnection,
  type LiveCall,
  newCallId,
  type RecordedCall,
  type RequestHeaders,
} from "./call-book.ts";
import { CallSpans } from "./call-spans.ts";
import { isMetaTool, onlyForCode } from "./meta-tools.ts";
import { CallRecorder } from "./recorder.ts";
import { SearchMemory } from "./search-memory.ts";

export interface CallRequest {
  readonly name: string;
  readonly input: unknown;
  readonly grant: Grant;
  readonly signal?: AbortSignal;
  /** Gets a function that cancels the call, once the call is under way. Cheaper than a signal. */
  readonly canceller?: { onCancel: ((reason: string) => void) | undefined };
  /**
   * The headers of the caller's HTTP request: those of a trace (`traceparent`, `tracestate`, `baggage`), and the
   * caller's own values for upstream servers.
   */
  readonly headers?: RequestHeaders;
  /** The connection that the request came over, if the caller keeps one open. */
  readonly connection?: ClientConnection;
  /** Limits the caller's tools further, for example to those of an expert. */
  readonly allow?: (tool: ToolInfo) => boolean;
  /** Present when the caller can be asked questions while the call runs. */
  readonly client?: CallClient;
  readonly callId?: string;
  /** The call is one that another process began at this time, and that goes on under its id. */
  readonly begunAt?: number;
  readonly sessionID?: string;
  /** The session was made for this request alone: it counts for loop detection, not for upstream servers. */
  readonly isPassingSession?: boolean;
  readonly messageID?: string;
  /** The task that the call belongs to. Calls that it makes belong to the same task. */
  readonly tid?: string;
  readonly timeout?: number;
  /** Only sandboxed tools have a dry run; the surface must check that the tool is sandboxed. */
  readonly dryRun?: boolean;
  /** The id of the call that this one repeats. */
  readonly replayOf?: string;
  /**
   * What the caller used to make the call, such as `console`, a program's name or `schedule ID`. Kept in the
   * record.
   */
  readonly via?: string | undefined;
  /** The name of the expert whose tools `allow` limits the call to, for the record. */
  readonly expert?: string | undefined;
  /** Stands in for tools in the call and in those that it makes. For tests. */
  readonly mock?: CallMock;
  readonly permissions?: readonly string[];
  readonly watcher?: CallWatcher;
  /** A model asks for the call: tools whose `metadata.callers` leaves models out are refused. */
  readonly byModel?: boolean;
}

export interface EndedCall extends RecordedCall {
  readonly callId: string;
  readonly result: ToolResult;
}

interface CallsOptions {
  readonly book: CallBook;
  readonly store: Pick<Store, "calls" | "tokens" | "searches" | "follower">;
  readonly logger: Logger;
  /** The way to calls of other nodes. Default: there are none. */
  readonly channel?: Channel | undefined;
  /** How many calls of one tool may run at once. Default 256. */
  readonly maxCallsPerTool?: number;
  /** Tells whether the lane of a tool has a full queue, and for how many seconds a caller should wait. */
  readonly busyFor?: BusyFor | undefined;
  /** Tells whether calls of a tool are handed over to workers, which claims their ids. */
  readonly isHandedOver?: ((tool: ToolInfo) => boolean) | undefined;
  /** `false`: nothing is learned from searches. */
  readonly learning?: boolean | undefined;
}

type BusyFor = (
  tool: ToolInfo,
) => { readonly lane: string; readonly waiting: number; readonly seconds: number } | undefined;

/** The call service and the recorder, which all surfaces of one process share. */
export interface Calls {
  readonly service: CallService;
  readonly recorder: CallRecorder;
  /**
   * Waits up to `limit` milliseconds for calls to end, cancels the rest, and resolves when their records are written.
   */
  close(limit: number): Promise<void>;
}

export function openCalls(options: CallsOptions): Calls {
  const { book, store, logger, channel, maxCallsPerTool = 256, busyFor, isHandedOver, learning } = options;
  const recorder = new CallRecorder(book, store.calls, logger);
  const service = new CallService(
    book,
    store.calls,
    new GrantWatch(store, logger),
    maxCallsPerTool,
    new SearchMemory({ book, store, logger, learning }),
    busyFor,
    channel,
    isHandedOver,
  );
  // Another node cancels a call that runs here. Its grant to do so was checked there.
  const unlisten = channel?.listen(CANCEL, async (body) => {
    const { callId = "", reason } = isRecord(body) ? body : {};
    const isCancelled = book.registry.cancel(String(callId), reason === undefined ? reason : String(reason));
    await recorder.flush();
    return isCancelled;
  });
  return {
    service,
    recorder,
    async close(limit) {
      await service.drain(limit);
      unlisten?.();
      await recorder.close();
      await service.searches.close();
    },
  };
}

/** The topic on which a node is asked to cancel a call. */
const CANCEL = "cancel";

/** Makes the calls of all surfaces: gives them ids, limits them, has them recorded, and lets them be cancelled. */
export class CallService implements CallFollower {
  /** Made when a call finds an OpenTelemetry SDK, which may be loaded at any time. */
  #spans: CallSpans | undefined;
  /** What was learned from searches. All surfaces tell it what their searches have shown. */
  readonly searches: SearchMemory;
  readonly #book: CallBook;
  readonly #calls: CallStore;
  readonly #grants: GrantWatch;
  readonly #channel: Channel | undefined;
  /**
   * How many calls of one tool may run at once. A call that waits for an answer, which may take hours, does
   * not count as running; but one caller may have no more than this many waiting calls of one tool.
   */
  readonly #maxPerTool: number;
  readonly #running = new Map<string, number>();
  /** How many calls wait for an answer, by tool and caller. */
  readonly #waiting = new Map<string, number>();
  readonly #busyFor: BusyFor | undefined;
  readonly #isHandedOver: CallsOptions["isHandedOver"];
  readonly #unfollow: () => void;
  #onIdle: (() => void) | undefined;
  #runs = 0;

  constructor(
    book: CallBook,
    calls: CallStore,
    grants: GrantWatch,
    maxPerTool: number,
    searches: SearchMemory,
    busyFor?: BusyFor,
    channel?: Channel,
    isHandedOver?: CallsOptions["isHandedOver"],
  ) {
    this.#isHandedOver = isHandedOver;
    this.#busyFor = busyFor;
    this.searches = searches;
    this.#channel = channel;
    this.#book = book;
    this.#calls = calls;
    this.#grants = grants;
    this.#maxPerTool = maxPerTool;
    this.#unfollow = book.follow(this);
  }

  /**
   * Makes the call. Resolves when the call has ended and it is known whether its record is stored
   * (`recorded`). Rejects with `CallRefused` for a request that never became a call: a tool that the caller
   * may not see, an id that is taken, too many calls at once, or a store that can take no more records.
   * Rejects with the store's own error when the store cannot tell whether an id that the caller chose is
   * taken.
   */
  async run(request: CallRequest): Promise<EndedCall> {
    const { registry } = this.#book;
    const info = registry.get(request.name);
    const call = this.#admit(request, info);
    const { callId } = call;
    let live: LiveCall | undefined;
    this.#runs++;
    try {
      const isChosen = request.callId !== undefined && request.begunAt === undefined;
      // One row claims the id and hands the call over. A server that dies leaves a call that can be completed, or nothing.
      const isHandedOver = info !== undefined && !request.mock && this.#isHandedOver?.(info) === true;
      if (isChosen) await this.#claim(call, isHandedOver);
      live = this.#book.enter(call, request);
      if (isChosen && isHandedOver) live.claim = "open";
      const recording = Promise.withResolvers<RecordedCall>();
      live.settle = recording.resolve;
      const { name, input, headers, grant, sessionID, messageID, tid, signal, client, timeout } = request;
      const options: CallOptions = {
        callId,
        caller: grant.caller,
        sessionID,
        messageID,
        tid,
        signal,
        client,
        timeout,
        mock: request.mock,
        permissions: request.permissions,
        sessionCaller: sessionID === undefined ? undefined : grant.id,
        allow: grant.admin ? request.allow : limitOf(request),
        // The master token is never revoked.
        withdrawn: grant.id === masterGrant.id ? undefined : () => this.#grants.whyEnded(grant),
        extra: request.dryRun === true ? { dryRun: true } : undefined,
      };
      // Whether this process has an OpenTelemetry SDK, which may be loaded at any time.
      const provider = trace.getTracerProvider();
      const isTraced =
        !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer("toolrack") !== undefined;
      const running = isTraced
        ? this.#tracing().run(live, info, headers, () => registry.execute(name, input, options))
        : registry.execute(name, input, options);
      // A bound function, because one that is made here keeps all variables of this call alive: of a call over HTTP 1.6 KB
      // outlived a small collection, and 0.5 KB do now.
      if (request.canceller !== undefined)
        request.canceller.onCancel = registry.cancel.bind(registry, callId);
      const result = await running;
      if (live.claim === "taken") throw callExists(callId);
      return { callId, result, ...(await recording.promise) };
    } finally {
      this.#leave(call, live);
    }
  }

  #tracing(): CallSpans {
    if (this.#spans === undefined) {
      this.#spans = new CallSpans();
      this.#book.follow(this.#spans);
    }
    return this.#spans;
  }

  /** Finds a call under way that a surface made. Calls that tools make are not found. */
  find(callId: string): AnnouncedCall | undefined {
    const call = this.#book.get(callId);
    return call?.grant === undefined ? undefined : call;
  }

  /** The other node on which the call runs. Undefined when it has ended or runs here. */
  async nodeOf(callId: string): Promise<string | undefined> {
    if (this.#channel?.isShared !== true || this.#book.registry.getState(callId) !== undefined)
      return undefined;
    const node = await this.#calls.nodeOf(callId);
    return node === this.#channel.node ? undefined : node;
  }

  /**
   * Cancels a call that runs on another node, and resolves when its record is written. False when that node does not run
   * it any more. Rejects with `NodeSilent` when the node does not answer.
   */
  async cancelElsewhere(node: string, callId: string, reason?: string): Promise<boolean> {
    return (await this.#channel?.request(node, CANCEL, { callId, reason })) === true;
  }

  /** The program that made the first call of a chain, if it can be asked questions. Undefined once that call has ended. */
  clientOf(callId: string): CallClient | undefined {
    return this.#book.originOf(callId)?.client;
  }

  isWaiting(callId: string): boolean {
    return this.#book.get(callId)?.endWaiting !== undefined;
  }

  /**
   * Ends the waiting calls whose token is no longer valid. Must be called when this process has revoked a
   * token. Never rejects.
   */
  endWithdrawn(): Promise<void> {
    return this.#grants.look();
  }

  /** Waits up to `limit` milliseconds for all calls on the rack to end, then cancels the rest. */
  async drain(limit: number): Promise<void> {
    await this.#whenIdle(limit);
    const { registry } = this.#book;
    for (const { callId } of registry.activeCalls()) registry.cancel(callId, "the server is stopping");
    // A cancelled call ends at once; its record may take a moment.
    await this.#whenIdle(limit);
    this.#unfollow();
  }

  /**
   * Counts the call as waiting or as running again. A waiting call, which may wait for hours, is cancelled
   * when its caller's token is revoked or expires.
   */
  waits(call: LiveCall, isWaiting: boolean): void {
    const { callId, toolName, grant } = call;
    if (grant === undefined || isWaiting === (call.endWaiting !== undefined)) return;
    addTo(this.#running, toolName, isWaiting ? -1 : 1);
    addTo(this.#waiting, waitingKey(call), isWaiting ? 1 : -1);
    call.endWaiting?.();
    call.endWaiting = isWaiting
      ? this.#grants.watch(grant, (why) => this.#book.registry.cancel(callId, why))
      : undefined;
  }

  /** Counts the call as running, or throws `CallRefused`. */
  #admit(request: CallRequest, info: ToolInfo | undefined): AnnouncedCall {
    const { grant, callId = newCallId(), sessionID = "", replayOf, via, expert } = request;
    if (!grant.admin && (info === undefined || !grant.mayUse(info))) {
      throw unknownTool(this.#book.registry, request.name, limitOf(request));
    }
    if (request.byModel && info?.metadata.callers !== undefined && !mayBeCalledBy("model", info.metadata))
      throw new CallRefused("tool_not_found", onlyForCode(info.name), { toolName: info.name });
    if (this.#calls.held.isFull) throw recordsFull(this.#calls.held);
    const busy = info && this.#busyFor?.(info);
    if (busy !== undefined) throw laneBusy(request.name, busy);
    const toolName = info?.name ?? request.name;
    const displayName = info?.displayName ?? toolName;
    const { caller } = grant;
    const now = Date.now();
    const { begunAt: timestamp = now } = request;
    const resumedAt = timestamp === now ? undefined : now;
    const call = {
      callId,
      toolName,
      displayName,
      sessionID,
      caller,
      timestamp,
      resumedAt,
      replayOf,
      via,
      expert,
    };
    const limit = this.#maxPerTool;
    const running = this.#running.get(toolName) ?? 0;
    const waiting = this.#waiting.size === 0 ? 0 : (this.#waiting.get(waitingKey(call)) ?? 0);
    if (running >= limit || waiting >= limit) {
      const shown = displayName === toolName ? toolName : `${displayName} (${toolName})`;
      const problem =
        running >= limit
          ? `"${shown}" is running ${running} times, which is as often as it may. Call it when one has ended.`
          : `${waiting} calls of "${shown}" by this caller wait for an answer, which is as many as may. Answer one of them, or cancel it, and call again.`;
      throw new CallRefused("too_many_calls", problem, { toolName, limit }, 1);
    }
    this.#running.set(toolName, running + 1);
    return call;
  }

  #leave(call: AnnouncedCall, live: LiveCall | undefined): void {
    const others = (this.#running.get(call.toolName) ?? 1) - 1;
    if (live?.endWaiting !== undefined) addTo(this.#waiting, waitingKey(call), -1);
    else if (others > 0) this.#running.set(call.toolName, others);
    else this.#running.delete(call.toolName);
    if (live !== undefined) {
      live.endWaiting?.();
      this.#book.leave(live);
    }
    this.#runs--;
    if (this.#onIdle !== undefined) this.#checkIdle();
  }

  /**
   * Reserves the id that a caller chose, before the call begins. Throws `CallRefused` when the id is taken.
   */
  async #claim(call: AnnouncedCall, isClaimedLater: boolean): Promise<void> {
    const { callId } = call;
    // A call under way may not be in the store yet, and on a full disk never is.
    const isKnown = () => this.#book.registry.getState(callId) !== undefined;
    const isFree = async () =>
      isClaimedLater
        ? (await this.#calls.get(callId)) === undefined
        : this.#calls.claim({ ...call, parameters: {} });
    if (isKnown() || !(await isFree()) || isKnown()) throw callExists(callId);
  }

  #whenIdle(limit: number): Promise<void> {
    const unfollow = this.#book.follow({ ended: () => this.#checkIdle() });
    const idle = new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limit);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#checkIdle();
    });
    return idle.finally(unfollow);
  }

  #checkIdle(): void {
    // Calls that tools made may still run although no surface waits for them.
    if (this.#runs === 0 && this.#book.registry.activeCalls().length === 0) this.#onIdle?.();
  }
}

function addTo(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}

function waitingKey({ toolName, caller }: Pick<AnnouncedCall, "toolName" | "caller">): string {
  return `${toolName} ${caller}`;
}

/**
 * Returns a function that tells whether the call, and all calls of its chain, may use a tool. Undefined: all
 * tools.
 */
function limitOf({ grant, allow }: CallRequest): CallRequest["allow"] {
  if (grant.admin) return allow;
  return (tool) => grant.mayUse(tool) && allow?.(tool) !== false;
}

function recordsFull({ records, bytes, reason }: HeldRecords): CallRefused {
  return new CallRefused(
    "store_unavailable",
    `The call was not made: the rack's store cannot take records now, and as many as are kept in memory wait for it already (${records}). Call again when it can; GET /readyz says what is wrong with it.`,
    { reason, heldRecords: records, heldBytes: bytes },
    RETRY_AFTER,
  );
}

function callExists(callId: string): CallRefused {
  const problem = `There is a call "${callId}" already. Leave callId out to get a new one.`;
  return new CallRefused("call_exists", problem, { callId });
}

function laneBusy(
  toolName: string,
  { lane, waiting, seconds }: NonNullable<ReturnType<BusyFor>>,
): CallRefused {
  return new CallRefused(
    "busy",
    `"${toolName}" runs in lane "${lane}", where ${waiting} calls wait for a worker, which is as many as may. Call again in ${seconds} s.`,
    { toolName, lane, waiting },
    seconds,
  );
}

/** Seconds that a caller is told to wait before it calls again, when the store can take no more records. */
const RETRY_AFTER = 5;

type RefusalCode = "tool_not_found" | "call_exists" | "too_many_calls" | "busy" | "store_unavailable";

/** A call that was never made. Each surface translates it into its own form. */
export class CallRefused extends Error {
  override readonly name = "CallRefused";
  readonly code: RefusalCode;
  readonly details: Readonly<Record<string, unknown>>;
  /** Seconds that the caller should wait before it tries again. */
  readonly retryAfter: number | undefined;

  constructor(
    code: RefusalCode,
    message: string,
    details: Readonly<Record<string, unknown>>,
    retryAfter?: number,
  ) {
    super(message);
    this.code = code;
    this.details = details;
    this.retryAfter = retryAfter;
  }
}

/** Gives the same message for a missing tool and a hidden one. Suggests only tools that the caller may use. */
export function unknownTool(
  registry: Pick<ToolRegistry, "notFound">,
  name: string,
  mayUse: ((tool: ToolInfo) => boolean) | undefined,
): CallRefused {
  // The meta-tools are never suggested.
  const isListed = (tool: ToolInfo) => !isMetaTool(tool.name) && (mayUse?.(tool) ?? true);
  const { message, data } = registry.notFound(name, isListed);
  return new CallRefused("tool_not_found", message, { toolName: name, ...data });
}

const reference = /^["']?@?tool:\/\/([^\s"'/?#]+)["']?$/;

/** The name in `tool://name` or `@tool://name`; undefined for any other text. */
export function parseToolReference(text: string): string | undefined {
  return reference.exec(text.trim())?.[1];
}
