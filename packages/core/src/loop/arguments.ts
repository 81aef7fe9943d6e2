import { hashText, hashValue } from "../schema/hash.ts";
import { safeJson } from "../schema/json.ts";

/**
 * The key of a call's arguments, made when it is first needed. Calls are compared by a mark first, which is nearly always
 * different for different arguments and costs a tenth of the key: a call that is not like another never needs its key.
 */
export class ArgumentsKey {
  /** Equal for equal arguments. */
  readonly mark: number;
  #args: unknown;
  #text: string | undefined;
  #traits: Traits | undefined;

  constructor(args: unknown) {
    size = 0;
    this.mark = markOf(args);
    this.#args = args;
    if (size <= mostHeld) return;
    this.#traits = { shape: "", texts: [] };
    this.settle();
  }

  get text(): string {
    this.#text ??= hashValue(this.#args);
    return this.#text;
  }

  /** Whether the arguments differ from others in their numbers alone. Not known of large ones. */
  isNextTo(other: string | ArgumentsKey): boolean {
    const { shape } = this.#traitsOf();
    return shape !== "" && typeof other !== "string" && shape === other.#traitsOf().shape;
  }

  /** Whether a text among the arguments is the same: then one thing may be looked for in several places. */
  keepsPartOf(other: ArgumentsKey): boolean {
    const { texts } = other.#traitsOf();
    return this.#traitsOf().texts.some((text) => texts.includes(text));
  }

  /** Lets go of the arguments, which takes as much time as making the key. */
  settle(): void {
    void [this.text, this.#traitsOf()];
    this.#args = undefined;
  }

  toJSON(): string {
    return this.text;
  }

  #traitsOf(): Traits {
    this.#traits ??= {
      shape: hashText(safeJson(this.#args).text.replace(/\d+/g, "")),
      texts: Object.entries(this.#args ?? {}).flatMap(([name, value]) =>
        typeof value === "string" ? hashText(`${name} ${value}`) : [],
      ),
    };
    return this.#traits;
  }
}

/** Hashes by which arguments that differ are compared: of them without their numbers, and of each text among them. */
interface Traits {
  /** Empty for large arguments. */
  readonly shape: string;
  readonly texts: readonly string[];
}

export function textOf(key: string | ArgumentsKey): string {
  return typeof key === "string" ? key : key.text;
}

/** Whether two keys are of the same arguments. To compare their marks first saves making them. */
export function isSameKey(one: string | ArgumentsKey, other: string | ArgumentsKey): boolean {
  if (one === other) return true;
  if (typeof one !== "string" && typeof other !== "string" && one.mark !== other.mark) return false;
  return textOf(one) === textOf(other);
}

const deepestMark = 2;
/** Characters, about: the arguments of ten thousand sessions may be held at once. */
const mostHeld = 2_000;
/** How large the arguments are that were marked last, as far as this matters. */
let size = 0;

/** A number for arguments, from a few characters of their texts. The order of members does not matter. */
function markOf(value: unknown, depth = 0): number {
  if (typeof value === "string") return textMark(value);
  if (typeof value === "number") return numberMark(value);
  if (typeof value !== "object" || value === null) return 0x9011;
  if (Array.isArray(value)) {
    addSize(value);
    const [first] = value;
    const firstMark = depth < deepestMark && typeof first !== "object" ? markOf(first, deepestMark) : 0;
    return Math.imul(value.length + 1, 0x2c1b3c6d) ^ firstMark;
  }
  let sum = 0x0b1e;
  if (depth >= deepestMark) {
    addSize(value);
    return sum;
  }
  let held = 0;
  for (const key in value) {
    const member = (value as Record<string, unknown>)[key]; // Any object may be read by its own keys.
    let mark: number;
    // What most members are is marked in place, without going deeper: nested arguments 130 → 95 ns.
    if (typeof member === "string") mark = textMark(member);
    else if (typeof member === "number") mark = numberMark(member);
    else if (typeof member === "boolean") mark = Number(member);
    else if (member === undefined || typeof member === "function") continue;
    else mark = markOf(member, depth + 1);
    held += 8;
    sum = (sum + Math.imul(mark ^ key.length, 0x165667b1)) | 0;
  }
  size += held;
  return sum;
}

function textMark(text: string): number {
  const { length } = text;
  if (length === 0) return 0x51;
  size += length;
  const middle = text.charCodeAt(length >> 1);
  const last = text.charCodeAt(length - 1) ^ (length > 1 ? text.charCodeAt(length - 2) << 5 : 0);
  return Math.imul(length ^ (middle << 8) ^ (last << 16), 0x9e3779b1);
}

function numberMark(number: number): number {
  return Math.imul((number * 1009) | 0, 0x85ebca77);
}

/**
 * Ends soon, also in a value that contains itself. The items of a list are alike, so the first and the last stand for all:
 * with every one looked at, by keys that are texts, a call with nested arguments in a session took twice as long (1.6 →
 * 3.2 µs). What is very large as a whole is counted when it is validated, and never held.
 */
function addSize(value: unknown): void {
  size += typeof value === "string" ? value.length : 8;
  if (size > mostHeld) return;
  if (Array.isArray(value)) {
    const before = size;
    if (value.length > 0) addSize(value[0]);
    if (value.length > 1) addSize(value.at(-1));
    if (value.length > 2) size = before + ((size - before) * value.length) / 2;
  } else if (typeof value === "object" && value !== null) {
    for (const key in value) {
      if (size > mostHeld) return;
      addSize((value as Record<string, unknown>)[key]); // Any object may be read by its own keys.
    }
  }
}

const longestText = 8192;
const mostTokens = 128;
const deepest = 8;

/**
 * The distinct words of the arguments' values, hashed: enough to compare two calls without revealing the
 * arguments. Keys are left out, since all calls of a tool share them.
 */
export function argumentTokens(args: unknown): readonly number[] {
  const tokens = new Set<number>();
  let budget = longestText;
  collect(args, 0);
  return [...tokens];

  function collect(value: unknown, depth: number): void {
    if (budget <= 0 || tokens.size >= mostTokens || depth > deepest) return;
    if (typeof value === "object" && value !== null) {
      for (const child of Object.values(value)) collect(child, depth + 1);
      return;
    }
    const text = String(value).slice(0, budget).toLowerCase();
    budget -= text.length;
    for (const [word] of text.matchAll(/[\p{L}\p{N}]+/gu)) {
      if (tokens.size >= mostTokens) return;
      tokens.add(Number.parseInt(hashText(word).slice(0, 8), 16));
    }
  }
}

/** The share of common words among all words of both (Jaccard), from 0 to 1. */
export function similarity(one: readonly number[], other: readonly number[]): number {
  const others = new Set(other);
  const common = one.filter((token) => others.has(token)).length;
  const all = one.length + other.length - common;
  return all === 0 ? 1 : common / all;
}
