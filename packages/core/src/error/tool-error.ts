import { redact } from "../call/redact.ts";
import { safeJson } from "../schema/json.ts";
import { isRecord, reasonOf } from "../schema/visit.ts";
import { type ToolErrorCode, type ToolErrorResponse, toolErrorCodes } from "./codes.ts";

const brand = Symbol.for("toolrack.ToolError");

const LONGEST_MESSAGE = 10_000;

export interface ToolErrorOptions {
  readonly toolName?: string;
  readonly input?: unknown;
  readonly cause?: unknown;
  /** Further facts for programs; they appear in `details`. */
  readonly data?: Readonly<Record<string, unknown>>;
  /** Overrides the value that `toolErrorCodes` gives for the code. */
  readonly recoverable?: boolean;
}

/**
 * The error of a call that failed or was refused. Recognise it with `isToolError`, never with `instanceof`.
 */
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
    const isFault = code === "execution_failed" && isFaultOfCode(options.cause);
    this.recoverable = options.recoverable ?? (!isFault && toolErrorCodes[code].recoverable);
    this.toolName = options.toolName ?? "";
    this.input = options.input;
    this.data = options.data ?? {};
    Object.defineProperty(this, brand, { value: true });
  }

  /** The error as plain JSON, safe to log and to send: long arguments are cut and secrets in them masked. */
  toResponse(): ToolErrorResponse {
    const data = safeJson(this.data).value;
    return {
      name: this.name,
      code: this.code,
      message: this.message,
      details: {
        ...(isRecord(data) && data),
        toolName: this.toolName,
        input: clip(this.input),
        ...(this.cause !== undefined && { cause: causeText(this), ...thrownName(this.cause) }),
      },
      recoverable: this.recoverable,
    };
  }
}

/** The names of errors that tell of a fault in code, in JavaScript and in Python. */
const faults = new Set(["TypeError", "ReferenceError", "NameError", "AttributeError"]);

/**
 * Whether a fault in the tool's code was thrown, which no caller gets around. A `TypeError` with a code or a cause tells
 * of something else, such as an address that cannot be reached.
 */
function isFaultOfCode(thrown: unknown): boolean {
  try {
    if (!(thrown instanceof Error) || !faults.has(thrown.name) || thrown.cause !== undefined) return false;
    return !("code" in thrown) || thrown.code === undefined;
  } catch {
    return false; // A getter may throw.
  }
}

/** The kind of error that was thrown, when its name says more than that it is one. */
function thrownName(thrown: unknown): { readonly thrown?: string } {
  try {
    const isTelling = thrown instanceof Error && !isToolError(thrown) && thrown.name !== "Error";
    return isTelling && typeof thrown.name === "string" ? { thrown: thrown.name.slice(0, 100) } : {};
  } catch {
    return {}; // A getter may throw.
  }
}

/** True for a `ToolError` of any copy of this package. */
export function isToolError(value: unknown): value is ToolError {
  try {
    if (typeof value !== "object" || value === null || !(brand in value) || value[brand] !== true)
      return false;
    return "toResponse" in value && typeof value.toResponse === "function";
  } catch {
    return false; // A proxy may throw on any access.
  }
}

/** Makes the class for a code: `new ToolNotFoundError(message, options)`. `toolErrorCodes` says when each is thrown. */
function withCode(code: ToolErrorCode): new (message: string, options?: ToolErrorOptions) => ToolError {
  return class extends ToolError {
    constructor(message: string, options?: ToolErrorOptions) {
      super(code, message, options);
    }
  };
}

/** No tool has this name. */
export class ToolNotFoundError extends withCode("tool_not_found") {}
/** An operator switched the tool off. */
export class ToolDisabledError extends withCode("tool_disabled") {}
/** The arguments do not fit the schema; the tool did not run. */
export class InvalidArgumentError extends withCode("invalid_arguments") {}
/** The caller may not use the tool; the tool did not run. */
export class PermissionDeniedError extends withCode("permission_denied") {}
/** The session repeats itself without progress; the tool did not run. */
export class LoopBlockedError extends withCode("loop_blocked") {}
/** Nobody agreed to the call; the tool did not run. */
export class ApprovalDeniedError extends withCode("approval_denied") {}
/** The tool ran, or was silent, longer than its limit. */
export class ToolTimeoutError extends withCode("timed_out") {}
/** The caller, or the parent call, cancelled the call. */
export class ToolCancelledError extends withCode("cancelled") {}
/** A failure that the author of the tool foresaw; for tools to throw. */
export class BusinessError extends withCode("business_error") {}
/** The tool threw or returned an error. */
export class ToolExecutionError extends withCode("execution_failed") {}
/** Code that was run again took another way than before. */
export class CodeDivergedError extends withCode("code_diverged") {}
/** The process that ran the tool ended before the call did. */
export class OutcomeUnknownError extends withCode("outcome_unknown") {}

/** Shortens a message, because a tool may throw megabytes of text. */
function clipMessage(message: string): string {
  return message.length > LONGEST_MESSAGE
    ? `${message.slice(0, LONGEST_MESSAGE)}… (${message.length} characters)`
    : message;
}

const DEEPEST_CAUSE = 8;

