import type { StoredCall } from "../../../store/store.ts";
import { HttpError } from "../http-error.ts";

/** What the core's `redact` leaves in the place of what it took out. */
const taken = /\[redacted\]|^\[(circular|too deep|unreadable|function|symbol|\d+ bytes)\]$/;

/** What the store keeps in the place of arguments that were too large. */
const TOO_LARGE = "[too large]";

/**
 * The arguments of a recorded call, to make it again. Refused where the record is not what was sent: a tool must
 * not run with a mask in the place of a secret.
 */
export function repeatArguments(call: StoredCall): unknown {
  const place = maskedPlace(call.parameters, "");
  if (place !== undefined) {
    throw new HttpError(
      "arguments_redacted",
      `The recorded arguments are not those that were sent: ${place} was left out or masked. Send the arguments with the replay.`,
      { details: { callId: call.callId, path: place } },
    );
  }
  const { raw, ...others } = call.parameters;
  const neverParsed = call.error?.code === "invalid_arguments" && Object.keys(others).length === 0;
  // Text that never became arguments is recorded as `raw`; given as an object it would be dropped, not refused.
  return neverParsed && typeof raw === "string" ? raw : call.parameters;
}

function maskedPlace(value: unknown, path: string): string | undefined {
  if (typeof value === "string") return taken.test(value) ? path : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    if (key === TOO_LARGE) return path === "" ? "all of it" : path;
    const found = maskedPlace(item, path === "" ? key : `${path}.${key}`);
    if (found !== undefined) return found;
  }
  return undefined;
}
