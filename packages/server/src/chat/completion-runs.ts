import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { Logger } from "@toolrack/core";
import type { ChatStore } from "../store/index.ts";
import type { Completion, CompletionOptions } from "./completions.ts";
import { ChatError } from "./services.ts";
import type { TurnEvent } from "./turn.ts";

/** Recognises a request that the client sends again. */
interface RequestIdentity {
  /** SHA-256 of the owner and the request, in hexadecimal digits. */
  readonly hash: string;
  readonly owner: string;
  /**
   * The client sent an idempotency key: it may repeat the request any time, and the request is carried out
   * once.
   */
  readonly isKeyed: boolean;
  /** The request may be a repeated one: the client marked it as a retry or sent an idempotency key. */
  readonly isRepeated: boolean;
}

/** Undefined when the client sends neither an idempotency key nor a retry count. */
export function identify(
  headers: IncomingHttpHeaders,
  owner: string,
  body: unknown,
): RequestIdentity | undefined {
  const key = headers["idempotency-key"];
  const count = headers["x-stainless-retry-count"];
  const isKeyed = typeof key === "string";
  if (!isKeyed && typeof count !== "string") return undefined;
  const identifying = JSON.stringify([owner, key ?? "", headers["x-toolrack-expert"] ?? "", body]);
  const hash = createHash("sha256").update(identifying).digest("hex");
  return { hash, owner, isKeyed, isRepeated: isKeyed || Number(count) > 0 };
}

interface CompletionReader {
  readonly gone: AbortSignal;
  readonly tell?: ((event: TurnEvent) => void) | undefined;
  /** Asked after the reader disconnected: whether the client may still send the request again. */
  readonly mayReturn: () => boolean;
}

type CompletionWork = (run: Omit<CompletionOptions, "reach" | "headers">) => Promise<Completion>;

/** How long a disconnected client may take to send its request again. OpenAI's clients take one or two seconds. */
const GRACE = 4_000;
/** How long a finished run is remembered. */
const MEMORY = 120_000;
const MOST_KNOWN = 200;
/** At most this many characters of answers are remembered, over all runs. */
const MOST_KEPT = 16 * 1024 * 1024;

/**
 * Requests in progress, and for some minutes finished requests that made calls or have an idempotency key.
 * OpenAI's clients repeat a request after a timeout or a broken connection; the repeated request joins the
 * first run, so that no tool runs twice.
 */
export class CompletionRuns {
  readonly #known = new Map<string, CompletionRun>();
  readonly #store: Marks;
  readonly #logger: Logger;

