import { unlessAborted } from "../../async/unless-aborted.ts";
import type { Attempts } from "./attempts.ts";
import type { LaneRequest } from "./protocol/request-lane.ts";
import { UpstreamError } from "./protocol/upstream-error.ts";
import type { UpstreamSession } from "./protocol/upstream-session.ts";
import {
  canBeSentAgain,
  concernsOneRequest,
  isRefusalOfOne,
  missingScope,
  refusedCredentials,
} from "./request-failure.ts";
import type { Sessions } from "./sessions.ts";
import type { SignIn } from "./sign-in/sign-in.ts";

/** One that somebody may give up while it waits for its turn. */
export type UpstreamRequest = LaneRequest & { readonly signal: AbortSignal };

export interface RecoveryParts {
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
    return again.request(request).catch((thrown: unknown) => {
      if (thrown instanceof UpstreamError) return this.recover(thrown, again, request, true);
      throw thrown;
    });
  }
}
