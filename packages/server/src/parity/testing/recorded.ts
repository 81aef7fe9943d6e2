import type { Store, StoredCall } from "../../store/store.ts";

/** What the store has of a call, without what is different for every call. */
export type Recorded = ReturnType<typeof comparable> & { readonly made: readonly ReturnType<typeof comparable>[] };

/** The record of a call that has ended, with those of the calls that it made. */
export async function recordedOf({ calls }: Store, call: StoredCall): Promise<Recorded> {
  const { items } = await calls.list({ root: call.callId });
  const children = items.filter(({ depth }) => depth > 0).sort((one, other) => one.depth - other.depth);
  const made = await Promise.all(children.map(async ({ callId }) => (await calls.get(callId))!));
  return { ...comparable(call), made: made.map(comparable) };
}

function comparable(call: StoredCall) {
  const { callId, parentCallId, result, error, flags } = call;
  const ids = new Map([
    [callId, "<call>"],
    [parentCallId ?? "", "<parent>"],
  ]);
  const { waited: _, ...marks } = flags ?? {};
  return nameless(
    {
      tool: call.toolName,
      displayName: call.displayName,
      status: call.status,
      outcome: call.outcome,
      code: error?.code,
      error,
      parameters: call.parameters,
      parametersHash: call.parametersHash,
      text: result.content,
      type: result.type,
      structured: result.structured,
      attachments: result.attachments,
      metadata: result.metadata,
      size: call.resultSize,
      flags: marks,
      depth: call.depth,
    },
    ids,
  );
}

/** Ids and measured times are different for every call. */
function nameless<Value>(value: Value, ids: ReadonlyMap<string, string>): Value {
  const text = JSON.stringify(value, (key, inner) => (key === "elapsed" ? "<elapsed>" : inner));
  let named = text;
  for (const [id, name] of ids) if (id !== "") named = named.replaceAll(id, name);
  return JSON.parse(named) as Value; // The same shape, with other words in it.
}
