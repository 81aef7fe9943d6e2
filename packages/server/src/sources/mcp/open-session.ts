import { credentialsIn } from "./config/credentials-in.ts";
import { resolveEntry } from "./config/resolve-entry.ts";
import { ConfigurationError } from "./failure-state.ts";
import type { ConnectOptions } from "./protocol/connect-upstream.ts";
import type { UpstreamSession } from "./protocol/upstream-session.ts";
import { fingerprintOf } from "./protocol/verdict.ts";
import type { UpstreamLimits } from "./upstream-limits.ts";
import type { UpstreamParts } from "./upstream-parts.ts";

/** Starts or reaches a server as its entry says now, with the credentials of now. */
export async function openSession(
  parts: UpstreamParts,
  limits: UpstreamLimits,
  { prior, lines, signal }: Pick<ConnectOptions, "prior" | "lines" | "signal">,
): Promise<UpstreamSession> {
  const { key, place, problem, surroundings, clientInfo, packages, signIn } = parts;
  if (problem !== undefined) throw new ConfigurationError(problem);
  const entry = await resolveEntry(parts.entry, `${place}: ${key}`, surroundings).catch((error: Error) => {
    throw new ConfigurationError(error.message);
  });
  // Before anything of the server can be heard.
  parts.hold(credentialsIn(entry, parts.entry));
  const credentials = await signIn?.headers();
  // Imported late: a workspace without upstream servers never loads the client.
  const { connectUpstream } = await import("./protocol/connect-upstream.ts");
  return connectUpstream({
    server: key,
    entry: entry.kind === "address" ? { ...entry, headers: { ...entry.headers, ...credentials } } : entry,
    prior,
    fingerprint: fingerprintOf(parts.entry),
    lines,
    clientInfo,
    packages,
    timeout: limits.connect,
    patience: limits.question,
    signal,
  });
}
