import { unlessAborted } from "../../helpers/index.ts";
import type { Sessions } from "./limits.ts";
import { UpstreamError } from "./protocol/failures.ts";
import type { LaneRequest } from "./protocol/requests.ts";
import type { UpstreamSession } from "./protocol/session.ts";
import type { SignIn } from "./sign-in/sign-in.ts";
import {
  canBeSentAgain,
  concernsOneRequest,
  isRefusalOfOne,
  missingScope,
  refusedCredentials,
} from "./upstream-state.ts";

/** One that somebody may give up while it waits for its turn. */
export type UpstreamRequest = LaneRequest & {
  readonly signal: AbortSignal;
  /** Asked right before it is sent, every time: throws when the server is not what it was when somebody agreed to it. */
  readonly admit?: (() => void) | undefined;
};

interface RecoveryParts {
  readonly sessions: Sessions;
  readonly attempts: Attempts;
  readonly signIn: Pick<SignIn, "distrust" | "want"> | undefined;
  /** An answer could not be used, or a request was refused for who we are, which may be the first sign of something worse. */
  onBroken(): void;
  /** The server is not there, or does not let us in any more. */
  onFailed(error: UpstreamError): void;
  /** What callers are told while there is no session. `reason` is for when the server itself gives none. */
  unavailable(reason: string | undefined): UpstreamError;
  /** What the caller is told whose request the server had been sent when it was lost. */
  lost(reason: string): UpstreamError;
}

/** What becomes of a request that failed, and of the session that it was sent over. */
export class Recovery {
  readonly #parts: RecoveryParts;

  constructor(parts: RecoveryParts) {
    this.#parts = parts;
  }

  /**
   * A lost session is made anew, and so is one whose token has ended, and the request sent once more: the server that
   * refused it has done nothing. Rejects with what the caller is to be told.
   */
  async recover(
    error: UpstreamError,
    session: UpstreamSession,
    request: UpstreamRequest,
    isSecond = false,
  ): Promise<unknown> {
    const { sessions, attempts, signIn, onBroken, onFailed, unavailable, lost } = this.#parts;
    if (error.scope !== undefined) throw missingScope(error, error.scope, signIn);
    if (error.kind === "lost") throw lost(error.message);
    if (error.kind === "broken") onBroken();
    if (concernsOneRequest(error)) throw error;
    if (isSecond && error.kind === "session") throw new UpstreamError("refused", error.message, error.facts);
    const isCurrent = session === sessions.current;
    const canGoOn = !isSecond && canBeSentAgain(error, isCurrent, signIn);
    if (!canGoOn && isRefusalOfOne(error, isSecond, signIn)) {
      // Whether it lets us in at all is seen when its lists are read.
      onBroken();
      throw refusedCredentials(error, signIn);
    }
    if (isCurrent) {
      // Others may still wait for answers over connections of their own.
      sessions.partWith(session);
      attempts.isReopening = canGoOn;
      if (!canGoOn) onFailed(error);
    }
    if (!canGoOn) throw unavailable(error.message);
    if (sessions.current === undefined) await unlessAborted(attempts.begin(), request.signal);
    const again = sessions.current;
    if (again === undefined) throw unavailable(undefined);
    request.admit?.();
    return again.request(request).catch((thrown: unknown) => {
      if (thrown instanceof UpstreamError) return this.recover(thrown, again, request, true);
      throw thrown;
    });
  }
}

/** A token that has ended when it is given must not keep the rack busy. */
const SHORTEST_RENEWAL = 1_000;
/** Timers cannot wait any longer. */
const LONGEST_RENEWAL = 2 ** 31 - 1;
const AGAIN = 10_000;

