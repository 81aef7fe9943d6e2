import type { CallStatus } from "../api/types.ts";

export type ShownStatus = CallStatus | "cancelled" | "denied";

interface StandingCall {
  readonly callId?: string;
  readonly status: CallStatus;
  readonly error?: { readonly code: string } | undefined;
}

/**
 * How a call stands, for people: one that somebody cancelled or denied did not fail, and one that waits for an answer
 * does not run, where the calls that wait are given.
 */
export function shownStatus(call: StandingCall, waiting?: ReadonlySet<string>): ShownStatus {
  const { callId, status, error } = call;
  if (status === "running" && callId !== undefined && waiting?.has(callId)) return "pending";
  if (status !== "error") return status;
  if (error?.code === "cancelled") return "cancelled";
  return error?.code === "approval_denied" ? "denied" : "error";
}
