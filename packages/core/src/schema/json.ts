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
