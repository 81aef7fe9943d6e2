/** A message as Chat Completions has it. What else it holds is passed on as it is. */
export interface ModelMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  readonly content?: string | readonly ModelContentPart[] | null;
  readonly tool_calls?: readonly ModelToolCall[];
  readonly tool_call_id?: string;
  readonly name?: string;
  readonly [key: string]: unknown;
}

export interface ModelContentPart {
  readonly type: string;
  readonly text?: string;
  readonly [key: string]: unknown;
}

export interface ModelToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
  /** What else the provider said of it. */
  readonly [key: string]: unknown;
}

/** A member of `tools`, ours or the client's. */
export interface ModelTool {
  readonly type: string;
  readonly function?: { readonly name?: unknown; readonly [key: string]: unknown };
  readonly [key: string]: unknown;
}

/** The text of a message, without what is not text. */
export function textOf({ content }: Pick<ModelMessage, "content">): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text }) => (typeof text === "string" ? text : "")).join("");
}
