import { InsufficientScopeError, SdkErrorCode, SERVER_INFO_META_KEY } from "@modelcontextprotocol/client";
import type { ProgressUpdate } from "@toolrack/core";
import { isRecord } from "../../../json/is-record.ts";
import { describeStatus } from "./http-refusal.ts";
import { lostConnection } from "./lost-connection.ts";
import { sentence } from "./sentence.ts";
import { UpstreamError } from "./upstream-error.ts";

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
export function toUpstreamError(error: unknown): UpstreamError {
  const own = ownErrorIn(error);
  if (own !== undefined) return own;
  const lost = lostConnection(error);
  if (lost !== undefined) return lost;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof InsufficientScopeError) {
    const { requiredScope: scope = "" } = error;
    return new UpstreamError("unauthorized", sentence(message), { status: 403, scope, cause: error });
  }
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
  const odd = oddAnswer(error);
  if (odd !== undefined) return new UpstreamError("broken", odd, { cause: error });
  return new UpstreamError("unavailable", plainWords(message), { cause: error });
}

/** Of a redirect, the SDK names a setting of its own, which nobody here can set. */
function plainWords(message: string): string {
  if (!message.includes("(redirectPolicy:")) return message;
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
  const isUnread = (error as { code?: unknown }).code === SdkErrorCode.ClientHttpUnexpectedContent;
  if (!isUnread && !(error instanceof SyntaxError)) return undefined;
  return sentence(`It answered with something that is no message of MCP: ${message}`);
}
