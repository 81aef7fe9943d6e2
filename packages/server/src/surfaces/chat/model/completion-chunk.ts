/** What a provider counts of one request. What else it counts is passed on as it is. */
export interface ModelUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  /** How many of them were read from the prompt cache, and the like. */
  readonly prompt_tokens_details?: UsageDetails;
  readonly completion_tokens_details?: UsageDetails;
}

export type UsageDetails = Readonly<Record<string, unknown>> | null;

export interface ToolCallDelta {
  readonly index?: unknown;
  readonly id?: unknown;
  readonly type?: unknown;
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown };
  /** Of a tool whose input is any text. */
  readonly custom?: { readonly name?: unknown; readonly input?: unknown };
  /** Such as `extra_content`, in which Gemini signs its thoughts. */
  readonly [key: string]: unknown;
}

/** What a chunk may say. Providers leave out, repeat and add; only what is named here is looked at, and carefully. */
export interface CompletionDelta {
  readonly content?: unknown;
  readonly reasoning_content?: unknown;
  readonly reasoning?: unknown;
  readonly reasoning_details?: unknown;
  readonly refusal?: unknown;
  readonly annotations?: unknown;
  readonly tool_calls?: unknown;
  readonly function_call?: unknown;
}

export interface CompletionChoice {
  readonly index?: number;
  readonly delta?: CompletionDelta | null;
  readonly finish_reason?: string | null;
  readonly logprobs?: unknown;
}

export interface CompletionChunk {
  readonly choices?: readonly CompletionChoice[];
  readonly usage?: Partial<ModelUsage> | null;
  readonly error?: unknown;
  readonly system_fingerprint?: unknown;
  readonly service_tier?: unknown;
}

/** What came as an event of a stream. A choice that is no object says nothing. */
export function toChunk(value: unknown): CompletionChunk {
  const { choices, ...rest } = Object(value) as Record<string, unknown>;
  return { ...rest, choices: objectsIn(choices) };
}

/** A whole completion as the one chunk that a stream of it could have been: some servers never stream. */
export function toOnlyChunk(completion: unknown): CompletionChunk {
  const { choices, ...rest } = toChunk(completion);
  return {
    ...rest,
    // They are looked at once more where they are read.
    choices: (choices as readonly Record<string, unknown>[]).map((choice) => ({
      index: Number(choice.index ?? 0),
      delta: Object(choice.message) as CompletionDelta,
      finish_reason: typeof choice.finish_reason === "string" ? choice.finish_reason : "stop",
      ...(choice.logprobs ? { logprobs: choice.logprobs } : {}),
    })),
  };
}

/** The members of a list that are objects; none of what is no list. */
export function objectsIn(value: unknown): Record<string, unknown>[] {
  if (!Array.isArray(value)) return [];
  return value.filter((item) => typeof item === "object" && item !== null && !Array.isArray(item));
}
