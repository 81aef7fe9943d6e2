import { SdkErrorCode, SERVER_INFO_META_KEY } from "@modelcontextprotocol/client";
import type { ProgressUpdate } from "@toolrack/core";
import { isRecord } from "../../../json/is-record.ts";
import { UpstreamError } from "./upstream-error.ts";

/** A message as it came, or a part of one. */
export type Message = Readonly<Record<string, unknown>>;

/** The server wants something from the caller before it goes on. */
export function isInputRequired(result: unknown): result is Message {
  return isRecord(result) && result.resultType === "input_required";
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
  if (error instanceof UpstreamError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const { status, code } = isRecord(error) ? error : {};
  // An error of the protocol, as the SDK throws it.
  if (typeof code === "number") return new UpstreamError("refused", message, { code, cause: error });
  if (status === 401) return new UpstreamError("unauthorized", message, { cause: error });
  // Servers that forgot a session should answer 404; several answer 400.
  if (status === 404 || (status === 400 && /session/i.test(message))) {
    return new UpstreamError("session", message, { cause: error });
  }
  if (typeof status === "number") return new UpstreamError("refused", message, { cause: error });
  if (isOddAnswer(error)) {
    return new UpstreamError("broken", `It answered with something that is no message of MCP: ${message}`, {
      cause: error,
    });
  }
  return new UpstreamError("unavailable", message, { cause: error });
}

/** An answer came, but not one that the SDK could read: a page of a proxy, half a text, another form of message. */
function isOddAnswer(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const isUnread = (error as { code?: unknown }).code === SdkErrorCode.ClientHttpUnexpectedContent;
  return (
    isUnread || error instanceof SyntaxError || error.name === "ZodError" || error.message === "terminated"
  );
}
