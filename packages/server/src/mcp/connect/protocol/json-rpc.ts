import {
  InsufficientScopeError,
  SdkError,
  SdkErrorCode,
  SERVER_INFO_META_KEY,
  SseError,
} from "@modelcontextprotocol/client";
import type { ProgressUpdate } from "@toolrack/core";
import { isRecord } from "../../../helpers/index.ts";
import { describeStatus, lostConnection, sentence, UpstreamError } from "./failures.ts";

/** A message as it came, or a part of one. */
export type Message = Readonly<Record<string, unknown>>;

/** The server wants something from the caller before it goes on. */
export function isInputRequired(result: unknown): result is Message {
  return isRecord(result) && result.resultType === "input_required";
}

/** The server answers later, and says under which id. */
export function isTask(result: unknown): result is Message {
  return isRecord(result) && result.resultType === "task";
}

/** What the stateless protocol adds to every result is about the transport and not about the result. */
export function plainResult(result: unknown): unknown {
  if (!isRecord(result)) return result;
  const { resultType: _, _meta, ...rest } = result;
  if (!isRecord(_meta)) return rest;
  const { [SERVER_INFO_META_KEY]: _server, ...meta } = _meta;
  return Object.keys(meta).length === 0 ? rest : { ...rest, _meta: meta };
}

export function toProgress({ progress, total, message }: Message): ProgressUpdate {
  return {
    progress: typeof progress === "number" ? progress : 0,
    ...(typeof total === "number" ? { total } : {}),
    ...(typeof message === "string" ? { message } : {}),
  };
}

/** The error of an answer. */
export function refusal(error: unknown): UpstreamError {
  const { code, message, data } = isRecord(error) ? error : {};
  const said = typeof message === "string" ? message : "The server refused and gave no reason.";
  return new UpstreamError("refused", said, {
    ...(typeof code === "number" ? { code } : {}),
    ...(data === undefined ? {} : { data }),
  });
}

/** What connecting or sending threw: mostly the HTTP status of an answer, or its error. */
export function toUpstreamError(thrown: unknown): UpstreamError {
  const own = ownErrorIn(thrown);
  if (own !== undefined) return own;
  const lost = lostConnection(thrown);
  if (lost !== undefined) return lost;
  const error = unwrapped(thrown);
  const message = error instanceof Error ? error.message : String(error);
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
    const said =
      typeof text === "string" && status >= 400 ? describeStatus(status, text) : plainWords(message);
    return new UpstreamError(status === 401 ? "unauthorized" : "refused", said, { status, cause: error });
  }
  if (code === SdkErrorCode.RequestTimeout)
    return new UpstreamError("timeout", "It did not answer in time.", { cause: error });
  const odd = oddAnswer(error);
  if (odd !== undefined) return new UpstreamError("broken", odd, { cause: error });
  return new UpstreamError("unavailable", plainWords(message), { cause: error });
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
  if (code < 300)
    return new UpstreamError("broken", "It answered with something that is no stream of events.", {
      cause: error,
    });
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

/** What was thrown on the way to the server is wrapped by the SDK while it finds out what the server speaks. */
function ownErrorIn(error: unknown): UpstreamError | undefined {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof UpstreamError) return at;
  return undefined;
}

/** What is said when an answer came that the SDK could not read: a page of a proxy, half a text, another form. */
function oddAnswer(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { message } = error;
  // Its text is a list of everything that the answer is not.
  if (error.name === "ZodError" || error.name === "$ZodError")
    return "It answered with JSON that is no message of MCP.";
  if (message === "terminated") return "The connection was closed in the middle of the answer.";
  const { code, data } = error as { readonly code?: unknown; readonly data?: unknown };
  if (code === SdkErrorCode.InvalidResult) {
    const [, method = "the handshake"] = /^Invalid result for ([\w/]{1,100}):/.exec(message) ?? [];
    return `Its answer to ${method} does not have the form that MCP gives it.`;
  }
  if (code === SdkErrorCode.ClientHttpUnexpectedContent) {
    const type = isRecord(data) ? data.contentType : undefined;
    const said =
      typeof type === "string" ? `its type is ${type}` : "it has no content, or one without a type";
    return `It answered with something that is no message of MCP: ${said}.`;
  }
  if (!(error instanceof SyntaxError)) return undefined;
  return sentence(`It answered with something that is no message of MCP: ${message}`);
}
