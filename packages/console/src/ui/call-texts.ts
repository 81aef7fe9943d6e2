import type { ApiError, CallFacts, CallStatus, LoopVerdict } from "../api/index.ts";
import { namedCaller, refusalText, t, te } from "../text/index.ts";

export type ShownStatus = CallStatus | "cancelled" | "denied";

export interface NamedCall {
  readonly toolName: string;
  readonly displayName?: string;
}

export function nameOf({ toolName, displayName }: NamedCall): string {
  return displayName ?? toolName;
}

interface StandingCall {
  readonly callId?: string;
  readonly status: CallStatus;
  readonly error?: { readonly code: string } | undefined;
}

/** The status for people: cancelled and denied calls do not count as failed, and `waiting` calls not as running. */
export function shownStatus(call: StandingCall, waiting?: ReadonlySet<string>): ShownStatus {
  const { callId, status, error } = call;
  if (status === "running" && callId !== undefined && waiting?.has(callId)) return "pending";
  if (status !== "error") return status;
  if (error?.code === "cancelled") return "cancelled";
  return error?.code === "approval_denied" ? "denied" : "error";
}

/**
 * Who made a call, for people: the page, the program with its version, a chat or a schedule, and the token's name if it
 * has one of its own.
 */
export function callerText(call: { readonly caller?: string; readonly via?: string }): string {
  const { name, by } = namedCaller(call);
  const way = by !== undefined && te(`callers.${by}`) ? t(`callers.${by}`) : by;
  return [name, way].filter(Boolean).join(" · ");
}

/** How long the tool took: the time in which a call waited for a person is not the tool's. */
export function toolTime({ duration, flags }: Pick<CallFacts, "duration" | "flags">): number | undefined {
  return duration === undefined ? undefined : Math.max(0, duration - (flags?.waited ?? 0));
}

/**
 * Describes a loop in the console's language: what repeats, how often and since when. Unknown kinds use the server's
 * text.
 */
export function loopEvidence({ signal, count, period, evidence = "" }: LoopVerdict, tool: string): string {
  const since = /#(\d+)/.exec(evidence)?.[1];
  const key = `loops.evidence.${signal}`;
  if (since === undefined || !te(key)) return evidence || tool;
  return t(key, { count, period: period ?? 1, tool, since });
}

/** What was unusual about a call, for people. */
export function flagsOf(call: CallFacts): { readonly key: string; readonly text: string }[] {
  const { repaired, dropped, edited, truncated, outputMismatch, overran, mocked, loop } = call.flags ?? {};
  const texts = {
    repaired: repaired && t("flags.repaired"),
    dropped: dropped && t("flags.dropped", { names: dropped.join(", ") }),
    edited: edited && t("flags.edited"),
    truncated: truncated && t("flags.truncated"),
    outputMismatch: outputMismatch && t("flags.outputMismatch", { problem: outputMismatch }),
    overran: overran && t("flags.overran", { limit: overran.limit }),
    mocked: mocked && t("flags.mocked"),
    loop: loop && t("flags.loop", { evidence: loopEvidence(loop, nameOf(call)) }),
  };
  return Object.entries(texts).flatMap(([key, text]) => (text ? [{ key, text }] : []));
}

/** The text of a failure: translated if possible, else the server's message. */
export function errorText({ code, status, message }: ApiError): string {
  if (code === "unreachable" || code === "forbidden") return t(`errors.${code}`);
  if (code === "unexpected") return t("errors.unexpected", { problem: message });
  if (code === "unreadable") return [t("errors.unreadable", { status }), message].join("\n").trim();
  const known = `errors.codes.${code}`;
  if (te(known)) return t(known);
  // The server's own words may name the place or the value that is wrong.
  return [refusalText(code), message || code].filter(Boolean).join("\n");
}
