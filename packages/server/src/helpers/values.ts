/**
 * An object with keys: neither null nor a list. The same as core's `isRecord`, for the programs in the sandbox and for
 * commands that start fast, which do not load core.
 */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The message of anything that was thrown. The same as core's. */
export function reasonOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? thrown.message : String(thrown);
  } catch {
    return "something that cannot be printed"; // An object without a usable `toString`.
  }
}

/**
 * Waits for the work. Throws the signal's reason when the signal aborts first; the work then goes on
 * unobserved.
 */
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

/** Calls `act` once when the signal aborts, or at once if it has. Returns a function that stops it. */
export function whenAborted(signal: AbortSignal, act: () => void): () => void {
  if (signal.aborted) act();
  else signal.addEventListener("abort", act, { once: true });
  return () => signal.removeEventListener("abort", act);
}

/** The short members of a JSON-RPC message. A request has both, a notification only a method, a response only an id. */
interface MessageHead {
  readonly id?: string | number;
  readonly method?: string;
}

const TEXT = String.raw`"(?:[^"\\]|\\.)*"`;
const MEMBER = String.raw`\s*(?:"(?:jsonrpc|method)"\s*:\s*${TEXT}|"id"\s*:\s*(?:${TEXT}|-?\d+))\s*`;
const FIRST = new RegExp(`^\\s*\\{((?:${MEMBER},)+)`);
const LAST = new RegExp(`((?:,${MEMBER})+)\\}\\s*$`);

/**
 * Reads the short members of a message that was too long to be kept, from its beginning and end: senders put them
 * before or after the long ones. Empty when they are not found.
 */
export function headOfLongMessage(start: string, end: string): MessageHead {
  const first = FIRST.exec(start)?.[1]?.slice(0, -1) ?? "";
  const last = LAST.exec(end)?.[1]?.slice(1) ?? "";
  const members = [first, last].filter((text) => text !== "").join(",");
  try {
    // The patterns match only members of these types.
    return JSON.parse(`{${members}}`) as MessageHead;
  } catch {
    return {};
  }
}

/** The value of a text that is JSON; of any other, `otherwise`. */
export function parsedJson(text: string, otherwise?: unknown): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Quotes a word for a shell. */
export function shellQuote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A sum of fractions as a person would add it up: without the last digits, which differ by how computers keep numbers. */
export function tidySum(sum: number): number {
  return Number(sum.toPrecision(12));
}

