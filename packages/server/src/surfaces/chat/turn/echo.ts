import type { DeltaMerger } from "../model/delta-merger.ts";
import type { ModelToolCall } from "../model/model-message.ts";

/**
 * What a provider said beside a call and asks for in the next rounds of the same turn, such as signatures of thoughts.
 * Nobody else is sent it.
 */
export interface Echo {
  readonly provider: string;
  /** More members of the call. */
  readonly call?: Readonly<Record<string, unknown>>;
  /** More members of the message; with the first call of a round. */
  readonly message?: Readonly<Record<string, unknown>>;
  /** The member of the message that holds the round's reasoning; with the first call of a round. */
  readonly reasoning?: string;
}

/** What the provider wants to read again with a call. `merger`: the answer, for its first call. */
export function echoOf(
  call: ModelToolCall,
  merger: DeltaMerger | undefined,
  provider: string,
): Echo | undefined {
  const { id: _id, type: _type, function: _function, custom: _custom, ...more } = call;
  const { reasoningField: reasoning, reasoningDetails: details = [] } = merger ?? {};
  const echo = {
    ...(Object.keys(more).length === 0 ? {} : { call: more }),
    ...(details.length === 0 ? {} : { message: { reasoning_details: details } }),
    ...(reasoning === undefined ? {} : { reasoning }),
  };
  return Object.keys(echo).length === 0 ? undefined : { provider, ...echo };
}
