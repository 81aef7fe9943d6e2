import { STATUS_CODES } from "node:http";
import { InsufficientScopeError, SdkError, SdkErrorCode, SseError } from "@modelcontextprotocol/client";
import { isRecord, reasonOf } from "../../../helpers/index.ts";
import { rpcCodes } from "../../wire/index.ts";
import { ConfigurationError, sentence, UpstreamError } from "../failures.ts";

const LONGEST_TEXT = 300;

/** Describes an HTTP status, with the text of the answer if people can read it. */
export function describeStatus(status: number, text: string): string {
  const name = [status, STATUS_CODES[status]].filter(Boolean).join(" ");
  if (/^\s*</.test(text)) return `It answered with ${name} and a page of HTML.`;
  const reason = (messageIn(parsed(text)) ?? text).trim().slice(0, LONGEST_TEXT);
  return reason === "" ? `It answered with ${name}.` : sentence(`It answered with ${name}: ${reason}`);
}

/** The error message in a JSON body of JSON-RPC, OAuth or another common form. */
export function messageIn(body: unknown): string | undefined {
  if (!isRecord(body)) return undefined;
  const inside = isRecord(body.error) ? body.error.message : undefined;
  return [inside, body.error_description, body.message, body.detail, body.error].find(
    (text): text is string => typeof text === "string" && text !== "",
  );
}

/** Undefined when the text is not JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Error codes of a connection that broke after it was made. */
const brokenCodes: ReadonlySet<unknown> = new Set([
  "ECONNRESET",
  "EPIPE",
  "UND_ERR_SOCKET",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
]);

/**
 * Explains an error of `fetch`; undefined for other errors. A connection that broke concerns one request (`broken`). One
 * that could not be made means that the server is not there (`unavailable`).
 */
export function lostConnection(error: unknown): UpstreamError | undefined {
  const cause = causeOfFetch(error);
  if (cause === undefined) return undefined;
  const code = "code" in cause && cause.code !== undefined ? String(cause.code) : cause.name;
  // When several addresses were tried, each has its own error. The first one is shown.
  const first: unknown = cause instanceof AggregateError ? cause.errors[0] : undefined;
  const reason = cause.message || (first instanceof Error ? first.message : "");
  if (brokenCodes.has(code)) {
    const why = reason === "" || reason === code ? code : `${reason}, ${code}`;
    const message = `The connection was closed before the answer came (${why}). What it had already done may stand: check before calling it again.`;
    return new UpstreamError("broken", message, { cause: error });
  }
  const message = sentence(`It cannot be reached: ${reason || code}`);
  return new UpstreamError("unavailable", message, { cause: error });
}

/** The cause of a failed `fetch`, which names the reason. Errors of the SDK may be wrapped around it. */
function causeOfFetch(error: unknown): Error | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause)
    if (at instanceof TypeError && at.message === "fetch failed" && at.cause instanceof Error)
      return at.cause;
  return undefined;
}

/** Turns the error of a JSON-RPC answer into an `UpstreamError`. */
export function refusal(error: unknown): UpstreamError {
  const { code, message, data } = isRecord(error) ? error : {};
  const text = typeof message === "string" ? message : "The server refused and gave no reason.";
  return new UpstreamError("refused", text, { ...(typeof code === "number" ? { code } : {}), data });
}

/** Turns anything that connecting or sending threw into an `UpstreamError`. */
export function toUpstreamError(thrown: unknown): UpstreamError {
  const known = ownErrorIn(thrown) ?? lostConnection(thrown);
  if (known !== undefined) return known;
  const error = unwrapped(thrown);
  const message = reasonOf(error);
  if (error instanceof InsufficientScopeError) {
    const { requiredScope: scope = "" } = error;
    return new UpstreamError("unauthorized", sentence(message), { status: 403, scope, cause: error });
  }
  if (error instanceof SseError && !message.includes(REDIRECT)) return sseFailure(error);
  const { status, code, data } = isRecord(error) ? error : {};
  // A protocol error of the SDK has a number as its code.
  if (typeof code === "number") return new UpstreamError("refused", message, { code, cause: error });
  if (typeof status === "number") {
    const text = isRecord(data) ? data.text : undefined;
    // For a redirect that is not followed, the SDK's message says more than the answer.
    const hasText = typeof text === "string" && status >= 400;
    const reason = hasText ? describeStatus(status, text) : plainMessage(message);
    return new UpstreamError(status === 401 ? "unauthorized" : "refused", reason, { status, cause: error });
  }
  if (code === SdkErrorCode.RequestTimeout)
    return new UpstreamError("timeout", "It did not answer in time.", { cause: error });
  const problem = oddAnswer(error);
  if (problem !== undefined) return new UpstreamError("broken", problem, { cause: error });
  return new UpstreamError("unavailable", plainMessage(message), { cause: error });
}

/** Our own error, which the SDK may have wrapped during version negotiation. */
function ownErrorIn(error: unknown): UpstreamError | undefined {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof UpstreamError) return at;
  return undefined;
}

/** During version negotiation the SDK wraps the error that names the reason. */
function unwrapped(thrown: unknown): unknown {
  let error = thrown;
  while (error instanceof SdkError && error.code === SdkErrorCode.EraNegotiationFailed && error.cause)
    error = error.cause;
  return error;
}

