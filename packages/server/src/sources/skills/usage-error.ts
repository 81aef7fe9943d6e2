/** A `usage`, `command` or `endpoint` that cannot be used. The message says why, for people. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  /** The field of the tool that is wrong. */
  readonly field: "id" | "usage" | "command" | "endpoint" | "method" | "type";

  constructor(message: string, field: UsageError["field"] = "usage") {
    super(message);
    this.field = field;
  }
}