/** `1 file`, `3 files`; `amount(2, "entry", "entries")`. */
export function amount(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/**
 * The text as every database can hold it. PostgreSQL refuses the character NUL, and half of a surrogate pair has no form in
 * UTF-8; both become visible signs.
 */
export function toStorableText(text: string): string {
  if (!text.includes("\0") && text.isWellFormed()) return text;
  return text.replaceAll("\0", "␀").toWellFormed();
}

/**
 * A reason for people, in English, with a code for programs that have words of their own for it, and the values in those
 * words. The value `said` is in the words of somebody else, or of a part of ours without a code.
 */
export interface CodedReason<Code extends string> {
  readonly reason: string;
  readonly code?: Code | undefined;
  readonly details?: ReasonDetails | undefined;
}

export type ReasonDetails = Readonly<Record<string, string | number | boolean>>;

/** Why a file could not be loaded, in a form for people and programs. */
export interface LoadFailure {
  /** Relative to the workspace. */
  readonly file: string;
  readonly line?: number;
  readonly reason: string;
  /** How to fix the file. */
  readonly remedy: string;
  /** The kind of mistake, for programs that have words of their own for it. */
  readonly code?: "syntax" | "not_installed" | "threw" | "no_tool" | undefined;
  /** The lines around the mistake, which is marked. They may be of an imported file. */
  readonly frame?: string;
}

/** `tools/a.ts:12` */
export function whereOf({ file, line }: Pick<LoadFailure, "file" | "line">): string {
  return line === undefined ? file : `${file}:${line}`;
}

/** A file cannot be loaded. */
export class LoadError extends Error {
  override readonly name = "LoadError";
  readonly line: number | undefined;
  /** In characters, from 0. */
  readonly column: number | undefined;
  readonly remedy: string;
  readonly code: LoadFailure["code"];
  /** The file with the mistake, when it is one that the loaded file imports. */
  readonly path: string | undefined;
  /** The cause lies outside the files, so loading may succeed later although no file changed. */
  readonly retry: boolean;

  constructor(
    message: string,
    remedy: string,
    where: {
      path?: string;
      line?: number;
      column?: number;
      cause?: unknown;
      retry?: boolean;
      code?: LoadFailure["code"];
    } = {},
  ) {
    super(message, where.cause === undefined ? undefined : { cause: where.cause });
    this.remedy = remedy;
    this.code = where.code;
    this.line = where.line;
    this.column = where.column;
    this.path = where.path;
    this.retry = where.retry === true;
  }
}

/** Packages could not be installed. `packageName`: the package that failed, if known. */
export class DependencyError extends Error {
  override readonly name = "DependencyError";
  readonly packageName: string | undefined;
  readonly remedy: string;
  /** Whether the installation may succeed later without a change, for example after a network failure. */
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

/** Normalizes a host for comparison: lower case, without brackets and the final dot. */
export function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
}

/** The value if it is an object with keys, otherwise an empty object. For unchecked data. */
export function asRecord(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

type Defined<Members> = { [Key in keyof Members]?: Exclude<Members[Key], undefined> };

/** Leaves out undefined members: `{ name, ...defined({ mark, sourcePath }) }`. */
export function defined<Members extends object>(members: Members): Defined<Members> {
  const present: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(members)) if (value !== undefined) present[name] = value;
  return present as Defined<Members>; // The condition does what the type says.
}

/** Keeps the entries that were set last: of more than `most`, the one that was set the longest ago is forgotten. */
export class RecentMap<Key, Value> extends Map<Key, Value> {
  readonly #most: number;

  constructor(most: number) {
    super();
    this.#most = most;
  }

  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    const [oldest] = this.size > this.#most ? this.keys() : [];
    if (oldest !== undefined) this.delete(oldest);
    return this;
  }
}

/** After so many additions, and twice as many as there are entries, the entries move to a new Map. */
const MOVE_AFTER = 256;

/**
 * A Map whose entries come and go all the time, such as the calls under way. V8 makes a new table for a Map again and
 * again as entries are added and removed, and each old table keeps its entries and the next table alive until the next
 * full collection. So everything that such a Map ever held survives for a long time: of 24 MB that calls over stdio had
 * allocated, 5.5 MB outlived a small collection, and 2.4 MB do now. A new Map has no link to the one before.
 */
export class PassingMap<Key, Value> {
  /** Read and deleted from directly; added to by `set` only. Another object after some additions. */
  entries = new Map<Key, Value>();
  #added = 0;

  /** Not to be called while the entries are iterated over. */
  set(key: Key, value: Value): void {
    if (++this.#added > MOVE_AFTER && this.#added > 2 * this.entries.size) {
      this.entries = new Map(this.entries);
      this.#added = 0;
    }
    this.entries.set(key, value);
  }
}

/** Milliseconds of work before other work gets its turn. */
const SLICE = 5;

/** Goes through all items, of which there may be tens of thousands, and lets other work in between. */
export async function inSlices<Item, Result>(
  items: Iterator<Item, Result>,
  look: (item: Item) => void = () => {},
): Promise<Result> {
  for (let begun = performance.now(); ; ) {
    const { done, value } = items.next();
    if (done) return value;
    look(value);
    if (performance.now() - begun < SLICE) continue;
    await new Promise<void>((resolve) => setImmediate(resolve));
    begun = performance.now();
  }
}
