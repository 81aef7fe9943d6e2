import { createHash } from "node:crypto";
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Logger, RackListener, ToolRegistry } from "@toolrack/core";
import { callerHeaders } from "../calls/index.ts";
import { whenAborted } from "../helpers/index.ts";
import { type ChatStore, REQUEST_MARK } from "../store/index.ts";
import type { Completion, CompletionOptions } from "./completions.ts";
import { ChatError } from "./errors.ts";
import { requestRanElsewhere } from "./model-messages.ts";
import { isTool, type MessagePart, type TurnEnd, type TurnEvent } from "./turn.ts";

/** Recognises a request that the client sends again. */
export interface RequestIdentity {
  readonly owner: string;
  /** SHA-256 of the owner and the request, in hexadecimal digits. Long requests make it slow to read. */
  readonly hash: string;
  /**
   * The client sent an idempotency key: it may repeat the request any time, and the request is carried out
   * once.
   */
  readonly isKeyed: boolean;
  /** The client says that the request may be a repeated one, by a retry count or an idempotency key. */
  readonly isRepeated: boolean;
  /** The client is one that says so. It comes back a few seconds after its connection broke. */
  readonly saysRepeats: boolean;
}

/** `said`: what makes two requests of one token the same, such as its messages and its tools. */
export function identify(headers: IncomingHttpHeaders, owner: string, said: unknown): RequestIdentity {
  const key = headers["idempotency-key"];
  const count = headers["x-stainless-retry-count"];
  const isKeyed = typeof key === "string";
  let identifying: (() => unknown[]) | undefined = () => {
    // Callers who share a token may act with different credentials.
    const own = Object.entries(headers).filter(([name]) => name.startsWith(callerHeaders));
    return [owner, key ?? "", headers["x-toolrack-expert"] ?? "", said, ...own];
  };
  let hash: string | undefined;
  return {
    owner,
    get hash() {
      hash ??= createHash("sha256").update(JSON.stringify(identifying?.())).digest("hex");
      // Long conversations are not kept in memory for as long as the request is remembered.
      identifying = undefined;
      return hash;
    },
    isKeyed,
    isRepeated: isKeyed || Number(count) > 0,
    saysRepeats: isKeyed || typeof count === "string",
  };
}

interface CompletionReader {
  /** Aborted when the client disconnects before its answer is sent. */
  readonly gone: AbortSignal;
  readonly outgoing: ServerResponse;
  readonly tell?: ((event: TurnEvent) => void) | undefined;
  /** Asked after the reader disconnected: whether the client may still send the request again. */
  readonly mayReturn: () => boolean;
}

type KnownTools = Pick<ToolRegistry, "get" | "subscribe">;

/** Whether a call of the rack's tools was begun that does more than read. */
export function mayHaveActed(tools: Pick<KnownTools, "get">, parts: readonly MessagePart[]): boolean {
  return parts.some((part) => isTool(part) && part.started && !onlyReads(tools, part.name));
}

function onlyReads(tools: Pick<KnownTools, "get">, name: string): boolean {
  return tools.get(name)?.metadata.readOnly === true;
}

export type CompletionWork = (
  run: Omit<CompletionOptions, "reach" | "headers" | "endpoint">,
) => Promise<Completion>;

/** How long a disconnected client may take to send its request again. OpenAI's clients take one or two seconds. */
const GRACE = 4_000;
/** How long a finished run is remembered. */
const MEMORY = 120_000;
/** Of answers that a client has got, at most this many are remembered. */
const MOST_DELIVERED = 200;
/** At most this many characters of answers are remembered, over all runs. */
const MOST_KEPT = 16 * 1024 * 1024;
/** What a remembered run takes beside its answer, in characters. */
const RUN_SIZE = 4_000;

/**
 * Requests in progress, and for some minutes finished requests that have changed something or have an
 * idempotency key. Clients repeat a request after a failure, a timeout or a broken connection; the repeated
 * request joins the first run, so that no tool runs twice.
 */
