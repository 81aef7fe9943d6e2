import { sentence } from "./protocol/sentence.ts";
import { UpstreamError } from "./protocol/upstream-error.ts";
import type { SignIn } from "./sign-in/sign-in.ts";

/** What happened to one request, and says nothing about the others. */
const ofOneRequest: ReadonlySet<UpstreamError["kind"]> = new Set(["refused", "broken", "timeout", "busy"]);

export function concernsOneRequest({ kind }: UpstreamError): boolean {
  return ofOneRequest.has(kind);
}

/** Whether the server may speak another protocol than was thought, and has not simply ended. */
export function isMisunderstanding(thrown: unknown): boolean {
  return thrown instanceof UpstreamError && concernsOneRequest(thrown);
}

/**
 * Whether a new session may do what this one could not: it was forgotten, or its token has ended. `isCurrent`: nobody has
 * noticed that before.
 */
export function canBeSentAgain(
  { kind }: UpstreamError,
  isCurrent: boolean,
  signIn: Pick<SignIn, "distrust"> | undefined,
): boolean {
  if (kind === "session") return true;
  return kind === "unauthorized" && (!isCurrent || signIn?.distrust() === true);
}

/** Who signed in may do less than this request needs. Others go on with what they may. */
export function missingScope(
  { facts }: UpstreamError,
  scope: string,
  signIn: Pick<SignIn, "want"> | undefined,
): UpstreamError {
  const wanted = scope === "" ? "more than that" : `the scope "${scope}"`;
  const remedy = signIn?.want(scope) ?? "Give its entry a token that covers it, kept as a secret.";
  return new UpstreamError(
    "refused",
    `What the rack was granted there does not cover it: it asks for ${wanted}. ${remedy}`,
    facts,
  );
}

/**
 * Whether the server asks for credentials that no signing in can bring: it is sent those of its entry, or refused a token
 * that was renewed a moment ago. Both were good enough for other requests, so that it says nothing about those.
 */
export function isRefusalOfOne(
  { kind }: UpstreamError,
  isSecond: boolean,
  signIn: Pick<SignIn, "want"> | undefined,
): boolean {
  return kind === "unauthorized" && (isSecond || signIn === undefined);
}

export function refusedCredentials(
  { message, facts }: UpstreamError,
  signIn: Pick<SignIn, "want"> | undefined,
): UpstreamError {
  const remedy =
    signIn === undefined
      ? "The headers of its entry may not cover this, or hold no longer: look at them if it happens again."
      : "Its token was renewed a moment ago, so another one does not help: whoever signed in may not do this there.";
  return new UpstreamError("refused", `${sentence(message)} ${remedy}`, facts);
}

/** So long a server is left alone at most, whatever it asks for, in milliseconds. */
const LONGEST_WAIT = 60 * 60_000;

/** How long a server asks to wait before it is tried again, in milliseconds. */
export function waitWanted(thrown: unknown): number {
  const seconds = thrown instanceof UpstreamError ? (thrown.facts.retryAfter ?? 0) : 0;
  return Math.min(seconds * 1_000, LONGEST_WAIT);
}