/**
 * The causes of an error, from the nearest to the first. What the tool threw is left out if it has a cause of its
 * own, because the error already says its message.
 */
function causeText(error: ToolError): string {
  const texts: string[] = [];
  try {
    let cause = error.cause;
    for (let depth = 0; cause !== undefined && depth < DEEPEST_CAUSE; depth++) {
      const text = reasonOf(cause);
      // The error of a call repeats the message of what its tool threw.
      if (text !== texts.at(-1)) texts.push(text);
      cause = isRecord(cause) || cause instanceof Error ? cause.cause : undefined;
    }
  } catch {
    texts.push("something that cannot be printed");
  }
  const [first, ...others] = texts;
  return clipMessage((first === error.message && others.length > 0 ? others : texts).join("; caused by "));
}

/**
 * Converts anything thrown to a `ToolError`; the only place that does. Keeps the stack and the cause. A
 * `ToolError` that the tool itself threw is kept; the `ToolError` of a child call becomes the cause of this
 * call's failure, so that the record shows which of the two calls failed. Never throws.
 */
export function toToolError(thrown: unknown, toolName: string, input: unknown): ToolError {
  if (isToolError(thrown)) {
    if (thrown.toolName === toolName) return thrown;
    // Authors throw `new BusinessError("…")` without naming the tool.
    return thrown.toolName === "" ? copyFor(thrown, toolName, input) : childFailure(thrown, toolName, input);
  }
  return withStackOf(thrown, new ToolExecutionError(messageOf(thrown), { toolName, input, cause: thrown }));
}

/** Makes the error of a call again from its plain form. */
export function revivedError(error: ToolErrorResponse): ToolError {
  const { code, message, recoverable, details } = error;
  const { toolName, input, cause, thrown: _, ...data } = details ?? { toolName: "", input: {} };
  const known = code in toolErrorCodes ? code : "execution_failed";
  return new ToolError(known, message, { toolName, input, cause, data, recoverable });
}

/** Copies the error for another call, because the object may be shared, frozen, or thrown again. */
export function copyFor(error: ToolError, toolName: string, input: unknown): ToolError {
  const { code, message, data, recoverable, cause } = error;
  return withStackOf(error, new ToolError(code, message, { toolName, input, data, recoverable, cause }));
}

/** The error of a call that did not handle a child's failure. `names`: of the child and of this call, for people. */
export function childFailure(
  child: ToolError,
  toolName: string,
  input: unknown,
  [called, caller]: readonly [string, string] = [child.toolName, toolName],
): ToolError {
  return new ToolExecutionError(`Tool "${called}", called by "${caller}", failed: ${child.message}`, {
    toolName,
    input,
    cause: child,
    data: { causeCode: child.code },
  });
}

function messageOf(thrown: unknown): string {
  try {
    if (typeof thrown === "string") return thrown === "" ? "The tool threw an empty string." : thrown;
    if (typeof thrown === "object" && thrown !== null) {
      const message = "message" in thrown ? thrown.message : undefined;
      if (typeof message === "string" && message !== "") return message;
      const text = JSON.stringify(thrown);
      return `The tool threw ${text === undefined || text === "{}" ? String(thrown) : text.slice(0, 500)}`;
    }
    return `The tool threw ${String(thrown)}.`;
  } catch {
    return "The tool threw something that cannot be printed.";
  }
}

/** Gives the error the stack of what was thrown or returned, which points at the author's code. */
export function withStackOf<Failure extends ToolError>(thrown: unknown, error: Failure): Failure {
  try {
    const stack =
      typeof thrown === "object" && thrown !== null && "stack" in thrown ? thrown.stack : undefined;
    if (typeof stack === "string") error.stack = stack;
  } catch {
    // A getter or a proxy may throw; then the error keeps its own stack.
  }
  return error;
}

const LONGEST_TEXT = 300;
const MOST_KEYS = 50;

/**
 * Returns the arguments for an error's details: secrets masked, long texts cut, at most `MOST_KEYS` members
 * on each level.
 */
export function clip(input: unknown): Record<string, unknown> {
  const plain = redact(input);
  if (typeof plain !== "object" || plain === null || Array.isArray(plain)) {
    return plain === undefined ? {} : { value: shorten(plain, 0) };
  }
  return shorten(plain, 0) as Record<string, unknown>; // An object stays an object.
}

function shorten(value: unknown, depth: number): unknown {
  if (typeof value === "string") {
    // Copied through JSON, because a slice would keep the whole text in memory.
    return value.length > LONGEST_TEXT
      ? `${JSON.parse(JSON.stringify(value.slice(0, LONGEST_TEXT)))}… (${value.length} characters)`
      : value;
  }
  if (typeof value !== "object" || value === null) return value;
  if (depth > 4) return "…";
  if (Array.isArray(value)) {
    const head = value.slice(0, MOST_KEYS).map((item) => shorten(item, depth + 1));
    return value.length > MOST_KEYS ? [...head, `… (${value.length} items)`] : head;
  }
  const entries = Object.entries(value);
  const shown = entries.slice(0, MOST_KEYS).map(([key, item]) => [key, shorten(item, depth + 1)] as const);
  if (entries.length > MOST_KEYS) shown.push(["…", `${entries.length} keys`]);
  return Object.fromEntries(shown);
}