export class CompletionRuns {
  readonly #known = new Set<CompletionRun>();
  /** The run of each call under way of a tool that only reads, and of each call below it: such a tool may call one that does more. */
  readonly #reading = new Map<string, CompletionRun>();
  #running = 0;
  /** Only while a request is answered: all calls of the rack would pass through it. */
  #unsubscribe: (() => void) | undefined;
  readonly #tools: KnownTools;
  readonly #marks: RequestMarks;
  readonly #joinsRepeats: boolean;

  /** `joinsRepeats`: whether a repeated request is also recognised when its client does not say so. */
  constructor(tools: KnownTools, store: MarkStore, logger: Logger, joinsRepeats = true) {
    this.#tools = tools;
    this.#marks = new RequestMarks(store, logger);
    this.#joinsRepeats = joinsRepeats;
  }

  /**
   * The run that a repeated request should join; undefined when the request needs a run of its own. Requests
   * that are equal and do not say that they are repeated join only a run that is left.
   */
  find(identity: RequestIdentity): CompletionRun | undefined {
    const { isRepeated } = identity;
    if (!isRepeated && !this.#joinsRepeats) return undefined;
    let last: CompletionRun | undefined;
    // Asked for every request, so that the known runs are not copied.
    for (const run of this.#known) {
      const mayJoin = isRepeated ? !run.isStopped || run.hasActed : run.isLeft;
      if (mayJoin && run.identity.hash === identity.hash) last = run;
    }
    return last;
  }

  begin(identity: RequestIdentity, work: CompletionWork): CompletionRun {
    const isKnown = this.#joinsRepeats || identity.saysRepeats;
    const marks = isKnown ? this.#marks : undefined;
    this.#running++;
    this.#unsubscribe ??= this.#tools.subscribe(this.#noteInner, ["state"]);
    const run = new CompletionRun(identity, work, this.#tools, marks, this.#reading);
    if (!isKnown) return run;
    this.#known.add(run);
    const forget = () => this.#known.delete(run);
    const settle = (completion?: Completion) => {
      // A run that has changed nothing can be repeated; it is remembered only if it has an idempotency key.
      if (!run.hasActed && (!identity.isKeyed || completion === undefined)) return forget();
      run.size = RUN_SIZE + (completion === undefined ? 0 : JSON.stringify(completion.parts).length);
      setTimeout(forget, MEMORY).unref();
      this.#makeRoom();
    };
    run.result.then(settle, () => settle());
    run.result.then(this.#rest, this.#rest);
    return run;
  }

  readonly #rest = (): void => {
    if (--this.#running > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#reading.clear();
  };

  readonly #noteInner: RackListener = (event) => {
    if (event.type !== "state") return;
    const { callId, parentCallId, status, toolName } = event;
    if (status !== "running") return void this.#reading.delete(callId);
    const run = parentCallId === undefined ? undefined : this.#reading.get(parentCallId);
    if (run === undefined) return;
    this.#reading.set(callId, run);
    if (!onlyReads(this.#tools, toolName)) run.act();
  };

  /** Forgets the oldest first, and answers that no client has got last: those are asked for again without a word. */
  #makeRoom(): void {
    const done = [...this.#known].filter(({ isDone }) => isDone);
    const delivered = done.filter(({ isDelivered }) => isDelivered);
    let excess = delivered.length - MOST_DELIVERED;
    let kept = done.reduce((sum, { size }) => sum + size, 0);
    for (const run of [...delivered, ...done]) {
      if (excess-- <= 0 && kept <= MOST_KEPT) return;
      if (this.#known.delete(run)) kept -= run.size;
    }
  }
}

/** One request in progress, with all connections that wait for its answer. */
class CompletionRun {
  readonly identity: RequestIdentity;
  readonly result: Promise<Completion>;
  readonly #begun = Promise.withResolvers<string>();
  readonly #stopping = new AbortController();
  readonly #listeners = new Set<(event: TurnEvent) => void>();
  readonly #marks: RequestMarks | undefined;
  #marked: Promise<void> | undefined;
  #readers = 0;
  /** `cut`: the last connection closed before the whole answer was sent, and nobody has got it since. */
  #delivery: "open" | "cut" | "done" = "open";
  #attended: PromiseWithResolvers<void> | undefined;
  #leaving: NodeJS.Timeout | undefined;
  /** Why the run ended. `interrupted`: a person may still agree to a call that waited, and it is then made. */
  #ending: TurnEnd["reason"] | undefined;
  /** Characters that the remembered run takes. */
  size = 0;
  /** A tool that does more than read has begun. */
  hasActed = false;

  /** `marks` is undefined for a run that a repeated request cannot join. `reading`: see `CompletionRuns`. */
  constructor(
    identity: RequestIdentity,
    work: CompletionWork,
    tools: KnownTools,
    marks: RequestMarks | undefined,
    reading: Map<string, CompletionRun>,
  ) {
    this.identity = identity;
    this.#marks = marks;
    const emit = (event: TurnEvent) => {
      if (event.type === "turn") this.#begun.resolve(event.messageId);
      if (event.type === "state" && event.state.status === "running") {
        if (onlyReads(tools, event.name)) reading.set(event.callId, this);
        else this.act();
      }
      for (const listener of this.#listeners) listener(event);
    };
    const beforeCalls = async (parts: readonly MessagePart[]) => {
      if (mayHaveActed(tools, parts)) {
        this.#marked ??= marks?.begin(identity);
        await this.#marked;
      }
      await this.#attended?.promise;
    };
    const end = (reason: TurnEnd["reason"]) => {
      this.#ending = reason;
      clearTimeout(this.#leaving);
      if (this.#readers === 0) this.#note();
    };
    this.result = work({
      signal: this.#stopping.signal,
      emit,
      beforeCalls,
      hasActed: () => this.hasActed,
    });
    this.result.catch(this.#begun.reject);
    // Only background responses await this promise. For others, this keeps its rejection from ending the process.
    this.#begun.promise.catch(() => {});
    this.result.then(
      (completion) => end(completion.end.reason),
      () => end("error"),
    );
  }

  /** Resolves to the id of the answer's message when a stored turn has begun. Rejects if the run fails before. */
  get begun(): Promise<string> {
    return this.#begun.promise;
  }

  get isStopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  get isDone(): boolean {
    return this.#ending !== undefined;
  }

  /** Whether the run has changed something, and then failed or lost its last connection. */
  get isLeft(): boolean {
    return this.hasActed && (this.#hasFailed || this.#delivery === "cut");
  }

  /** Whether a client has got the whole answer. */
  get isDelivered(): boolean {
    return this.#delivery === "done" && !this.#hasFailed;
  }

  get #hasFailed(): boolean {
    return this.#ending === "error" || this.#ending === "interrupted";
  }

  /**
   * Adds a reader and resolves to the answer. After the last reader has disconnected, the run makes no new
   * call; it is cancelled at once when the client cannot return, otherwise at the end of the grace period.
   */
  read({ gone, outgoing, tell = () => {}, mayReturn }: CompletionReader): Promise<Completion> {
    clearTimeout(this.#leaving);
    this.#attended?.resolve();
    this.#attended = undefined;
    this.#readers++;
    this.#listeners.add(tell);
    const leave = (isDelivered: boolean) => {
      this.#listeners.delete(tell);
      this.#readers--;
      if (isDelivered) this.#delivery = "done";
      else if (this.#readers === 0 && this.#delivery === "open") this.#delivery = "cut";
      if (this.#readers > 0) return;
      this.#note();
      if (!this.isDone) this.#wait(mayReturn());
    };
    whenAborted(gone, () => leave(false));
    outgoing.once("close", () => gone.aborted || leave(outgoing.writableFinished));
    return this.result;
  }

  #wait(mayReturn: boolean): void {
    this.#attended = Promise.withResolvers();
    // The run may not be awaiting this promise, so its rejection must be handled here.
    this.#attended.promise.catch(() => {});
    const isAwaited = this.identity.saysRepeats || (this.hasActed && this.#marks !== undefined);
    if (isAwaited && mayReturn) this.#leaving = setTimeout(() => this.#stop(), GRACE).unref();
    else this.#stop();
  }

  /** Must be called when a tool begins that does more than read. */
  act(): void {
    this.hasActed = true;
    // `beforeCalls` has marked the request, unless a tool that only reads has called this one.
    this.#marked ??= this.#marks?.note(this.identity, "running");
  }

  #stop(): void {
    this.#stopping.abort("the caller closed the connection");
    this.#attended?.reject(this.#stopping.signal.reason);
  }

  /** Stores what has become of a run that changes something: another node may be sent the request again. */
  #note(): void {
    const ended = this.hasActed ? "done" : "idle";
    const isLeft = this.isLeft || this.#ending === "interrupted";
    const state = isLeft ? "left" : this.isDone ? ended : "running";
    this.#marked = this.#marked?.then(() => this.#marks?.note(this.identity, state));
    // A request that was refused by the mark of another process leaves that mark as it is.
    this.#marked?.catch(() => {});
  }
}

/** How long the mark of a request is valid in the store, in milliseconds. */
const MARK_LIFETIME = 600_000;
type MarkStore = Pick<ChatStore, "addHandoff" | "getHandoff" | "instanceId" | "isInstanceAlive">;

/**
 * What became of a request that may change something. `left`: its client got no answer. `idle`: it changed nothing
 * after all.
 */
type MarkState = "running" | "left" | "done" | "idle";

/**
 * Marks requests in the store that change something, so that other nodes, and this process after a restart,
 * do not repeat them. This process knows its own runs, so that it needs the marks of others only.
 */
export class RequestMarks {
  readonly #store: MarkStore;
  readonly #logger: Logger;

  constructor(store: MarkStore, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  /**
   * Must be called before the first call that changes something. Throws `ChatError` when the same request has
   * made such a call in another process. A store that fails is ignored.
   */
  async begin(request: RequestIdentity): Promise<void> {
    if (await this.#ranElsewhere(request).catch((error) => this.#warn(error)))
      throw new ChatError("chat_cancelled", requestRanElsewhere);
    await this.note(request, "running");
  }

  /** Never rejects: this process remembers the request anyway. */
  async note({ hash, owner }: RequestIdentity, state: MarkState): Promise<void> {
    const mark = { at: Date.now(), by: this.#store.instanceId, state };
    const handoff = { id: REQUEST_MARK + hash, owner, sessionId: "", messages: [mark] };
    await this.#store.addHandoff(handoff).catch((error) => this.#warn(error));
  }

  async #ranElsewhere(request: RequestIdentity): Promise<boolean> {
    const { at, by, state } = await this.#read(request);
    if (typeof at !== "number" || by === this.#store.instanceId || state === "idle") return false;
    const age = Date.now() - at;
    if (age > MARK_LIFETIME) return false;
    if (request.isRepeated) return true;
    if (state !== "running") return state === "left" && age <= MEMORY;
    if (!(await this.#store.isInstanceAlive(by))) return true;
    // The request may have been left since the first read, so its state is read again.
    return (await this.#read(request)).state === "left";
  }

  async #read({ hash, owner }: RequestIdentity) {
    const found = await this.#store.getHandoff(REQUEST_MARK + hash, owner);
    return Object(found?.messages[0]);
  }

  #warn(error: unknown): void {
    this.#logger.warn("That a request to /v1 makes calls could not be kept for other processes:", error);
  }
}
