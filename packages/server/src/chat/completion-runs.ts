import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { Logger } from "@toolrack/core";
import type { ChatStore } from "../store/index.ts";
import type { Completion } from "./completions.ts";
import { ChatError } from "./services.ts";
import type { TurnEvent } from "./turn.ts";

/** A request as it is known when it comes again. */
interface RequestIdentity {
  /** Of who asks and what: hexadecimal digits. */
  readonly hash: string;
  /** The id of the token. */
  readonly owner: string;
  /** The client gave it a key of its own, by which it may come any number of times and is answered once. */
  readonly isKeyed: boolean;
  /** The client says that it sends it again. */
  readonly isRepeated: boolean;
}

/** Undefined for a client that does not tell a request that it repeats from another. */
export function identify(
  headers: IncomingHttpHeaders,
  owner: string,
  body: unknown,
): RequestIdentity | undefined {
  const key = headers["idempotency-key"];
  const count = headers["x-stainless-retry-count"];
  if (typeof key !== "string" && typeof count !== "string") return undefined;
  const said = JSON.stringify([owner, key ?? "", headers["x-toolrack-expert"] ?? "", body]);
  const hash = createHash("sha256").update(said).digest("hex");
  return { hash, owner, isKeyed: typeof key === "string", isRepeated: Number(count) > 0 };
}

/** A caller that waits for an answer. */
interface CompletionReader {
  /** Aborted when nobody reads any more. */
  readonly gone: AbortSignal;
  readonly tell?: ((event: TurnEvent) => void) | undefined;
  /** Asked when nobody reads any more: whether the client may still send its request again. */
  readonly mayReturn: () => boolean;
}

type CompletionWork = (run: {
  readonly signal: AbortSignal;
  readonly emit: (event: TurnEvent) => void;
  /** Resolves while somebody waits for the answer. Rejects when nobody does any more. */
  readonly attended: () => Promise<void>;
  /** To be awaited before anything is changed; see `CompletionMarks`. */
  readonly changing: () => Promise<void>;
}) => Promise<Completion>;

/** How long a client whose connection closed has to come back: OpenAI's do after one second or two. */
const GRACE = 4_000;
/** How long it is known what ran. */
const MEMORY = 120_000;
const MOST_KNOWN = 200;
/** Characters of all answers that are kept. */
const MOST_KEPT = 16 * 1024 * 1024;

/**
 * Requests that are being answered, and those of the last minutes that made calls. OpenAI's clients send a request again
 * when it takes too long or the connection breaks; that one joins the first, so that no tool runs twice for it.
 */
export class CompletionRuns {
  readonly #known = new Map<string, CompletionRun>();
  readonly #marks: CompletionMarks;

  constructor(marks: CompletionMarks) {
    this.#marks = marks;
  }