/** When the tokens of a session are renewed. */
export class RenewalTimer {
  readonly #renew: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(renew: () => void) {
    this.#renew = renew;
  }

  /** Milliseconds since the epoch; undefined is never. */
  at(time: number | undefined): void {
    clearTimeout(this.#timer);
    if (time === undefined) return;
    const pause = Math.min(Math.max(time - Date.now(), SHORTEST_RENEWAL), LONGEST_RENEWAL);
    this.#timer = setTimeout(this.#renew, pause);
    this.#timer.unref();
  }

  /** It came to nothing this time. */
  again(): void {
    this.at(Date.now() + AGAIN);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

/** Several changes at once are one change. */
const SHORTEST_REREAD = 50;
const LONGEST_REREAD = 60_000;
/** Timers cannot wait any longer. */
const MOST = 2 ** 31 - 1;
/** Who was quiet for so many pauses is answered at once again. */
const CALM = 10;

/**
 * When the lists of a server are read again. A change that it tells of is followed soon, never put off by the next one;
 * who tells of changes all the time is read with pauses that grow.
 */
export class RereadTimer {
  readonly #interval: number;
  readonly #read: () => Promise<void>;
  readonly #isTold: () => boolean;
  #pause = SHORTEST_REREAD;
  #lastAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #isSoon = false;
  #reading: Promise<void> | undefined;
  #isWantedAgain = false;

  /**
   * `interval` is that of `later`, in milliseconds; 0 is never. `read` must not reject. `isTold`: the server tells of
   * changes by itself, so that `later` need not read. It may say so of itself and be heard only later, or no longer.
   */
  constructor(interval: number, read: () => Promise<void>, isTold: () => boolean = () => false) {
    this.#interval = interval;
    this.#read = read;
    this.#isTold = isTold;
  }

  soon(): void {
    if (this.#isSoon) return;
    if (this.#reading !== undefined) {
      this.#isWantedAgain = true;
      return;
    }
    const isCalm = performance.now() - this.#lastAt > this.#pause * CALM;
    this.#pause = isCalm ? SHORTEST_REREAD : Math.min(LONGEST_REREAD, this.#pause * 2);
    this.#isSoon = true;
    this.#set(this.#pause);
  }

  /** Reads without a pause, for somebody who waits for it; resolves when it is read. One that is under way is joined. */
  now(): Promise<void> {
    clearTimeout(this.#timer);
    this.#isSoon = false;
    this.#reading ??= this.#readOnce();
    return this.#reading;
  }

  later(): void {
    if (!this.#isSoon && this.#interval > 0) this.#set(this.#interval);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#isSoon = false;
    this.#isWantedAgain = false;
  }

  #set(delay: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => {
        if (!this.#isSoon && this.#isTold()) this.later();
        else void this.now();
      },
      Math.min(delay, MOST),
    );
    this.#timer.unref();
  }

  async #readOnce(): Promise<void> {
    await this.#read();
    this.#reading = undefined;
    this.#lastAt = performance.now();
    if (!this.#isWantedAgain) return;
    this.#isWantedAgain = false;
    this.soon();
  }
}

/** Notices that a server was not used for a while. */
export class RestTimer {
  readonly #limit: number | undefined;
  readonly #onRest: () => void;
  #timer: NodeJS.Timeout | undefined;

  /** Without a limit it never notices. */
  constructor(limit: number | undefined, onRest: () => void) {
    this.#limit = limit;
    this.#onRest = onRest;
  }

  /** From now on nobody uses it. */
  begin(): void {
    if (this.#limit === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onRest, this.#limit);
    this.#timer.unref();
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

/** The attempts to start a server, of which there is one at a time. */
export class Attempts {
  readonly #connect: (signal: AbortSignal) => Promise<void>;
  #underWay: Promise<void> | undefined;
  #abort = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;
  /** When the last one began, the one before it, and when the next one will. Milliseconds since the epoch. */
  lastAt = 0;
  formerAt = 0;
  nextAt: number | undefined;
  /** The server was ready a moment ago, and only a session is made anew. Holds until the attempt has ended. */
  isReopening = false;

  /** `connect` must not reject, and must come to its end soon once the signal has aborted. */
  constructor(connect: (signal: AbortSignal) => Promise<void>) {
    this.#connect = connect;
  }

  /** Resolves when the attempt under way has ended, however; undefined when there is none. */
  get underWay(): Promise<void> | undefined {
    return this.#underWay;
  }

  /** There will be no more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Joins the one that is under way, or begins one. Resolves when it has ended, however. */
  begin(): Promise<void> {
    this.#forgetNext();
    this.#underWay ??= this.#run().finally(() => {
      this.#underWay = undefined;
      this.isReopening = false;
    });
    return this.#underWay;
  }

  /** In milliseconds. */
  beginAfter(pause: number): void {
    this.#forgetNext();
    this.nextAt = Date.now() + pause;
    this.#timer = setTimeout(() => void this.begin(), pause);
    this.#timer.unref();
  }

  /** None begins by itself any more. */
  #forgetNext(): void {
    clearTimeout(this.#timer);
    this.nextAt = undefined;
  }

  /** Gives up the one that is under way, and the next one. Resolves when nothing is under way. */
  async giveUp(): Promise<void> {
    this.#forgetNext();
    this.#abort.abort();
    await this.#underWay;
  }

  /** The same, for good. */
  end(): Promise<void> {
    this.#isOver = true;
    return this.giveUp();
  }

  async #run(): Promise<void> {
    if (this.#isOver) return;
    this.#abort = new AbortController();
    this.formerAt = this.lastAt;
    this.lastAt = Date.now();
    await this.#connect(this.#abort.signal);
  }
}

const FIRST_DELAY = 250;
const LONGEST_DELAY = 60_000;

/** How long to wait after so many failures in a row. Those who failed together do not try again together. */
export function pauseAfter(failures: number): number {
  const full = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** Math.min(failures - 1, 20));
  return Math.round(full * (0.5 + Math.random() / 2));
}

/** A server that says nothing for so long is given the next call all the same. In milliseconds. */
const LONGEST_SILENCE = 10_000;

/**
 * Waits until a server shows that it is there, after a call was given up that it never answered. Until then the next call
 * would only be sent to somebody who may not be listening, and could be taken for done.
 */
export class SignOfLife {
  readonly #awaited = new WeakMap<UpstreamSession, Promise<boolean>>();

  /** False when the server said nothing. Several who wait ask once. Never rejects. */
  of(session: UpstreamSession): Promise<boolean> {
    const before = this.#awaited.get(session);
    if (before !== undefined) return before;
    // Also one that knows no such method answers that it does not.
    const heard = session
      .request({ method: "ping", params: {}, timeout: LONGEST_SILENCE })
      .then(
        () => true,
        (thrown) => !(thrown instanceof UpstreamError && thrown.kind === "timeout"),
      )
      .finally(() => this.#awaited.delete(session));
    this.#awaited.set(session, heard);
    return heard;
  }
}
