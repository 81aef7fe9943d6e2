import type { Grant } from "../../../auth/grant.ts";
import type { StoredCall } from "../../../store/store.ts";
import { HttpError } from "../http-error.ts";
import type { HttpParts } from "../parts.ts";

type CallParts = Pick<HttpParts, "store" | "desk" | "recorder">;

/** Chains are no deeper than the pipeline allows; the rest is for damaged records. */
const DEEPEST = 64;

/** Who is no admin sees the calls that were made with the same token, and what those called in turn. */
export async function mayRead(grant: Grant, call: StoredCall, { store, desk }: CallParts): Promise<boolean> {
  if (grant.admin) return true;
  let at: StoredCall | undefined = call;
  for (let depth = 0; at !== undefined && depth < DEEPEST; depth++) {
    if (at.parentCallId === undefined) return at.caller === grant.caller;
    // The call at the root of the chain may still be under way.
    if (desk.callerOf(at.parentCallId) === grant.caller) return true;
    at = await store.calls.get(at.parentCallId);
  }
  return false;
}

/** The stored call, or a refusal that does not tell a call of others from one that never was. */
export async function requireCall(grant: Grant, callId: string, parts: CallParts): Promise<StoredCall> {
  const call = await findCall(callId, parts);
  if (call === undefined || !(await mayRead(grant, call, parts))) throw unknownCall(callId);
  return call;
}

/** A call may have ended a moment ago, with its record still on the way. */
async function findCall(callId: string, { store, recorder }: CallParts): Promise<StoredCall | undefined> {
  const call = await store.calls.get(callId);
  if (call !== undefined && call.outcome !== "running") return call;
  await recorder.flush();
  return store.calls.get(callId);
}

export function unknownCall(callId: string): HttpError {
  const message = `This token knows no call "${callId}". GET /api/calls lists those that it may see.`;
  return new HttpError("call_not_found", message, { details: { callId } });
}
