import { UpstreamError } from "./protocol/upstream-error.ts";
import type { UpstreamState } from "./upstream-status.ts";

/** The entry itself is wrong: trying again changes nothing. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
}

/** Where a failure leaves a server. Only `backoff` is left without anybody's doing. */
export function stateAfter(thrown: unknown): { readonly state: UpstreamState; readonly reason: string } {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  if (thrown instanceof UpstreamError && thrown.kind === "unauthorized") {
    const remedy =
      'Give its entry a header such as "Authorization": "Bearer …" with its token kept as a secret, then restart it.';
    return { state: "needs-auth", reason: `It asks for credentials: ${message} ${remedy}` };
  }
  const isFinal = thrown instanceof ConfigurationError || isMissingProgram(thrown);
  return { state: isFinal ? "failed" : "backoff", reason: message };
}

function isMissingProgram(thrown: unknown): boolean {
  for (let at: unknown = thrown; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "EACCES") return true;
  }
  return false;
}
