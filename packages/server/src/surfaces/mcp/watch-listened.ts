import type { McpParts } from "./mcp-parts.ts";

/** Resources whose changes a message asks to be told of are watched from now on. Answers how to stop. */
export function watchListened({ offerings }: Pick<McpParts, "offerings">, message: unknown): (() => void)[] {
  const { method, params } = message as { method?: unknown; params?: { notifications?: unknown } };
  if (method !== "subscriptions/listen") return [];
  const { resourceSubscriptions = [] } = (params?.notifications ?? {}) as {
    resourceSubscriptions?: unknown[];
  };
  return resourceSubscriptions
    .filter((uri): uri is string => typeof uri === "string")
    .map((uri) => offerings.watchResource(uri));
}
