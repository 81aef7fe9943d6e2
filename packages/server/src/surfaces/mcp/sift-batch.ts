import { cancellationOf } from "./cancellations-in.ts";
import { requestIdOf } from "./request-id-of.ts";

type Id = string | number;

/** How many messages may come at once. As many as the SDK takes. */
export const mostInBatch = 100;

export function batchTooLong(length: number): string {
  return `A batch may have ${mostInBatch} messages, and this one has ${length}. Send them in several.`;
}

export interface SiftedBatch {
  /** What is left to be answered. */
  readonly messages: readonly unknown[];
  readonly hasRequests: boolean;
  /** The ids of requests that have one that another request has. */
  readonly reused: readonly Id[];
}

/**
 * Takes out of a batch what the SDK would answer on the wrong stream or never: requests with an id that is under way, and
 * those that the same batch cancels again, which are not even begun.
 */
export function siftBatch(batch: readonly unknown[], isUnderWay: (id: Id) => boolean): SiftedBatch {
  const reused: Id[] = [];
  const open = new Map<Id, unknown>();
  const given = batch.filter((message) => {
    const id = requestIdOf(message);
    if (id === undefined) return true;
    if (open.has(id) || isUnderWay(id)) {
      reused.push(id);
      return false;
    }
    open.set(id, message);
    return true;
  });
  const withdrawn = new Set<unknown>();
  const begun = new Set<Id>();
  for (const message of given) {
    const id = requestIdOf(message);
    if (id !== undefined) begun.add(id);
    const cancelled = cancellationOf(message)?.requestId;
    if (cancelled === undefined || !open.has(cancelled)) continue;
    // One that comes before its request means nothing, though the SDK would take it to mean that request.
    withdrawn.add(message);
    if (begun.has(cancelled)) withdrawn.add(open.get(cancelled));
  }
  const messages = given.filter((message) => !withdrawn.has(message));
  return { messages, hasRequests: messages.some((message) => requestIdOf(message) !== undefined), reused };
}
