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

/** A call with arguments that are JSON, or one of a `custom` tool with an input that is any text. */
export type ModelToolCall = ModelFunctionCall | ModelCustomCall;

export interface ModelFunctionCall {
  readonly id: string;
  /** `function`, or what the client calls its tool where the provider knows more kinds of functions. */
  readonly type: string;
  readonly function: { readonly name: string; readonly arguments: string };
  readonly custom?: undefined;
  /** What else the provider said of it. */
  readonly [key: string]: unknown;
}

export interface ModelCustomCall {
  readonly id: string;
  readonly type: "custom";
  readonly custom: { readonly name: string; readonly input: string };
  readonly function?: undefined;
  readonly [key: string]: unknown;
}

/** A member of `tools`, ours or the client's. */
export interface ModelTool {
  readonly type: string;
  readonly function?: { readonly name?: unknown; readonly [key: string]: unknown };
  readonly custom?: { readonly name?: unknown; readonly [key: string]: unknown };
  readonly [key: string]: unknown;
}

/** By which the model calls a tool; undefined for one that has none, such as those that the provider runs itself. */
export function nameOf({ type, function: described, custom }: ModelTool): string | undefined {
  const name = type === "custom" ? custom?.name : described?.name;
  return typeof name === "string" && name !== "" ? name : undefined;
}

/** What a call asks for: of a `custom` tool, `written` is its input. */
export function calledIn(call: ModelToolCall): { readonly name: string; readonly written: string } {
  if (call.custom !== undefined) return { name: call.custom.name, written: call.custom.input };
  return { name: call.function.name, written: call.function.arguments };
}

/** The text of a message, without what is not text. */
export function textOf({ content }: Pick<ModelMessage, "content">): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text }) => (typeof text === "string" ? text : "")).join("");
}
