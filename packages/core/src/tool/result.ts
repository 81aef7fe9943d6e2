import type { ToolErrorResponse } from "../error/codes.ts";

/** A file or medium that came with a result. */
export interface FilePart {
  readonly type: "file";
  readonly mime: string;
  /** A `data:` URL or an address. */
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

/** A result before the pipeline has looked at it: an error here is one that the tool returned, not threw. */
export interface RawResult extends Omit<ToolResult, "error"> {
  readonly title?: string;
  /** Characters of the structured value as JSON, where its text is something else. */
  readonly structuredSize?: number;
}
