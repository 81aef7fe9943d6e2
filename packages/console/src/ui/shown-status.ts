import type { CallStatus } from "../api/types.ts";

export type ShownStatus = CallStatus | "cancelled";

/** How a call stands, for people: one that somebody cancelled did not fail. */
export function shownStatus(call: {
  readonly status: CallStatus;
  readonly error?: { readonly code: string } | undefined;
}): ShownStatus {
  return call.status === "error" && call.error?.code === "cancelled" ? "cancelled" : call.status;
}
