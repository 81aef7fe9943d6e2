import type { ToolErrorResponse } from "../error/codes.ts";
import type { RawResult, ToolResult } from "../tool/result.ts";
import { atOnce, HIDDEN_JSON, hiddenBytes, jsonSteps, plainSteps, REDACTED } from "./mask-steps.ts";

export { REDACTED };

/** Shorter values are not masked: they occur in almost any text, and nobody's secret has three characters. */
export const SHORTEST = 4;
/**
 * Shorter values are found only in their exact case: with case ignored, they would occur in many texts by
 * chance.
 */
const SHORTEST_IN_ANY_CASE = 6;
/** How many characters within a word are taken for the beginning of a value, unless the value is short. */
export const SHORTEST_BEGUN = 3;
/** Of a value that is not longer, two characters would tell too much. */
const LONGEST_GUARDED = 12;
/**
 * How many characters of each value the first search looks for: a pattern of whole keys and certificates
 * would be too large.
 */
const BEGINNING = 40;
/** How deep `apply` searches a value. Deeper parts are replaced by a word, because they could contain secrets. */
const DEEPEST = 500;

interface ValueIndex {
  /** The length of the longest value. */
  readonly longest: number;
  /** By the code of the first character, and by `pairAt` of the first two, in lower case. */
  readonly byFirst: ReadonlyMap<number, readonly string[]>;
  readonly byPair: ReadonlyMap<number, readonly string[]>;
}

/**
 * Hides a set of secret values, in any mix of upper and lower case. One pass finds out whether a text
 * contains any of them, however many there are. Iterating a mask gives its values.
 */
export class Mask implements Iterable<string> {
  static readonly none = new Mask([]);

  readonly #values: readonly string[];
  readonly #short: readonly string[];
  /** The values that are not in `#short`, in lower case. */
  readonly #folded: readonly string[];
  /**
   * Finds the beginning of any value in `#folded`. Nearly every text has none, which this tells quickly and
   * without a copy of the text.
   */
  readonly #beginnings: RegExp | undefined;
  /** Whether a number can contain one of the values: such a value has only characters of numbers. */
  readonly hidesNumbers: boolean;
  /** Another mask, whose values are hidden too. */
  readonly #other: Mask | undefined;
  readonly isEmpty: boolean;
  /** The values by their first one and two characters, for `openEnd`. Made when it is first needed. */
  #index: ValueIndex | undefined;
  #longest: number | undefined;
  #withEscapes: Mask | undefined;

