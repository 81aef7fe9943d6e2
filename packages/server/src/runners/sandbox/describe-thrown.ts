import type { ThrownData } from "./messages.ts";

/** What the host threw, for the worker that asked. No stack: it is none of the worker's business. */
export function describeThrown(error: unknown): ThrownData {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  // Many errors have a code and data, and no type says so.
  const { name, message, code, data } = error as Error & { code?: unknown; data?: unknown };
  return {
    name,
    message,
    ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
    ...(data === undefined ? {} : { data }),
  };
}
