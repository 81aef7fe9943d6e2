import type { CallFrame } from "./frame.ts";

/**
 * Arguments that came as the JSON of an object become that object before anything looks at them: a call that is refused
 * is then recorded, masked and counted the same, whichever way its arguments were written. Any other text stays what it
 * is, for validation to say what is wrong with it.
 */
export function readArguments(frame: CallFrame): void {
  const { raw, host } = frame;
  if (typeof raw !== "string" || raw.length > host.settings.maxArguments) return;
  try {
    const parsed: unknown = JSON.parse(raw);
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) frame.raw = parsed;
  } catch {
    // Validation says so, if it comes to that.
  }
}