  /** The same request, when this one only repeats it. Throws `ChatError` for one that made calls in another process. */
  async find(identity: RequestIdentity | undefined): Promise<CompletionRun | undefined> {
    if (identity === undefined || !(identity.isRepeated || identity.isKeyed)) return undefined;
    if (!this.#known.has(identity.hash)) await this.#marks.refuseRepeated(identity);
    // The same may have come once more meanwhile.
    const run = this.#known.get(identity.hash);
    return run?.isStopped && !run.hasMadeCalls ? undefined : run;
  }

  begin(identity: RequestIdentity | undefined, work: CompletionWork): CompletionRun {
    if (identity === undefined) return new CompletionRun(work, 0);
    const { hash, isKeyed } = identity;
    const run = new CompletionRun(work, GRACE, () => this.#marks.add(identity));
    // The newest is the last that gives way.
    this.#known.delete(hash);
    this.#known.set(hash, run);
    const forget = () => {
      if (this.#known.get(hash) === run) this.#known.delete(hash);
    };
    const settle = (completion?: Completion) => {
      // Without calls it costs nothing but words to do it again.
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
    let kept = 0;
    for (const run of this.#known.values()) kept += run.size;
    for (const [hash, run] of this.#known) {
      if (this.#known.size <= MOST_KNOWN && kept <= MOST_KEPT) return;
      if (!run.isDone) continue;
      this.#known.delete(hash);
      kept -= run.size;
    }
  }
}

/** One request that is answered, for every connection on which it is waited for. */
class CompletionRun {
  readonly result: Promise<Completion>;
  readonly #stopping = new AbortController();
  readonly #listeners = new Set<(event: TurnEvent) => void>();
  readonly #grace: number;
  #marked: Promise<void> | undefined;
  #readers = 0;
  #attended: PromiseWithResolvers<void> | undefined;
  #leaving: NodeJS.Timeout | undefined;
  /** Of the answer, when it is kept. */
  size = 0;
  hasMadeCalls = false;
  isDone = false;

  /** `grace`: milliseconds in which a reader may come back. `mark`: called once, before anything is changed. */
  constructor(work: CompletionWork, grace: number, mark?: () => Promise<void>) {
    this.#grace = grace;
    this.result = work({
      signal: this.#stopping.signal,
      emit: (event) => this.#hear(event),
      attended: async () => this.#attended?.promise,
      changing: async () => {
        this.#marked ??= mark?.();
        await this.#marked;
      },
    });
    const end = () => {
      this.isDone = true;
      clearTimeout(this.#leaving);
    };
    this.result.then(end, end);
  }

  /** Whether it is kept that it changes something. It may have been about to only, and have waited for consent. */
  get isMarked(): boolean {
    return this.#marked !== undefined;
  }

  get isStopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  /**
   * The answer. When the last reader goes, all of it is cancelled after the while in which one may come back, if it may;
   * until then nothing new is begun. Throws `ChatError` for one that was cancelled before.
   */
  read({ gone, tell, mayReturn }: CompletionReader): Promise<Completion> {
    if (this.isStopped) throw new ChatError("chat_cancelled", callsWereCancelled);
    clearTimeout(this.#leaving);
    this.#attended?.resolve();
    this.#attended = undefined;
    this.#readers++;
    if (tell !== undefined) this.#listeners.add(tell);
    const leave = () => {
      if (tell !== undefined) this.#listeners.delete(tell);
      if (--this.#readers > 0 || this.isDone) return;
      this.#attended = Promise.withResolvers();
      // Often nobody asks for it.
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

  #hear(event: TurnEvent): void {
    if (event.type === "state" && event.state.status === "running") this.hasMadeCalls = true;
    for (const listener of this.#listeners) listener(event);
  }
}

const callsWereCancelled =
  "The same request came a moment ago and made calls of tools, which were cancelled when its connection closed. It is not done again by itself: look what the calls did, and ask anew.";

/** How long it is known that a request made calls, wherever it did, in milliseconds. */
const MARKED = 600_000;

/**
 * Says in the store which requests have begun to change something, for the processes that do not know what became of
 * them: another node of the store, or the next start. Only of requests that may come again.
 */
export class CompletionMarks {
  readonly #store: Pick<ChatStore, "addHandoff" | "getHandoff">;
  readonly #logger: Logger;

  constructor(store: Pick<ChatStore, "addHandoff" | "getHandoff">, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  /** Resolves when it is safely written. Never rejects: this process knows of the request anyway. */
  async add({ hash, owner }: RequestIdentity): Promise<void> {
    try {
      const messages = [{ at: Date.now() }];
      await this.#store.addHandoff({ id: markId(hash), owner, sessionId: "", messages });
    } catch (error) {
      this.#logger.warn("That a request to /v1 makes calls could not be kept for other processes:", error);
    }
  }

  /** To be asked for a request that no run of this process answers. Throws `ChatError` for one that made calls. */
  async refuseRepeated({ hash, owner, isRepeated, isKeyed }: RequestIdentity): Promise<void> {
    if (!isRepeated && !isKeyed) return;
    const mark = await this.#store.getHandoff(markId(hash), owner);
    const { at } = Object(mark?.messages[0]);
    if (typeof at !== "number" || Date.now() - at > MARKED) return;
    throw new ChatError("chat_cancelled", callsWereCancelled);
  }
}

/** No id of a handoff, which has hexadecimal digits only. */
function markId(hash: string): string {
  return `run_${hash}`;
}
