import type { ThrownData } from "./messages.ts";

/**
 * What the host threw, for the worker that asked. No stack: it is none of the worker's business. Data that is not JSON
 * is left out, so that the rest arrives.
 */
export function describeThrown(error: unknown): ThrownData {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  // Many errors have a code and data, and no type says so.
  const { name, message, code, data } = error as Error & { code?: unknown; data?: unknown };
  return {
    name: String(name),
    message: String(message),
    ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
    ...(isJson(data) ? { data } : {}),
  };
}

function isJson(data: unknown): boolean {
  try {
    return JSON.stringify(data) !== undefined;
  } catch {
    return false;
  }
}
