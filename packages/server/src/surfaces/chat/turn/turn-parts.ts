import { isTool, type MessagePart, type TextPart, type ToolPart } from "./message-part.ts";
import type { Turn } from "./turn.ts";

/** The calls of a turn so far. */
export function callsIn(parts: readonly MessagePart[]): ToolPart[] {
  return parts.filter(isTool);
}

/** The number of the round that comes after the parts. */
export function nextRound(parts: readonly MessagePart[]): number {
  return (parts.at(-1)?.round ?? 0) + 1;
}

/** Adds what was said to the turn, and tells of it. */
export function appendText(
  { parts, emit }: Pick<Turn, "parts" | "emit">,
  type: TextPart["type"],
  round: number,
  text: string,
  logprobs?: unknown,
): void {
  if (text === "") return;
  const last = parts.at(-1);
  if (last?.type === type && last.round === round) last.text += text;
  else parts.push({ type, round, text });
  emit({ type, text, ...(logprobs === undefined ? {} : { logprobs }) });
}

export function tellState({ emit }: Pick<Turn, "emit">, { callId, name, state }: ToolPart): void {
  emit({ type: "state", callId, name, state });
}
