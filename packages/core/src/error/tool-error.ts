import { safeJson } from "../tool/safe-json.ts";
import { clip } from "./clip.ts";
import { type ToolErrorCode, toolErrorCodes } from "./codes.ts";
import type { ToolErrorResponse } from "./response.ts";

const brand = Symbol.for("toolrack.ToolError");

const LONGEST_MESSAGE = 10_000;

export interface ToolErrorOptions {
  readonly toolName?: string;
  readonly input?: unknown;
  readonly cause?: unknown;
  /** Further facts for programs; they appear in `details`. */
  readonly data?: Readonly<Record<string, unknown>>;
  /** Overrides what the code says, when this very case is different. */
  readonly recoverable?: boolean;
}

/** Everything that can go wrong with a call. Recognise it with `isToolError`, never with `instanceof`. */
export class ToolError extends Error {
  readonly code: ToolErrorCode;
  readonly recoverable: boolean;
  readonly toolName: string;
  readonly input: unknown;
  readonly data: Readonly<Record<string, unknown>>;

  constructor(code: ToolErrorCode, message: string, options: ToolErrorOptions = {}) {
    super(clipMessage(message), options.cause === undefined ? undefined : { cause: options.cause });
    this.name = toolErrorCodes[code].name;
    this.code = code;
    this.recoverable = options.recoverable ?? toolErrorCodes[code].recoverable;
    this.toolName = options.toolName ?? "";
    this.input = options.input;
    this.data = options.data ?? {};
    Object.defineProperty(this, brand, { value: true });
  }

  /** The error as plain JSON, safe to log and to send: long and secret arguments are left out. */
  toResponse(): ToolErrorResponse {
    const cause = causeText(this.cause);
    return {
      name: this.name,
      code: this.code,
      message: this.message,
      details: {
        ...(safeJson(this.data).value as Record<string, unknown>),
        toolName: this.toolName,
        input: clip(this.input),
        ...(cause === undefined ? {} : { cause }),
      },
      recoverable: this.recoverable,
    };
  }
}

/** True for a `ToolError` of any copy of this package. */
export function isToolError(value: unknown): value is ToolError {
  try {
    if (typeof value !== "object" || value === null) return false;
    const candidate = value as { [brand]?: unknown; toResponse?: unknown };
    return candidate[brand] === true && typeof candidate.toResponse === "function";
  } catch {
    return false; // A proxy may throw on any access; then it is certainly not ours.
  }
}

export class ToolNotFoundError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("tool_not_found", message, options);
  }
}

export class ToolDisabledError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("tool_disabled", message, options);
  }
}

export class InvalidArgumentError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("invalid_arguments", message, options);
  }
}

export class PermissionDeniedError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("permission_denied", message, options);
  }
}

export class LoopBlockedError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("loop_blocked", message, options);
  }
}

export class ApprovalDeniedError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("approval_denied", message, options);
  }
}

export class ToolTimeoutError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("timed_out", message, options);
  }
}

export class ToolCancelledError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("cancelled", message, options);
  }
}

export class BusinessError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("business_error", message, options);
  }
}

export class ToolExecutionError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("execution_failed", message, options);
  }
}

export class OutcomeUnknownError extends ToolError {
  constructor(message: string, options?: ToolErrorOptions) {
    super("outcome_unknown", message, options);
  }
}

/** A tool may throw megabytes; whoever reads the message needs the beginning. */
function clipMessage(message: string): string {
  return message.length > LONGEST_MESSAGE
    ? `${message.slice(0, LONGEST_MESSAGE)}… (${message.length} characters)`
    : message;
}

function causeText(cause: unknown): string | undefined {
  if (cause === undefined) return undefined;
  try {
    return clipMessage(cause instanceof Error ? cause.message : String(cause));
  } catch {
    return "something that cannot be printed";
  }
}
