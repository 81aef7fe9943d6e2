import { exitCodes } from "./exit-codes.ts";

export interface CliErrorOptions {
  readonly exitCode?: number;
  /** For programs; stable. */
  readonly code: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** A command that cannot do its work: the message is for people and says what to do next. */
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

/** The command line is written wrongly. */
export function usageError(message: string): CliError {
  return new CliError(message, { code: "usage", exitCode: exitCodes.usage });
}

export function toCliError(thrown: unknown): CliError {
  if (thrown instanceof CliError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const stack = thrown instanceof Error ? thrown.stack : undefined;
  return new CliError(message, { code: "failure", ...(stack === undefined ? {} : { details: { stack } }) });
}
