import type { ChatMessage, ChatToolPart } from "../../api/chat-types.ts";

/**
 * Of the calls of an answer that the loop guard spoke about: those at which it is shown, one for each loop and the latest
 * of it, and the last of all. A loop that ended the answer is told of at its end, and nowhere else.
 */
export function loopsIn({ parts = [], end }: Pick<ChatMessage, "parts" | "end">): {
  readonly shown: ReadonlySet<string>;
  readonly last: ChatToolPart | undefined;
} {
  const caught = parts.filter(
    (part): part is ChatToolPart =>
      part.type === "tool" && part.loop !== undefined && part.loop.action !== "none",
  );
  const last = caught.at(-1);
  const latest = new Map(caught.map((part) => [keyOf(part), part.callId]));
  if (end?.reason === "loop" && last !== undefined) latest.delete(keyOf(last));
  return { shown: new Set(latest.values()), last };
}

function keyOf({ name, loop }: ChatToolPart): string {
  return loop?.fingerprint ?? `${name} ${loop?.signal}`;
}
