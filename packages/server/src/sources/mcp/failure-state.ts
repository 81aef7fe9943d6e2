import { DependencyError } from "../../dependencies/dependency-error.ts";
import { commandFor } from "./command-for.ts";
import { sentence } from "./protocol/sentence.ts";
import { UpstreamError } from "./protocol/upstream-error.ts";
import type { UpstreamState } from "./upstream-status.ts";

/** Of what a server says, in characters. */
const LONGEST_REASON = 600;

/** Only a person can mend it, mostly in the entry: trying again changes nothing. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
}

/**
 * Where a failure leaves a server. Only `backoff` is left without anybody's doing. `remedy` is what helps where
 * credentials are asked for. Servers and programs repeat what they were given, so the reason is masked here, before
 * anybody has it.
 */
export function stateAfter(
  thrown: unknown,
  remedy: string,
  mask: (text: string) => string,
): { readonly state: UpstreamState; readonly reason: string } {
  const masked = mask(thrown instanceof Error ? thrown.message : String(thrown));
  // What a server says of itself may be a page long.
  const message = sentence(thrown instanceof UpstreamError ? inOneLine(masked) : masked);
  if (asksForCredentials(thrown)) {
    return { state: "needs-auth", reason: `It asks for credentials: ${message} ${remedy}` };
  }
  const isFinal =
    thrown instanceof ConfigurationError || isMissingProgram(thrown) || isMissingPackage(thrown);
  return { state: isFinal ? "failed" : "backoff", reason: message };
}

function inOneLine(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > LONGEST_REASON ? `${line.slice(0, LONGEST_REASON)}…` : line;
}

/** What helps where a server asks for credentials. */
export function remedyFor(key: string, canSignIn: boolean): string {
  if (canSignIn) {
    return `Sign in: ${commandFor("login", key)}, or on its page in the console. For a server that takes a fixed token, give its entry a header "Authorization": "Bearer …" with the token kept as a secret.`;
  }
  return `It does not take the credentials of its entry. Put others there, kept as a secret, then restart it: ${commandFor("restart", key)}`;
}

/** Whether a server does not let us in as who we are. */
export function asksForCredentials(thrown: unknown): boolean {
  if (!(thrown instanceof UpstreamError)) return false;
  return thrown.kind === "unauthorized" || thrown.scope !== undefined;
}

/** The registry has no such package or version. What has no name of a package in it was about something else. */
function isMissingPackage(thrown: unknown): boolean {
  return thrown instanceof DependencyError && thrown.packageName !== undefined && !thrown.isTemporary;
}

function isMissingProgram(thrown: unknown): boolean {
  for (let at: unknown = thrown; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "EACCES") return true;
  }
  return false;
}
