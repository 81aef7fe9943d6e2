import type { Answer, SampleCall } from "./sample-call.ts";

export const surfaceNames = [
  "library",
  "command line",
  "HTTP",
  "OpenAI calls",
  "MCP modern",
  "MCP legacy",
  "MCP stdio",
  "chat",
  "another rack",
] as const;

export type SurfaceName = (typeof surfaceNames)[number];

export interface Reply {
  /** Undefined when the surface returned nothing, as after a cancelled call. */
  readonly answer?: Answer;
  /** The id of the call. Given only by a surface that cannot be told the session of a call. */
  readonly callId?: string;
}

export interface Surface {
  readonly name: SurfaceName;
  /** The caller that the records name. */
  readonly caller: string;
  /** The fields of an answer that the surface has no place for, and why. */
  readonly lacks: Partial<Record<keyof Answer, string>>;
  make(call: SampleCall, session: string): Promise<Reply>;
}

/** Turns a tool's result into an answer, for surfaces that return results unchanged. */
export function answerOfResult(result: {
  readonly content: string;
  readonly type: string;
  readonly structured?: unknown;
  readonly error?: { readonly code: NonNullable<Answer["code"]> };
  readonly attachments?: readonly { readonly mime: string; readonly url: string }[];
}): Answer {
  const { content, type, structured, error, attachments = [] } = result;
  const images = attachments.filter(({ mime }) => mime.startsWith("image/")).map(({ url }) => bytesOf(url));
  return {
    text: content,
    isError: type === "error",
    ...(error === undefined ? {} : { code: error.code }),
    ...(structured === undefined ? {} : { structured }),
    ...(images.length === 0 ? {} : { images }),
  };
}

/** The bytes in a `data:` URL, still in base64. */
export function bytesOf(url: string): string {
  return url.slice(url.indexOf(",") + 1);
}
