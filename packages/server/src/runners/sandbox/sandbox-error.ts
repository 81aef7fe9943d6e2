/** Why the sandbox itself failed a call. */
export type SandboxErrorCode =
  /** This machine or the operator does not let such code run. The message has the remedy. */
  | "sandbox_refused"
  /** The worker could not be started, or `init` took too long. */
  | "sandbox_start_failed"
  /** The worker ended in the middle of the call. `data.stderr` is the tail of what it wrote. */
  | "sandbox_crashed"
  /** Memory, processor time or output ran over. `data.limit` names the limit. */
  | "sandbox_limit"
  /** The worker was ended for the sake of something else: the server closes, or another call had to be stopped. */
  | "sandbox_ended";

/** The sandbox failed, or had to end what ran in it. The message is meant for people and models. */
export class SandboxError extends Error {
  override readonly name = "SandboxError";
  readonly code: SandboxErrorCode;
  readonly data: Readonly<Record<string, string | number | null>>;

  constructor(
    code: SandboxErrorCode,
    message: string,
    data: Readonly<Record<string, string | number | null>> = {},
  ) {
    super(message);
    this.code = code;
    this.data = data;
  }
}
