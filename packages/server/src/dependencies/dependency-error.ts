/** Packages that could not be installed, and which of them is at fault where that is known. */
export class DependencyError extends Error {
  override readonly name = "DependencyError";
  readonly packageName: string | undefined;
  readonly remedy: string;
  /** Whether it may go well the next time although nothing was changed: the network was away, for example. */
  readonly isTemporary: boolean;

  constructor(
    message: string,
    remedy: string,
    options: { packageName?: string; isTemporary?: boolean; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.remedy = remedy;
    this.packageName = options.packageName;
    this.isTemporary = options.isTemporary === true;
  }
}
