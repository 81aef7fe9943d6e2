import { grantOf, masterGrant } from "../auth/grant.ts";
import type { CallDesk } from "../calls/call-desk.ts";
import type { Store } from "../store/store.ts";
import type { ResumedCall } from "./inbox-parts.ts";

/** Makes a call anew that somebody agreed to after its process had ended: with the rights that its caller has now. */
export async function resumeCall(
  { callId, approval }: ResumedCall,
  desk: CallDesk,
  store: Pick<Store, "tokens">,
): Promise<void> {
  const { caller, toolName, sessionID, input, callId: replayOf } = approval;
  const token = (await store.tokens.list()).find((candidate) => grantOf(candidate).caller === caller);
  if (token === undefined && caller !== masterGrant.caller) {
    throw new Error(`"${toolName}" was not called anew: nobody has the token of ${caller} any more.`);
  }
  if (token?.expiresAt !== undefined && token.expiresAt <= Date.now()) {
    throw new Error(`"${toolName}" was not called anew: the token of ${caller} has expired.`);
  }
  await desk.run({
    callId,
    name: toolName,
    input,
    grant: token === undefined ? masterGrant : grantOf(token),
    signal: new AbortController().signal,
    replayOf,
    ...(sessionID === "" ? {} : { sessionID }),
  });
}
