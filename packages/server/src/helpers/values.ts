/** An object with keys: neither null nor a list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What was thrown, in words. */
export function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** What comes first: the end of the work, or the signal, whose reason is thrown. The work goes on by itself then. */
export async function unlessAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const refuse = () => reject(signal.reason);
  if (signal.aborted) refuse();
  signal.addEventListener("abort", refuse);
  try {
    await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", refuse);
  }
}

/** What is short in a message of JSON-RPC. A request has both, a notification only a method, an answer only an id. */
interface MessageHead {
  readonly id?: string | number;
  readonly method?: string;
}

const TEXT = String.raw`"(?:[^"\\]|\\.)*"`;
const MEMBER = String.raw`\s*(?:"(?:jsonrpc|method)"\s*:\s*${TEXT}|"id"\s*:\s*(?:${TEXT}|-?\d+))\s*`;
const FIRST = new RegExp(`^\\s*\\{((?:${MEMBER},)+)`);
const LAST = new RegExp(`((?:,${MEMBER})+)\\}\\s*$`);

/**
 * Of a message that was too long to be kept, from its beginning and its end: whoever writes one puts what is short before
 * or after what is long. Empty where it cannot be told.
 */
export function headOfLongMessage(start: string, end: string): MessageHead {
  const first = FIRST.exec(start)?.[1]?.slice(0, -1) ?? "";
  const last = LAST.exec(end)?.[1]?.slice(1) ?? "";
  const members = [first, last].filter((text) => text !== "").join(",");
  try {
    // Nothing but members of these types was let in above.
    return JSON.parse(`{${members}}`) as MessageHead;
  } catch {
    return {};
  }
}

/** A word as it must be typed into a shell. */
export function shellQuote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

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

/** A host as it is compared: lower case, without brackets and without the dot of the root. */
export function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
}

/** The object itself, or an empty one for anything that has no keys. For data that nobody has checked. */
export function asRecord(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

type Defined<Members> = { [Key in keyof Members]?: Exclude<Members[Key], undefined> };

/** Without the members that are undefined: `{ name, ...defined({ mark, sourcePath }) }`. */
export function defined<Members extends object>(members: Members): Defined<Members> {
  const present = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as Defined<Members>; // Exactly what the type says.
}
