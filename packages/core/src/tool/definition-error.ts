/** A tool that cannot be made or hung on the rack. Raised while defining or registering, never during a call. */
export class DefinitionError extends Error {
  override readonly name = "DefinitionError";
  /** The part of the definition that is wrong. */
  readonly field: string;

  constructor(message: string, field: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.field = field;
  }
}
