import type { ModelUsage, UsageDetails } from "./completion-chunk.ts";

/** The tokens of both. */
export function addUsage(one: ModelUsage, other: ModelUsage): ModelUsage {
  const prompt = addDetails(one.prompt_tokens_details, other.prompt_tokens_details);
  const completion = addDetails(one.completion_tokens_details, other.completion_tokens_details);
  return {
    prompt_tokens: one.prompt_tokens + other.prompt_tokens,
    completion_tokens: one.completion_tokens + other.completion_tokens,
    total_tokens: one.total_tokens + other.total_tokens,
    ...(prompt === undefined ? {} : { prompt_tokens_details: prompt }),
    ...(completion === undefined ? {} : { completion_tokens_details: completion }),
  };
}

function addDetails(
  one: UsageDetails | undefined,
  other: UsageDetails | undefined,
): UsageDetails | undefined {
  if (!one && !other) return undefined;
  const sums: Record<string, number> = {};
  for (const [key, count] of [one, other].flatMap((details) => Object.entries(details ?? {}))) {
    if (typeof count === "number") sums[key] = (sums[key] ?? 0) + count;
  }
  return sums;
}
