import { type RecalledCall, recallCalls } from "@toolrack/core/internal";
import type { StoredCall } from "../store/index.ts";
import type { ChatServices } from "./services.ts";

/** How many calls loop detection looks back. */
const MOST = 24;

type Sources = Pick<ChatServices, "registry" | "store" | "logger">;

/**
 * Restores the memory of loop detection from the call records, for a session whose earlier calls were made in
 * another process. `callIds`: exactly these calls, oldest first; default: the last calls of the session.
 * Never rejects.
 */
export async function restoreLoopMemory(
  sources: Sources,
  sessionID: string,
  owner: string,
  callIds?: readonly string[],
): Promise<void> {
  const { registry, store, logger } = sources;
  try {
    const known = callIds?.slice(-MOST) ?? (await lastCalls(store, sessionID));
    const calls = await Promise.all(known.map((callId) => recall(sources, callId)));
    const recalled = calls.filter((call) => call !== undefined);
    registry.restoreLoopState(sessionID, recallCalls(recalled), owner);
  } catch (error) {
    // Loop detection is a guard and must not make the conversation fail.
    logger.warn("Loop detection does not remember a conversation that goes on:", error);
  }
}

/** What came before a person let the session go on no longer counts. */
async function lastCalls({ calls, loopReleases }: Sources["store"], session: string): Promise<string[]> {
  const since = await loopReleases.latest(session);
  const { items } = await calls.list({ session, top: true, limit: MOST, ...(since && { since }) });
  return items.map(({ callId }) => callId).reverse();
}

async function recall({ registry, store }: Sources, callId: string): Promise<RecalledCall | undefined> {
  const record = await store.calls.get(callId);
  if (!isEnded(record)) return undefined;
  const { result, resultSize, flags, toolName } = record;
  const metadata = registry.get(toolName)?.metadata ?? {};
  if (flags?.truncated !== true) return { record, result, metadata };
  // The result may be stored on another node; then loop detection does not learn of the call.
  const whole = await store.calls.readResult(callId, 0, resultSize).catch(() => undefined);
  return whole && { record, result: { ...result, content: whole.text }, metadata };
}

/** Whether the call is on record as ended, with a known outcome. */
export function isEnded(call: StoredCall | undefined): call is StoredCall {
  return call !== undefined && call.outcome !== "running" && call.outcome !== "interrupted";
}
