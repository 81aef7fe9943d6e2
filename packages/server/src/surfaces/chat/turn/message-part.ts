import type { ToolState } from "@toolrack/core";
import type { Echo } from "./echo.ts";

/**
 * A part of what an assistant said and did in a turn. Parts of one round came in one answer of the model. Plain JSON.
 */
export type MessagePart = TextPart | ToolPart;

export interface TextPart {
  readonly type: "text" | "reasoning" | "refusal";
  readonly round: number;
  text: string;
}

export interface ToolPart {
  readonly type: "tool";
  readonly round: number;
  /** The model's id of the call. */
  readonly id: string;
  /** The rack's, by which its record and its whole result are found. Empty for a tool of the client. */
  callId: string;
  /** As the model wrote it. */
  readonly name: string;
  readonly displayName: string;
  /** As the model wrote them; of a `custom` tool, its input. */
  readonly arguments: string;
  /** What kind of call it is, where it is none of a `function`: `custom`, or what the client calls its tool. */
  readonly kind?: string;
  /** The tool is the client's: it runs it and brings the result. */
  readonly client?: true;
  /** What its provider wants to read again with it; see `Echo`. */
  readonly echo?: Echo;
  /** Set before the call is made, so that whoever finds it later knows that it may have run. */
  started?: true | undefined;
  state: ToolState;
}

export function isTool(part: MessagePart): part is ToolPart {
  return part.type === "tool";
}

export function isSettled({ state }: ToolPart): boolean {
  return state.status === "completed" || state.status === "error";
}

/** Text of the parts that a reader is shown as the answer. */
export function textOfParts(parts: readonly MessagePart[], type: TextPart["type"] = "text"): string {
  return parts.map((part) => (part.type === type ? part.text : "")).join("");
}