/** An `SseError` has the HTTP status as its code; for a network error it has only a message. */
function sseFailure(error: SseError): UpstreamError {
  const { code, message } = error;
  if (code === undefined) {
    const why = message.replace(/^SSE error: (?:TypeError: )?(?:fetch failed: )?/, "");
    return new UpstreamError("unavailable", sentence(`It cannot be reached: ${why}`), { cause: error });
  }
  if (code < 300) {
    const text = "It answered with something that is no stream of events.";
    return new UpstreamError("broken", text, { cause: error });
  }
  const kind = code === 401 ? "unauthorized" : "refused";
  return new UpstreamError(kind, describeStatus(code, ""), { status: code, cause: error });
}

/** In the SDK's message about a redirect: names a setting of the SDK that users of the rack cannot change. */
const REDIRECT = "(redirectPolicy:";

/** Rewrites messages of the SDK that are meant for programmers. */
function plainMessage(message: string): string {
  const [, elsewhere] = /^Endpoint origin does not match connection origin: (\S{1,300})/.exec(message) ?? [];
  if (elsewhere !== undefined) {
    return `It wants its messages sent to ${elsewhere}, which is another place than its url, and where the rack sends nothing. If that is the server that is meant, make its address there the url of its entry.`;
  }
  if (!message.includes(REDIRECT)) return message;
  const [target] = /https?:\/\/[^\s;]+/.exec(message) ?? [];
  const advice =
    target === undefined ? "" : ` If ${target} is the server that is meant, make that the url of its entry.`;
  return `It redirects to another place, where the rack does not follow.${advice}`;
}

/** Describes an answer that the SDK could not read, such as the page of a proxy or half a message. */
function oddAnswer(error: unknown): string | undefined {
  const { code, data } = isRecord(error) ? error : {};
  if (!(error instanceof Error)) return undefined;
  const { message } = error;
  // Zod's own message is a long list of everything that does not match.
  if (error.name === "ZodError" || error.name === "$ZodError")
    return "It answered with JSON that is no message of MCP.";
  if (message === "terminated") return "The connection was closed in the middle of the answer.";
  if (error instanceof SyntaxError)
    return sentence(`It answered with something that is no message of MCP: ${message}`);
  if (code === SdkErrorCode.InvalidResult) {
    const [, method = "the handshake"] = /^Invalid result for ([\w/]{1,100}):/.exec(message) ?? [];
    return `Its answer to ${method} does not have the form that MCP gives it.`;
  }
  if (code !== SdkErrorCode.ClientHttpUnexpectedContent) return undefined;
  const type = isRecord(data) ? data.contentType : undefined;
  const reason =
    typeof type === "string" ? `its type is ${type}` : "it has no content, or one without a type";
  return `It answered with something that is no message of MCP: ${reason}.`;
}

/** Describes a failed handshake. `ended`: how the server's process ended, if it did. */
export function handshakeFailure(thrown: unknown, ended: string | undefined): Error {
  // Trying again cannot help when the two sides share no version.
  const [, version] = /^Server's protocol version is not supported: (.{1,100})/.exec(reasonOf(thrown)) ?? [];
  if (version !== undefined) {
    return new ConfigurationError(
      `It answered the handshake with version "${version}" of the protocol, which this rack does not speak. Update the rack, or use a release of the server that speaks an older version, then restart it.`,
    );
  }
  if (ended !== undefined) {
    const message = `It ${ended} before the handshake was complete.`;
    return new UpstreamError("unavailable", message, { cause: thrown });
  }
  if (lostConnection(thrown)?.kind === "broken") {
    const message = "The connection was closed before the handshake was complete.";
    return new UpstreamError("broken", message, { cause: thrown });
  }
  const { kind, message, facts } = toUpstreamError(thrown);
  // A 403 to the handshake means wrong credentials. For a single request, 403 may mean something else.
  const isUnwelcome = facts.status === 403;
  return new UpstreamError(isUnwelcome ? "unauthorized" : kind, message, { ...facts, cause: thrown });
}

/**
 * Whether only the question failed which protocol the server speaks. Older servers do not know that question. They answer
 * it with silence, a web page, a wrong status or the end of the connection, and may still work.
 */
export function failedAtProbe(failure: unknown): boolean {
  if (failure instanceof UpstreamError) {
    const { kind, facts } = failure;
    const { status, scope, retryAfter } = facts;
    // The server wants credentials, or asks to wait.
    if (status === 401 || status === 429 || scope !== undefined || retryAfter !== undefined) return false;
    // The server cannot be reached at all. The end of a process has the same kind, but is no lost connection.
    if (kind === "unavailable" && lostConnection(failure) !== undefined) return false;
  }
  for (let at = failure; at instanceof Error; at = at.cause)
    if (at.message.startsWith("Version negotiation")) return true;
  return false;
}

/** Whether the server understood the handshake of the old protocol and refused it as unknown. */
export function speaksNoOldProtocol(failure: unknown): boolean {
  if (!(failure instanceof UpstreamError)) return false;
  return failure.code === rpcCodes.methodNotFound || failure.code === rpcCodes.unsupportedVersion;
}
