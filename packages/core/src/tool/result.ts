import type { ToolErrorResponse } from "../error/codes.ts";

/** A file or medium that came with a result. */
export interface FilePart {
  readonly type: "file";
  readonly mime: string;
  /** A `data:` URL, or the address of the file. */
  readonly url: string;
  readonly filename?: string;
}

/** One block of MCP content, kept as it came. */
export interface ContentBlock {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** What a call gives back, whatever shape the tool returned. */
export interface ToolResult {
  /** The text a model reads. */
  readonly content: string;
  /** `json`: `content` is JSON. A text for people beside a `structured` value is of type `text`. */
  readonly type: "text" | "json" | "error";
  readonly attachments?: readonly FilePart[];
  /** The machine-readable value, when there is one. */
  readonly structured?: unknown;
  /** The MCP content the tool returned, when text and attachments alone could not rebuild it. */
  readonly blocks?: readonly ContentBlock[];
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Present exactly when `type` is `"error"`. */
  readonly error?: ToolErrorResponse;
}

/**
 * A tool's return value as a result, before the pipeline has checked it. Type `error` means that the tool
 * returned an error; a thrown error never gets this form.
 */
export interface RawResult extends Omit<ToolResult, "error"> {
  readonly title?: string;
  /** `structured` as JSON, when `content` is another text. */
  readonly structuredText?: string;
  /** The `Error` that the tool returned, or that lies in what it returned. */
  readonly cause?: Error;
}
