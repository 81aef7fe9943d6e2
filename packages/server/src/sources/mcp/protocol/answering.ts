import type { LaneRequest } from "./request-lane.ts";

/** A request under way over HTTP, and what is known of the answer that it is being given. */
export interface Answering {
  readonly request: LaneRequest;
  /** The status of the answer. */
  status?: number;
  /** The answer is a stream, whose end is told of. Any other has ended when it was read. */
  isStream?: true;
  /** Why the stream of the answer ended too early, when we know. */
  problem?: string;
}
