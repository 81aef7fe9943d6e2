import type { CallClient } from "../tool/client.ts";

/** What the author's functions of a prompt or a resource are given. */
export interface OfferingContext {
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** Whoever asks, when it can be asked something in turn. */
  readonly client: CallClient | undefined;
  /** Who asks, as records name it. */
  readonly caller: string;
}
