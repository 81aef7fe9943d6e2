/** What a provider counts of one request. */
export interface ModelUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

export interface ToolCallDelta {
  readonly index?: unknown;
  readonly id?: unknown;
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown };
}

/** What a chunk may say. Providers leave out, repeat and add; only what is named here is looked at, and carefully. */
export interface CompletionDelta {
  readonly content?: unknown;
  readonly reasoning_content?: unknown;
  readonly reasoning?: unknown;
  readonly refusal?: unknown;
  readonly tool_calls?: unknown;
  readonly function_call?: unknown;
}

export interface CompletionChunk {
  readonly choices?: readonly {
    readonly index?: number;
    readonly delta?: CompletionDelta | null;
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: Partial<ModelUsage> | null;
  readonly error?: unknown;
}

/** A whole completion as the one chunk that a stream of it could have been: some servers never stream. */
export function toChunk(completion: unknown): CompletionChunk {
  const { choices, ...rest } = Object(completion) as Record<string, unknown>;
  const list = Array.isArray(choices) ? choices : [];
  return {
    ...rest,
    choices: list.map((choice: Record<string, unknown>) => ({
      index: Number(choice.index ?? 0),
      delta: Object(choice.message) as CompletionDelta,
      finish_reason: typeof choice.finish_reason === "string" ? choice.finish_reason : "stop",
    })),
  };
}
