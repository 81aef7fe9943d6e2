/** Why a file could not be loaded, in a form for people and programs. */
export interface LoadFailure {
  /** Relative to the workspace. */
  readonly file: string;
  readonly line?: number;
  readonly reason: string;
  /** What would fix it. */
  readonly remedy: string;
  /** The lines around the trouble, which is marked; of the file at fault, where that is one that this one imports. */
  readonly frame?: string;
}

/** A file that cannot be loaded, and where in it the trouble is. */
export class LoadError extends Error {
  override readonly name = "LoadError";
  readonly line: number | undefined;
  /** In characters, from 0. */
  readonly column: number | undefined;
  readonly remedy: string;
  /** The file that is at fault when it is not the one being loaded: a helper that it imports. */
  readonly path: string | undefined;
  /** What is wrong lies outside the files, so it may be right the next time although no file changed. */
  readonly retry: boolean;

  constructor(
    message: string,
    remedy: string,
    where: { path?: string; line?: number; column?: number; cause?: unknown; retry?: boolean } = {},
  ) {
    super(message, where.cause === undefined ? undefined : { cause: where.cause });
    this.remedy = remedy;
    this.line = where.line;
    this.column = where.column;
    this.path = where.path;
    this.retry = where.retry === true;
  }
}
