import type { ToolErrorResponse } from "@toolrack/core";
import type { CallStore, LaneCall } from "../store/index.ts";
import { type Handover, jobIdOf } from "./handover.ts";
import type { LaneLink } from "./lane-link.ts";
import type { WorkerDirectory } from "./lane-workers.ts";

interface LeftCallsOptions {
  readonly link: LaneLink;
  readonly calls: Pick<CallStore, "lanes">;
  readonly directory: WorkerDirectory;
  readonly unseal: (text: string) => string;
}

/** Milliseconds that a worker has more than the caller, so that it is the one who says that the time is over. */
export const GRACE = 1_000;

/** Takes care of calls of lanes whose process died: the one that admitted them, or the one that performed them. Returns their ids. */
export async function takeUpLeftCalls(options: LeftCallsOptions): Promise<string[]> {
  const { lanes } = options.calls;
  const left = (await lanes.open()).filter(({ instance }) => instance !== lanes.instance);
  if (left.length === 0) return [];
  const dead = new Set(await lanes.findDead([...new Set(left.map(({ instance }) => instance))]));
  const found = left.filter(({ instance }) => dead.has(instance));
  for (const call of found) await takeUp(call, options);
  return found.map(({ callId }) => callId);
}

async function takeUp(
  { callId, instance, toolName, lane }: LaneCall,
  { calls, link, unseal, directory }: LeftCallsOptions,
): Promise<void> {
  const row = await calls.lanes.read(callId);
  if (row === undefined || row.instance !== instance) return;
  const handover: Handover = JSON.parse(unseal(row.handover));
  const { deadline } = handover.call;
  const hasBegun = instance !== handover.instance;
  const isLate = deadline !== undefined && deadline + GRACE < Date.now();
  if (hasBegun && (isLate || !handover.isIdempotent)) {
    await calls.lanes.settle(callId, instance, workerDied(toolName));
    return;
  }
  if (isLate) {
    await calls.lanes.settle(callId, instance, neverBegan(toolName, lane));
    return;
  }
  // Its server may be gone, but it was accepted: it is put into a queue again in case Redis lost it.
  const queue = directory.queueFor(lane, toolName, handover.version);
  if (queue === undefined || !link.isUp) return;
  // The job of a worker that died is locked for some seconds, so the call gets another one.
  const jobId = hasBegun ? `${jobIdOf(callId)}-${instance.slice(0, 8)}` : jobIdOf(callId);
  await link
    .queue(queue.name)
    .add(toolName, { callId }, { jobId, removeOnComplete: true, removeOnFail: true });
}

function workerDied(toolName: string): ToolErrorResponse {
  return {
    name: "OutcomeUnknownError",
    code: "outcome_unknown",
    message: `The worker that ran "${toolName}" ended before the call did. What the tool did until then is not known, and it is not run again by itself: look before calling it again.`,
    recoverable: true,
  };
}

function neverBegan(toolName: string, lane: string): ToolErrorResponse {
  return {
    name: "ToolTimeoutError",
    code: "timed_out",
    message: `"${toolName}" did not run: no worker of lane "${lane}" took the call in time.`,
    recoverable: true,
  };
}
