import { isRecord } from "./visit.ts";

export interface SafeJson {
  readonly text: string;
  readonly value: unknown;
}

/**
 * Returns the JSON text of a value and the value itself, or a plain copy of a value that JSON cannot hold
 * (circular, BigInt, too deep).
 */
export function safeJson(value: unknown): SafeJson {
  try {
    const text = JSON.stringify(value);
    if (text !== undefined) return { text, value };
    return { text: String(value), value: null };
  } catch {
    const plain = plainCopy(value, 100);
    return { text: JSON.stringify(plain), value: plain };
  }
}

/** What JSON can begin with, after white space. Tested first, because a failed parse is slow. */
const jsonStart = /^[ \t\n\r]*(?:[{["\d-]|true|false|null)/;

/** The value of a JSON text; undefined for any other text. */
export function parseJson(text: string): unknown {
  if (!jsonStart.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function isJsonText(text: string): boolean {
  return parseJson(text) !== undefined;
}

/**
 * A copy for JSON in which a word such as `[circular]` replaces every part that is circular, unreadable, or
 * more than `levels` deep.
 */
export function plainCopy(value: unknown, levels: number, ancestors: object[] = []): unknown {
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value !== "object" || value === null) return value;
  if (ancestors.includes(value)) return "[circular]";
  if (ancestors.length >= levels) return "[too deep]";
  ancestors.push(value);
  const copy = (member: unknown) => plainCopy(member, levels, ancestors);
  try {
    if ("toJSON" in value && typeof value.toJSON === "function") return copy(value.toJSON());
    if (Array.isArray(value)) return value.map((item) => copy(item) ?? null);
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, copy(item)]));
  } catch {
    return "[unreadable]";
  } finally {
    ancestors.pop();
  }
}

/** A deep copy holding nothing but JSON. Throws for what JSON cannot hold, such as a circular object. */
export function cloneJson<T>(value: T): T {
  // JSON in, JSON out: the copy has the shape of the original.
  return JSON.parse(JSON.stringify(value)) as T;
}

/** Deep equality of JSON values; the order of an object's keys does not matter. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => sameJson(item, b[index]));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key], b[key]));
}

/** The values without repetitions, in the order of their first appearance. */
export function distinctJson<T>(values: readonly T[]): T[] {
  return values.filter((value, index) => values.findIndex((other) => sameJson(value, other)) === index);
}

/** Characters of JSON. More than this takes longer than a turn of the event loop should. */
const LARGE = 1024 * 1024;
/** Characters of JSON that are made in one step: a few milliseconds. */
const STEP = 512 * 1024;
/** An object with more members is measured by so many of them, and a list by so many of its items. */
const MOST_MEMBERS = 32;
const SAMPLE = 4;
const MOST_LOOKED_AT = 300;

/**
 * Whether the JSON of a value is long, by a guess that costs next to nothing for a small value (20 to 150 ns): the items
 * of a list are alike, so a few of them stand for all.
 */
export function isLarge(value: unknown): boolean {
  if (typeof value === "string") return value.length > LARGE;
  if (typeof value !== "object" || value === null) return false;
  looked = 0;
  try {
    return sizeOf(value) > LARGE;
  } catch {
    // A member cannot be read; whoever makes the JSON deals with that.
    return false;
  }
}

let looked = 0;

function sizeOf(value: object): number {
  if (++looked > MOST_LOOKED_AT) return 20;
  if (Array.isArray(value)) return sizeOfList(value);
  if (value instanceof Map || value instanceof Set) return 32 * value.size;
  // As JSON, a view of bytes has a number for each.
  if (ArrayBuffer.isView(value)) return 4 * value.byteLength;
  let size = 2;
  let count = 0;
  for (const key in value) {
    if (count++ === MOST_MEMBERS) return (size * Object.keys(value).length) / MOST_MEMBERS;
    const member = (value as Readonly<Record<string, unknown>>)[key]; // Any object may be read by its keys.
    if (typeof member === "string") size += 8 + member.length;
    else size += typeof member === "object" && member !== null ? 8 + sizeOf(member) : 12;
  }
  // What has no members of its own, such as a date, may still say what its JSON is.
  return count === 0 ? 20 : size;
}

function sizeOfList(list: readonly unknown[]): number {
  const { length } = list;
  const step = length <= SAMPLE ? 1 : length / SAMPLE;
  let size = 2;
  for (let at = 0; at < length; at += step) {
    const item = list[Math.floor(at)];
    if (typeof item === "string") size += step * (3 + item.length);
    else size += step * (typeof item === "object" && item !== null ? 1 + sizeOf(item) : 6);
  }
  if (length <= SAMPLE || length > MOST_MEMBERS) return size;
  // In a short list one item may be unlike the others.
  for (const item of list)
    if (typeof item === "string") size = Math.max(size, item.length);
    else if (Array.isArray(item)) size = Math.max(size, 8 * item.length);
  return size;
}

/** Like `safeJson`, in steps of a few milliseconds. */
export function* safeJsonSteps(value: unknown): Generator<void, SafeJson> {
  const pieces: string[] = [];
  try {
    yield* addJson(value, pieces, []);
  } catch {
    // JSON cannot hold the value as it is.
    return safeJson(value);
  }
  return { text: pieces.join(""), value };
}

/**
 * Adds the JSON of a value, piece by piece. Only large lists, objects and texts are taken apart. Throws for a value that
 * `JSON.stringify` refuses or leaves out.
 */
function* addJson(value: unknown, pieces: string[], above: object[]): Generator<void, void> {
  if (!isLarge(value) || !isDivisible(value)) {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError("no JSON");
    pieces.push(text);
    return;
  }
  if (typeof value === "string") return yield* addText(value, pieces);
  if (above.includes(value)) throw new TypeError("circular");
  above.push(value);
  if (Array.isArray(value)) yield* addList(value, pieces, above);
  else yield* addObject(value, pieces, above);
  above.pop();
}

/** Whether JSON writes the value by its members, or by its characters. */
function isDivisible(value: unknown): value is object | string {
  if (typeof value === "string") return true;
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return false;
  const isBoxed = value instanceof String || value instanceof Number || value instanceof Boolean;
  return !isBoxed && !("toJSON" in value && typeof value.toJSON === "function");
}

function* addList(list: readonly unknown[], pieces: string[], above: object[]): Generator<void, void> {
  pieces.push("[");
  // Mostly each step has many members. How many is learned from the step before.
  let count = 1;
  for (let at = 0; at < list.length; ) {
    if (at > 0) {
      pieces.push(",");
      yield;
    }
    if (isLarge(list[at])) yield* addJson(list[at++], pieces, above);
    else {
      const part = list.slice(at, at + count);
      const large = part.findIndex(isLarge);
      if (large > 0) part.length = large;
      const text = JSON.stringify(part);
      pieces.push(text.slice(1, -1));
      at += part.length;
      const fitting = Math.floor((part.length * STEP) / text.length);
      count = Math.max(1, Math.min(fitting, 4 * count));
    }
  }
  pieces.push("]");
}

function* addObject(object: object, pieces: string[], above: object[]): Generator<void, void> {
  let piece = "{";
  let isFirst = true;
  for (const key of Object.keys(object)) {
    const member = (object as Readonly<Record<string, unknown>>)[key]; // Any object may be read by its keys.
    const isWhole = !isLarge(member);
    const text = isWhole ? JSON.stringify(member) : "";
    // JSON has no members without a value.
    if (text === undefined) continue;
    piece += `${isFirst ? "" : ","}${JSON.stringify(key)}:${text}`;
    isFirst = false;
    if (isWhole && piece.length < STEP) continue;
    pieces.push(piece);
    piece = "";
    if (!isWhole) yield* addJson(member, pieces, above);
    yield;
  }
  pieces.push(`${piece}}`);
}

function* addText(text: string, pieces: string[]): Generator<void, void> {
  pieces.push('"');
  for (let from = 0; from < text.length; ) {
    if (from > 0) yield;
    let to = Math.min(from + STEP, text.length);
    // The two halves of a character stay together: alone, each would be written as an escape.
    if (/[\ud800-\udbff]/.test(text[to - 1]!) && to < text.length) to++;
    pieces.push(JSON.stringify(text.slice(from, to)).slice(1, -1));
    from = to;
  }
  pieces.push('"');
}
