import { type CompletionDelta, objectsIn, type ToolCallDelta } from "./completion-chunk.ts";

/** What a delta says, whichever of their forms the provider uses. */
export interface DeltaContent {
  readonly text: string;
  readonly reasoning: string;
  /** What the provider calls its reasoning, where it is a field of its own. */
  readonly reasoningField: "reasoning_content" | "reasoning" | undefined;
  /** Pieces of `reasoning_details`. */
  readonly details: readonly Record<string, unknown>[];
  readonly refusal: string;
  readonly pieces: readonly ToolCallDelta[];
}

export function readDelta(delta: CompletionDelta | null | undefined): DeltaContent {
  const { content, reasoning_content, reasoning, reasoning_details, refusal, ...asked } = Object(
    delta,
  ) as CompletionDelta;
  const thought = stringOf(reasoning_content) || stringOf(reasoning);
  return {
    text: partsText(content, "text"),
    reasoning: thought + thinkingIn(content),
    reasoningField:
      thought === "" ? undefined : stringOf(reasoning_content) ? "reasoning_content" : "reasoning",
    details: objectsIn(reasoning_details),
    refusal: stringOf(refusal),
    pieces: piecesOf(asked),
  };
}

export function saysSomething({ text, reasoning, details, refusal, pieces }: DeltaContent): boolean {
  return text !== "" || reasoning !== "" || refusal !== "" || details.length > 0 || pieces.length > 0;
}

export function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Text is a text, or a list of parts of which some are text. */
function partsText(value: unknown, type: string): string {
  if (typeof value === "string") return value;
  return objectsIn(value)
    .map((part) => (part.type === type ? stringOf(part.text) : ""))
    .join("");
}

/** Some models of Mistral think in parts of the content. */
function thinkingIn(content: unknown): string {
  return objectsIn(content)
    .map((part) => (part.type === "thinking" ? partsText(part.thinking, "text") : ""))
    .join("");
}

function piecesOf({ tool_calls, function_call }: CompletionDelta): ToolCallDelta[] {
  if (Array.isArray(tool_calls)) return objectsIn(tool_calls) as ToolCallDelta[]; // Their members are looked at later.
  // The older form, of one call.
  if (typeof function_call !== "object" || function_call === null) return [];
  return [{ index: 0, function: function_call }];
}