  constructor(values: Iterable<string>, other?: Mask) {
    this.#values = [...new Set(values)].filter(
      (value) => value.length >= SHORTEST && !REDACTED.includes(value.toLowerCase()),
    );
    this.#short = this.#values.filter((value) => value.length < SHORTEST_IN_ANY_CASE);
    const long = this.#values.filter((value) => value.length >= SHORTEST_IN_ANY_CASE);
    this.#folded = [...new Set(long.map(inLowerCase))];
    if (long.length > 0) this.#beginnings = new RegExp(long.map(toPattern).join("|"), "i");
    this.#other = other?.isEmpty === false ? other : undefined;
    this.hidesNumbers =
      this.#other?.hidesNumbers === true || this.#values.some((value) => /^[\d.e+-]+$/i.test(value));
    this.isEmpty = this.#values.length === 0 && this.#other === undefined;
  }

  /** A mask that hides these values too. */
  and(values: ReadonlySet<string>): Mask {
    return values.size === 0 ? this : new Mask(values, this);
  }

  *[Symbol.iterator](): Generator<string> {
    yield* this.#values;
    if (this.#other !== undefined) yield* this.#other;
  }

  /** Whether any of the values is in the text. */
  finds(text: string): boolean {
    if (this.#short.length > 0 && this.#short.some((value) => text.includes(value))) return true;
    if (this.#beginnings?.test(text) === true) {
      const folded = inLowerCase(text);
      if (this.#folded.some((value) => folded.includes(value))) return true;
    }
    return this.#other?.finds(text) === true;
  }

  /** The length of the longest value, at least 1. */
  get longest(): number {
    this.#longest ??= Array.from(this).reduce((longest, { length }) => Math.max(longest, length), 1);
    return this.#longest;
  }

  /** A mask that also finds these values where JSON writes them with escapes. */
  get withEscapes(): Mask {
    if (this.#withEscapes === undefined) {
      const written = Array.from(this, (value) => JSON.stringify(value).slice(1, -1));
      const known = new Set(this);
      this.#withEscapes = this.and(new Set(written.filter((text) => !known.has(text))));
    }
    return this.#withEscapes;
  }

  /**
   * Where the text ends with the beginning of a value, whose rest may still come; the length of the text when it
   * does not. Within a word at least `SHORTEST_BEGUN` characters of a long value count as a beginning: fewer end many
   * words by chance.
   */
  openEnd(text: string): number {
    this.#index ??= this.#indexed();
    const { longest, byFirst, byPair } = this.#index;
    const from = Math.max(0, text.length - longest + 1);
    const end = from === 0 ? text : text.slice(from);
    const folded = inLowerCase(end);
    let at = 0;
    for (; at < end.length; at++) {
      const isLast = at === end.length - 1;
      const values = isLast ? byFirst.get(folded.charCodeAt(at)) : byPair.get(pairAt(folded, at));
      if (values === undefined) continue;
      const isLong = end.length - at >= SHORTEST_BEGUN || !isWithinWord(text, from + at);
      const hasBegun = (value: string) => {
        if (!isLong && value.length > LONGEST_GUARDED) return false;
        // Short values are found in their exact case, longer ones in any.
        return startsWithEnd(value, value.length < SHORTEST_IN_ANY_CASE ? end : folded, at);
      };
      if (values.some(hasBegun)) break;
    }
    return Math.min(from + at, this.#other?.openEnd(text) ?? text.length);
  }

  /** For each character of the text, 1 if it belongs to a value. Values may overlap. */
  covered(text: string): Uint8Array {
    const covered = this.#other?.covered(text) ?? new Uint8Array(text.length);
    const folded = inLowerCase(text);
    for (const value of this.#short) cover(covered, text, value);
    for (const value of this.#folded) cover(covered, folded, value);
    return covered;
  }

  /** Whether any of the values is in the number as JSON writes it. */
  hidesNumber(value: number): boolean {
    if (!this.hidesNumbers) return false;
    const text = String(value);
    return this.#values.some((hidden) => text.includes(hidden)) || this.#other?.hidesNumber(value) === true;
  }

  /**
   * The text with every value masked; the same text when it contains none. An object or list written as JSON
   * stays valid JSON.
   */
  inText(text: string): string {
    if (!this.finds(text)) return text;
    return (/^\s*[{[]/.test(text) ? this.#inJson(text) : undefined) ?? atOnce(plainSteps(this, text));
  }

  /**
   * The value with every secret in its texts, numbers and keys masked. Parts without a secret are returned as
   * they are, not copied. Expects plain JSON.
   */
  apply<Value>(value: Value): Value {
    return this.isEmpty ? value : (masked(value, this, "", 0, false) as Value); // Masking keeps the form of a value.
  }

  /**
   * Like `apply`, for a message of MCP: what the protocol fixes, such as names of members, types and roles, is
   * not masked.
   */
  inMessage<Value>(message: Value): Value {
    return this.isEmpty ? message : (masked(message, this, "", 0, true) as Value); // Masking keeps the form of a value.
  }

  /**
   * Masks what the tool produced of a result: never its type, nor the MIME types of what it holds. `clean`: what is known
   * to have none of the values, the text alone or also the structured value.
   */
  inResult<Result extends RawResult | ToolResult>(result: Result, clean?: "text" | "all"): Result {
    if (this.isEmpty) return result;
    const { content, type, structured, attachments, blocks, metadata } = result;
    const { title, error, structuredText }: Partial<RawResult & ToolResult> = result;
    const plain = structured === undefined || clean === "all" ? structured : this.apply(structured);
    // In JSON, a secret may be written with escapes.
    const isFound = clean === undefined && this.finds(content);
    const isJson = type === "json" && (plain !== structured || isFound);
    const text = (isJson ? this.#inJson(content) : undefined) ?? (isFound ? this.inText(content) : content);
    // When the whole text is hidden, the structured value that the text shows is hidden as well.
    const isHidden = text === HIDDEN_JSON && text !== content;
    const data = isHidden && structured !== undefined ? REDACTED : plain;
    const files = attachments && this.inMessage(attachments);
    const parts = blocks && this.inMessage(blocks);
    const notes = metadata && this.apply(metadata);
    const heading = title && this.inText(title);
    const isSame = text === content && data === structured && files === attachments && parts === blocks;
    if (isSame && notes === metadata && heading === title && error === undefined) return result;
    return {
      ...result,
      content: text,
      ...(structured !== undefined && { structured: data }),
      ...(structuredText !== undefined && data !== structured && { structuredText: JSON.stringify(data) }),
      ...(attachments !== undefined && { attachments: files }),
      ...(blocks !== undefined && { blocks: parts }),
      ...(metadata !== undefined && { metadata: notes }),
      ...(title !== undefined && { title: heading }),
      ...(error !== undefined && { error: this.inError(error) }),
    };
  }

  /** Masks what a tool may have said in an error: never its name, its code or the names of its details. */
  inError(error: ToolErrorResponse): ToolErrorResponse {
    if (this.isEmpty) return error;
    const { message, details } = error;
    if (details === undefined) return { ...error, message: this.inText(message) };
    const parts = Object.entries(details).map(([key, value]) => [key, this.apply(value)]);
    return {
      ...error,
      message: this.inText(message),
      details: { ...Object.fromEntries(parts), input: this.apply(details.input), toolName: details.toolName },
    };
  }

  /**
   * Masks the texts, keys and numbers in a JSON text, and keeps how it is laid out. Returns undefined when it is
   * no JSON. A secret that goes beyond one text, such as a whole key file, hides everything.
   */
  #inJson(json: string): string | undefined {
    try {
      JSON.parse(json);
    } catch {
      return undefined;
    }
    const shown = atOnce(jsonSteps(this, json));
    return shown !== undefined && this.finds(shown) ? HIDDEN_JSON : shown;
  }

  #indexed(): ValueIndex {
    const values = [...this.#short, ...this.#folded];
    return {
      longest: Math.max(0, ...values.map(({ length }) => length)),
      byFirst: Map.groupBy(values, (value) => inLowerCase(value).charCodeAt(0)),
      byPair: Map.groupBy(values, (value) => pairAt(inLowerCase(value), 0)),
    };
  }
}

/**
 * Secret values: a function that returns them, or an object with their list. Both are read again for every
 * use, so the values may change.
 */
export type SecretValues = (() => Iterable<string>) | { readonly list: readonly string[] };

/**
 * Returns a function that gives the mask of the current secrets and makes a new one only when they have
 * changed. If the host fails to give its secrets, the last known ones are masked, so that no call loses its
 * record.
 */
export function readyMask(secrets: SecretValues): () => Mask {
  /** The list that was read last, if it is frozen and can never change. */
  let fixed: Iterable<string> | undefined;
  let values: readonly string[] = [];
  let mask = Mask.none;
  return () => {
    try {
      const now = typeof secrets === "function" ? secrets() : secrets.list;
      if (now === fixed) return mask;
      const list = [...now];
      if (list.length !== values.length || list.some((value, at) => value !== values[at])) {
        mask = new Mask(list);
        values = list;
      }
      fixed = Object.isFrozen(now) ? now : undefined;
    } catch {
      // The mask of the last known secrets stays.
    }
    return mask;
  };
}

/** Members of MCP messages and attachments whose values the protocol fixes. */
const fixedMembers = new Set(["type", "mime", "mimeType", "role", "audience"]);
/** Members of MCP messages with data of any shape. */
const dataMembers = new Set(["_meta", "structuredContent", "arguments"]);

function cover(covered: Uint8Array, text: string, value: string): void {
  for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1))
    covered.fill(1, at, at + value.length);
}

/** Two characters as one number. */
function pairAt(text: string, at: number): number {
  return text.charCodeAt(at) * 0x10000 + text.charCodeAt(at + 1);
}

function isWithinWord(text: string, at: number): boolean {
  return at > 0 && /[A-Za-z0-9]/.test(text[at - 1]!) && /[A-Za-z0-9]/.test(text[at]!);
}

/** Whether the text from `at` to its end is the beginning of the value, and not the whole value. */
function startsWithEnd(value: string, text: string, at: number): boolean {
  const length = text.length - at;
  if (length >= value.length) return false;
  for (let next = 0; next < length; next++) if (value[next] !== text[at + next]) return false;
  return true;
}

/**
 * The text in lower case, with every character at the same index. Two characters need care: `İ` would become
 * two, and `Σ` would become another letter at the end of a word.
 */
function inLowerCase(text: string): string {
  const lower = text.toLowerCase();
  if (lower.length === text.length && !lower.includes("ς")) return lower;
  return text.replaceAll("İ", "i").toLowerCase().replaceAll("ς", "σ");
}

function toPattern(value: string): string {
  return value.slice(0, BEGINNING).replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

function masked(value: unknown, mask: Mask, key: string, depth: number, isMessage: boolean): unknown {
  if (typeof value === "string")
    return mask.finds(value) ? (hiddenBytes(value, key) ?? mask.inText(value)) : value;
  if (typeof value === "number") return mask.hidesNumbers && mask.hidesNumber(value) ? REDACTED : value;
  if (typeof value !== "object" || value === null) return value;
  if (depth >= DEEPEST) return "[too deep]";
  if (Array.isArray(value)) {
    let copy: unknown[] | undefined;
    for (let at = 0; at < value.length; at++) {
      const item = masked(value[at], mask, "", depth + 1, isMessage);
      if (item === value[at]) continue;
      copy ??= [...value];
      copy[at] = item;
    }
    return copy ?? value;
  }
  const entries = Object.entries(value);
  let isChanged = false;
  for (const entry of entries) {
    const [key, item] = entry;
    if (isMessage && fixedMembers.has(key)) continue;
    if (!isMessage && mask.finds(key)) entry[0] = mask.inText(key);
    entry[1] = masked(item, mask, key, depth + 1, isMessage && !dataMembers.has(key));
    isChanged ||= entry[0] !== key || entry[1] !== item;
  }
  return isChanged ? Object.fromEntries(entries) : value;
}
