import { sentence } from "./protocol/sentence.ts";
import { UpstreamError } from "./protocol/upstream-error.ts";
import type { UpstreamState } from "./upstream-status.ts";

/** The entry itself is wrong: trying again changes nothing. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
}

/**
 * Where a failure leaves a server. Only `backoff` is left without anybody's doing. `remedy` is what helps where
 * credentials are asked for.
 */
export function stateAfter(
  thrown: unknown,
  remedy: string,
): { readonly state: UpstreamState; readonly reason: string } {
  const message = sentence(thrown instanceof Error ? thrown.message : String(thrown));
  if (asksForCredentials(thrown)) {
    return { state: "needs-auth", reason: `It asks for credentials: ${message} ${remedy}` };
  }
  const isFinal = thrown instanceof ConfigurationError || isMissingProgram(thrown);
  return { state: isFinal ? "failed" : "backoff", reason: message };
}

/** What helps where a server asks for credentials. */
export function remedyFor(key: string, canSignIn: boolean): string {
  if (canSignIn) {
    return `Sign in: toolrack mcp-servers login ${key}, or on its page in the console. For a server that takes a fixed token, give its entry a header "Authorization": "Bearer …" with the token kept as a secret.`;
  }
  return 'Give its entry a header such as "Authorization": "Bearer …" with its token kept as a secret, then restart it.';
}

/** Whether a server does not let us in as who we are. Over SSE the status comes as the code of an error. */
export function asksForCredentials(thrown: unknown): boolean {
  if (!(thrown instanceof UpstreamError)) return false;
  return thrown.kind === "unauthorized" || thrown.scope !== undefined || thrown.code === 401;
}

function isMissingProgram(thrown: unknown): boolean {
  for (let at: unknown = thrown; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "EACCES") return true;
  }
  return false;
}