  constructor(store: Marks, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  /**
   * The run that a repeated request should join; undefined when the request needs a run of its own. Throws
   * `ChatError` when the request made calls in another process.
   */
  async find(identity: RequestIdentity | undefined): Promise<CompletionRun | undefined> {
    if (!identity?.isRepeated) return undefined;
    if (!this.#known.has(identity.hash)) await refuseRepeated(this.#store, identity);
    // While the store was read, the same request may have arrived again and begun a run.
    const run = this.#known.get(identity.hash);
    return run?.isStopped && !run.hasMadeCalls ? undefined : run;
  }

  begin(identity: RequestIdentity | undefined, work: CompletionWork): CompletionRun {
    if (identity === undefined) return new CompletionRun(work, 0);
    const { hash, isKeyed } = identity;
    const run = new CompletionRun(work, GRACE, () => markRequest(this.#store, this.#logger, identity));
    // Deleting first moves the run to the end of the map: the oldest runs are forgotten first.
    this.#known.delete(hash);
    this.#known.set(hash, run);
    const forget = () => {
      if (this.#known.get(hash) === run) this.#known.delete(hash);
    };
    const settle = (completion?: Completion) => {
      // A run without calls can be repeated safely; it is remembered only if it has an idempotency key.
      const hasActed = run.hasMadeCalls || run.isMarked;
      if (!hasActed && (!isKeyed || completion === undefined)) return forget();
      run.size = completion === undefined ? 0 : JSON.stringify(completion.parts).length;
      setTimeout(forget, MEMORY).unref();
      this.#makeRoom();
    };
    run.result.then(settle, () => settle());
    return run;
  }

  #makeRoom(): void {
    let kept = [...this.#known.values()].reduce((sum, { size }) => sum + size, 0);
    for (const [hash, run] of this.#known) {
      if (this.#known.size <= MOST_KNOWN && kept <= MOST_KEPT) return;
      if (!run.isDone) continue;
      this.#known.delete(hash);
      kept -= run.size;
    }
  }
}

/** One request in progress, with all connections that wait for its answer. */
class CompletionRun {
  readonly result: Promise<Completion>;
  readonly #stopping = new AbortController();
  readonly #listeners = new Set<(event: TurnEvent) => void>();
  readonly #grace: number;
  #marked: Promise<void> | undefined;
  #readers = 0;
  #attended: PromiseWithResolvers<void> | undefined;
  #leaving: NodeJS.Timeout | undefined;
  /** Characters of the remembered answer. */
  size = 0;
  hasMadeCalls = false;
  isDone = false;

  /**
   * `grace`: milliseconds that a disconnected reader has to come back. `mark`: stores that the request
   * changes something; called once, before the first call of a tool that is not read-only.
   */
  constructor(work: CompletionWork, grace: number, mark?: () => Promise<void>) {
    this.#grace = grace;
    const emit = (event: TurnEvent) => {
      if (event.type === "state" && event.state.status === "running") this.hasMadeCalls = true;
      for (const listener of this.#listeners) listener(event);
    };
    const attended = async () => this.#attended?.promise;
    const changing = async () => {
      this.#marked ??= mark?.();
      await this.#marked;
    };
    const end = () => {
      this.isDone = true;
      clearTimeout(this.#leaving);
    };
    this.result = work({ signal: this.#stopping.signal, emit, attended, changing });
    this.result.then(end, end);
  }

  /**
   * Whether the store was told that this run changes something. The changing call may still wait for
   * approval.
   */
  get isMarked(): boolean {
    return this.#marked !== undefined;
  }

  get isStopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  /**
   * Adds a reader and resolves to the answer. After the last reader has disconnected, the run makes no new
   * call; it is cancelled at once when the client cannot return, otherwise at the end of the grace period.
   * Throws `ChatError` for a run that was already cancelled.
   */
  read({ gone, tell = () => {}, mayReturn }: CompletionReader): Promise<Completion> {
    if (this.isStopped) throw new ChatError("chat_cancelled", callsWereCancelled);
    clearTimeout(this.#leaving);
    this.#attended?.resolve();
    this.#attended = undefined;
    this.#readers++;
    this.#listeners.add(tell);
    const leave = () => {
      this.#listeners.delete(tell);
      if (--this.#readers > 0 || this.isDone) return;
      this.#attended = Promise.withResolvers();
      // The run may not be awaiting this promise, so its rejection must be handled here.
      this.#attended.promise.catch(() => {});
      if (this.#grace === 0 || !mayReturn()) this.#stop();
      else this.#leaving = setTimeout(() => this.#stop(), this.#grace).unref();
    };
    if (gone.aborted) leave();
    else gone.addEventListener("abort", leave, { once: true });
    return this.result;
  }

  #stop(): void {
    this.#stopping.abort("the caller closed the connection");
    this.#attended?.reject(this.#stopping.signal.reason);
  }
}

const callsWereCancelled =
  "The same request came a moment ago and made calls of tools, which were cancelled when its connection closed. It is not done again by itself: look what the calls did, and ask anew.";

/** How long the mark of a request, see `markRequest`, is valid in the store, in milliseconds. */
const MARK_LIFETIME = 600_000;
/** Prefix of the id of a mark. Marks are stored among the handoffs, whose ids are hexadecimal. */
const MARK = "run_";

type Marks = Pick<ChatStore, "addHandoff" | "getHandoff">;

/**
 * Marks a request in the store as one that has begun to change something. Other nodes, and this process after
 * a restart, then refuse to repeat it. Never rejects: this process remembers the request anyway.
 */
export async function markRequest(store: Marks, logger: Logger, request: RequestIdentity): Promise<void> {
  const { hash, owner } = request;
  const mark = { id: MARK + hash, owner, sessionId: "", messages: [{ at: Date.now() }] };
  await store.addHandoff(mark).catch((error) => {
    logger.warn("That a request to /v1 makes calls could not be kept for other processes:", error);
  });
}

/**
 * Must be called when this process has no run for the request. Throws `ChatError` when the request made calls
 * in another process, or in this one before its restart.
 */
export async function refuseRepeated(store: Marks, request: RequestIdentity): Promise<void> {
  if (!request.isRepeated) return;
  const mark = await store.getHandoff(MARK + request.hash, request.owner);
  const { at } = Object(mark?.messages[0]);
  if (typeof at !== "number" || Date.now() - at > MARK_LIFETIME) return;
  throw new ChatError("chat_cancelled", callsWereCancelled);
}
