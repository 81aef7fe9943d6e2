import type { Transport } from "@modelcontextprotocol/client";
import { ConfigurationError } from "../failure-state.ts";
import { StdioTransport } from "../process/stdio-transport.ts";
import { toUpstreamError } from "./json-rpc.ts";
import { lostConnection } from "./lost-connection.ts";
import { UpstreamError } from "./upstream-error.ts";

/** Of JSON-RPC and MCP: the method, or the version of the protocol, is none that the server knows. */
const unknownThere: ReadonlySet<unknown> = new Set([-32_601, -32_022]);

/** What is said of a handshake that came to nothing. What was thrown is its cause. */
export function handshakeFailure(thrown: unknown, transport: Transport): Error {
  const version = unknownVersion(thrown);
  if (version !== undefined) return version;
  const ended = transport instanceof StdioTransport && !transport.isHungUp ? transport.ended : undefined;
  if (ended !== undefined) {
    const how = ended.signal === null ? `ended with exit code ${ended.code}` : `was ended by ${ended.signal}`;
    return new UpstreamError("unavailable", `It ${how} before the handshake was complete.`, {
      cause: thrown,
    });
  }
  if (lostConnection(thrown)?.kind === "broken") {
    const message = "The connection was closed before the handshake was complete.";
    return new UpstreamError("broken", message, { cause: thrown });
  }
  const { kind, message, facts } = toUpstreamError(thrown);
  // Whom a server does not even let in needs other credentials; of a single request it may be another matter.
  return new UpstreamError(facts.status === 403 ? "unauthorized" : kind, message, {
    ...facts,
    cause: thrown,
  });
}

/**
 * Whether all that is known is that the server could not be asked which protocol it speaks. Servers from before that
 * question treat it in every way but one, with silence, a page, a wrong status or the end of the connection, and are well.
 */
export function failedAtProbe(failure: unknown): boolean {
  const { kind, facts } = failure instanceof UpstreamError ? failure : {};
  const { status, scope, retryAfter } = facts ?? {};
  // It wants credentials, or to be left alone.
  const isTold = status === 401 || status === 429 || scope !== undefined || retryAfter !== undefined;
  // One that cannot be reached cannot be asked anything else either; the end of a process is told of as that too.
  const isAway = kind === "unavailable" && lostConnection(failure) !== undefined;
  if (isTold || isAway) return false;
  for (let at = failure; at instanceof Error; at = at.cause)
    if (at.message.startsWith("Version negotiation")) return true;
  return false;
}

/** Whether the server understood the handshake of the old protocol, and says that it does not speak it. */
export function speaksNoOldProtocol(failure: unknown): boolean {
  return failure instanceof UpstreamError && unknownThere.has(failure.code);
}

/** What the two do not have in common they will not have at the next attempt either. */
function unknownVersion(thrown: unknown): ConfigurationError | undefined {
  const message = thrown instanceof Error ? thrown.message : "";
  const [, version] = /^Server's protocol version is not supported: (.{1,100})/.exec(message) ?? [];
  if (version === undefined) return undefined;
  return new ConfigurationError(
    `It answered the handshake with version "${version}" of the protocol, which this rack does not speak. Update the rack, or use a release of the server that speaks an older version, then restart it.`,
  );
}
