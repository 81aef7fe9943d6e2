import type { ToolErrorCode } from "@toolrack/core";

/** Exit codes. Scripts rely on them, so their meaning never changes. */
export const exitCodes = {
  ok: 0,
  /** Toolrack could not do what was asked. */
  failure: 1,
  /** The command line itself, or the arguments for a tool, are wrong. */
  usage: 2,
  /** The tool ran, and returned an error. */
  toolError: 3,
  noSuchTool: 4,
  /** A person, a policy or a missing permission kept the tool from running. */
  denied: 5,
  timedOut: 6,
  /** The user pressed Ctrl-C. */
  interrupted: 130,
} as const;

const byErrorCode: Record<ToolErrorCode, number> = {
  tool_not_found: exitCodes.noSuchTool,
  tool_disabled: exitCodes.denied,
  invalid_arguments: exitCodes.usage,
  permission_denied: exitCodes.denied,
  loop_blocked: exitCodes.denied,
  approval_denied: exitCodes.denied,
  timed_out: exitCodes.timedOut,
  cancelled: exitCodes.toolError,
  business_error: exitCodes.toolError,
  execution_failed: exitCodes.toolError,
  code_diverged: exitCodes.toolError,
  outcome_unknown: exitCodes.toolError,
};

export function exitCodeOf(code: ToolErrorCode): number {
  return byErrorCode[code];
}

export interface CliErrorOptions {
  readonly exitCode?: number;
  /** Programs rely on the code, so it never changes. */
  readonly code: string;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** A command failed. The message is for people and says what to do next. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly exitCode: number;
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(message: string, { exitCode = exitCodes.failure, code, details }: CliErrorOptions) {
    super(message);
    this.exitCode = exitCode;
    this.code = code;
    this.details = details;
  }
}

export function usageError(message: string): CliError {
  return new CliError(message, { code: "usage", exitCode: exitCodes.usage });
}

/** The person at the terminal pressed Ctrl-C instead of answering. */
export function interruptedError(message: string): CliError {
  return new CliError(message, { code: "interrupted", exitCode: exitCodes.interrupted });
}

export function isCliError(thrown: unknown, code: string): thrown is CliError {
  return thrown instanceof CliError && thrown.code === code;
}

/** The shape of the rack's errors, so that core need not be loaded to recognise one. */
interface BrandedToolError extends Error {
  readonly code: ToolErrorCode;
  readonly data?: Readonly<Record<string, unknown>>;
}

const toolErrorBrand = Symbol.for("toolrack.ToolError");

function isToolError(thrown: Error): thrown is BrandedToolError {
  return toolErrorBrand in thrown;
}

export function toCliError(thrown: unknown): CliError {
  if (thrown instanceof CliError) return thrown;
  if (!(thrown instanceof Error)) return new CliError(String(thrown), { code: "failure" });
  const { message, stack } = thrown;
  if (isToolError(thrown)) {
    return new CliError(message, {
      code: thrown.code,
      exitCode: exitCodeOf(thrown.code),
      details: thrown.data,
    });
  }
  return new CliError(message, { code: "failure", details: stack === undefined ? undefined : { stack } });
}
