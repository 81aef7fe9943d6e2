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
