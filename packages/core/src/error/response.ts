import type { ToolErrorCode } from "./codes.ts";

/** The one form in which an error leaves the rack. Plain JSON. */
export interface ToolErrorResponse {
  readonly name: string;
  readonly code: ToolErrorCode;
  /** What happened, where, and what to do next. */
  readonly message: string;
  readonly details?: {
    readonly toolName: string;
    readonly input: Record<string, unknown>;
    readonly cause?: string;
    readonly [key: string]: unknown;
  };
  /** Whether the same caller can get past it by doing something differently. */
  readonly recoverable: boolean;
}
