import { STATUS_CODES } from "node:http";
import { InsufficientScopeError, SdkError, SdkErrorCode, SseError } from "@modelcontextprotocol/client";
import { isRecord, reasonOf } from "../../../helpers/index.ts";
import { rpcCodes } from "../../wire/index.ts";
import { ConfigurationError, sentence, UpstreamError } from "../failures.ts";

const LONGEST_TEXT = 300;

/** What is said of an HTTP status, with what the answer says about it where that is for reading. */
export function describeStatus(status: number, text: string): string {
  const name = [status, STATUS_CODES[status]].filter(Boolean).join(" ");
  if (/^\s*</.test(text)) return `It answered with ${name} and a page of HTML.`;
  const said = (wordsIn(parsed(text)) ?? text).trim().slice(0, LONGEST_TEXT);
  return said === "" ? `It answered with ${name}.` : sentence(`It answered with ${name}: ${said}`);
}

/** The text for people in a body of JSON: of JSON-RPC, of OAuth, or of one of the usual forms. */
export function wordsIn(body: unknown): string | undefined {
  if (!isRecord(body)) return undefined;
  const inside = isRecord(body.error) ? body.error.message : undefined;
  return [inside, body.error_description, body.message, body.detail, body.error].find(
    (text): text is string => typeof text === "string" && text !== "",
  );
}

/** Undefined for what is no JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Codes of what goes wrong on a connection that was there: the server listened when it was made. */
const afterwards: ReadonlySet<unknown> = new Set([
  "ECONNRESET",
  "EPIPE",
  "UND_ERR_SOCKET",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
]);

/**
 * What is meant when fetch says that it failed; undefined for other errors. A connection that breaks is that of one
 * request, while one that cannot be made says that the server is not there.
 */
export function lostConnection(error: unknown): UpstreamError | undefined {
  const cause = causeOfFetch(error);
  if (cause === undefined) return undefined;
  const code = "code" in cause && cause.code !== undefined ? String(cause.code) : cause.name;
  // Of several addresses that were tried, each has a reason of its own.
  const first: unknown = cause instanceof AggregateError ? cause.errors[0] : undefined;
  const said = cause.message || (first instanceof Error ? first.message : "");
  if (afterwards.has(code)) {
    const why = said === "" || said === code ? code : `${said}, ${code}`;
    const message = `The connection was closed before the answer came (${why}). What it had already done may stand: check before calling it again.`;
    return new UpstreamError("broken", message, { cause: error });
  }
  const message = sentence(`It cannot be reached: ${said || code}`);
  return new UpstreamError("unavailable", message, { cause: error });
}

/** What fetch says names no reason; what caused it does. Errors of the SDK may stand around it. */
function causeOfFetch(error: unknown): Error | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause)
    if (at instanceof TypeError && at.message === "fetch failed" && at.cause instanceof Error)
      return at.cause;
  return undefined;
}

/** The error of a JSON-RPC answer. */
export function refusal(error: unknown): UpstreamError {
  const { code, message, data } = isRecord(error) ? error : {};
  const said = typeof message === "string" ? message : "The server refused and gave no reason.";
  return new UpstreamError("refused", said, { ...(typeof code === "number" ? { code } : {}), data });
}

/** What connecting or sending threw: mostly the HTTP status of an answer, or its error. */
export function toUpstreamError(thrown: unknown): UpstreamError {
  const known = ownErrorIn(thrown) ?? lostConnection(thrown);
  if (known !== undefined) return known;
  const error = unwrapped(thrown);
  const message = reasonOf(error);
  if (error instanceof InsufficientScopeError) {
    const { requiredScope: scope = "" } = error;
    return new UpstreamError("unauthorized", sentence(message), { status: 403, scope, cause: error });
  }
  if (error instanceof SseError && !message.includes(REDIRECT)) return withoutStream(error);
  const { status, code, data } = isRecord(error) ? error : {};
  // An error of the protocol, as the SDK throws it.
  if (typeof code === "number") return new UpstreamError("refused", message, { code, cause: error });
  if (typeof status === "number") {
    const text = isRecord(data) ? data.text : undefined;
    // Of a redirect that is not followed, the SDK says more.
    const isSaid = typeof text === "string" && status >= 400;
    const said = isSaid ? describeStatus(status, text) : plainWords(message);
    return new UpstreamError(status === 401 ? "unauthorized" : "refused", said, { status, cause: error });
  }
  if (code === SdkErrorCode.RequestTimeout)
    return new UpstreamError("timeout", "It did not answer in time.", { cause: error });
  const odd = oddAnswer(error);
  if (odd !== undefined) return new UpstreamError("broken", odd, { cause: error });
  return new UpstreamError("unavailable", plainWords(message), { cause: error });
}

