import type { LogNotification } from "./types.ts";

const levels = ["debug", "info", "warn", "error"] as const;

/** The params of a `log` notification, whatever the worker put into them. */
export function readLog(params: unknown): LogNotification {
  const { level, text } = (params ?? {}) as Record<string, unknown>;
  return { level: levels.find((name) => name === level) ?? "info", text: String(text) };
}
