import { isDeepStrictEqual } from "node:util";
import type { MessagePart, ToolPart } from "./message-part.ts";
import type { TurnEvent } from "./turn-event.ts";

/** What must have happened for the parts of an answer to become others: for a reader who sees only what is stored. */
export function eventsBetween(before: readonly MessagePart[], after: readonly MessagePart[]): TurnEvent[] {
  return after.flatMap((part, at) => {
    const earlier = before[at];
    if (part.type === "tool") return eventsOfCall(earlier?.type === "tool" ? earlier : undefined, part);
    const known = earlier?.type === part.type ? earlier.text : "";
    // Text only grows.
    const text = part.text.startsWith(known) ? part.text.slice(known.length) : "";
    return text === "" ? [] : [{ type: part.type, text }];
  });
}

function eventsOfCall(before: ToolPart | undefined, part: ToolPart): TurnEvent[] {
  const { id, callId, name, displayName, arguments: written, client, state } = part;
  const call = { id, callId, name, displayName, arguments: written, ...(client && { client }) };
  const events: TurnEvent[] = before === undefined ? [{ type: "call", ...call }] : [];
  const hasChanged =
    before === undefined ? state.status !== "pending" : !isDeepStrictEqual(before.state, state);
  return hasChanged ? [...events, { type: "state", callId, name, state }] : events;
}