/** The error that was thrown here, which the SDK may have wrapped while it found out what the server speaks. */
function ownErrorIn(error: unknown): UpstreamError | undefined {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof UpstreamError) return at;
  return undefined;
}

/** While it finds out what a server speaks, the SDK puts an error of its own around the one that says why. */
function unwrapped(thrown: unknown): unknown {
  let error = thrown;
  while (error instanceof SdkError && error.code === SdkErrorCode.EraNegotiationFailed && error.cause)
    error = error.cause;
  return error;
}

/** Over SSE, a status that is no stream of events is told of as the code of an error, and a network error as its text. */
function withoutStream(error: SseError): UpstreamError {
  const { code, message } = error;
  if (code === undefined) {
    const why = message.replace(/^SSE error: (?:TypeError: )?(?:fetch failed: )?/, "");
    return new UpstreamError("unavailable", sentence(`It cannot be reached: ${why}`), { cause: error });
  }
  if (code < 300) {
    const said = "It answered with something that is no stream of events.";
    return new UpstreamError("broken", said, { cause: error });
  }
  const kind = code === 401 ? "unauthorized" : "refused";
  return new UpstreamError(kind, describeStatus(code, ""), { status: code, cause: error });
}

/** In what the SDK says of a redirect: a setting of its own, which nobody here can set. */
const REDIRECT = "(redirectPolicy:";

/** Some of what the SDK says is meant for those who write programs with it. */
function plainWords(message: string): string {
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

/** What is said when an answer came that the SDK could not read: a page of a proxy, half a text, another form. */
function oddAnswer(error: unknown): string | undefined {
  const { code, data } = isRecord(error) ? error : {};
  if (!(error instanceof Error)) return undefined;
  const { message } = error;
  // Its text is a list of everything that the answer is not.
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
  const said = typeof type === "string" ? `its type is ${type}` : "it has no content, or one without a type";
  return `It answered with something that is no message of MCP: ${said}.`;
}

/** What is said of a handshake that came to nothing. `ended` says how the server's process ended, where it did. */
export function handshakeFailure(thrown: unknown, ended: string | undefined): Error {
  // What the two do not have in common they will not have at the next attempt either.
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
  // A server that does not even shake hands wants other credentials; of a single request, 403 may mean something else.
  const isUnwelcome = facts.status === 403;
  return new UpstreamError(isUnwelcome ? "unauthorized" : kind, message, { ...facts, cause: thrown });
}

/**
 * Whether all that is known is that the server could not be asked which protocol it speaks. Servers from before that
 * question treat it in every way but one, with silence, a page, a wrong status or the end of the connection, and are well.
 */
export function failedAtProbe(failure: unknown): boolean {
  if (failure instanceof UpstreamError) {
    const { kind, facts } = failure;
    const { status, scope, retryAfter } = facts;
    // It wants credentials, or to be left alone.
    if (status === 401 || status === 429 || scope !== undefined || retryAfter !== undefined) return false;
    // One that cannot be reached cannot be asked anything else either; the end of a process is told of as that too.
    if (kind === "unavailable" && lostConnection(failure) !== undefined) return false;
  }
  for (let at = failure; at instanceof Error; at = at.cause)
    if (at.message.startsWith("Version negotiation")) return true;
  return false;
}

/** Whether the server understood the handshake of the old protocol, and knows no such method or version. */
export function speaksNoOldProtocol(failure: unknown): boolean {
  if (!(failure instanceof UpstreamError)) return false;
  return failure.code === rpcCodes.methodNotFound || failure.code === rpcCodes.unsupportedVersion;
}
