import { issuePath } from "./issue-path.ts";
import type { SchemaIssue } from "./types.ts";

/** Deeper than any argument a tool takes, and shallow enough for every validator's stack. */
const maximumDepth = 500;
/** Members of all objects and arrays together; beyond it a value is an attack or a shared structure unrolled. */
const maximumSize = 5_000_000;

/** Thrown, and caught by the validators, when a value is no finite tree. */
export class UnsafeValue {
  readonly issue: SchemaIssue;
  constructor(issue: SchemaIssue) {
    this.issue = issue;
  }
}

interface Walk {
  readonly ancestors: object[];
  size: number;
  /** Whether instances of classes are copied as plain objects or left as they are. */
  readonly flatten: boolean;
}

/**
 * A copy that shares no object or array with the value, without `__proto__` keys and `undefined` members.
 * Dates, Maps, Buffers and the like are left as they are. Throws `UnsafeValue`.
 */
export function copyPlain(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  return copyMember(value, { ancestors: [], size: 0, flatten: true });
}

/**
 * The value itself when no plain object inside it has an own `__proto__` key, otherwise a copy without them.
 * Instances of classes are not entered: a validator may want them as they are. Throws `UnsafeValue`.
 */
export function withoutPrototypeKeys(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (!hasPrototypeKey(value, { ancestors: [], size: 0, flatten: false })) return value;
  return copyMember(value, { ancestors: [], size: 0, flatten: false });
}

/** How many members a tree has, counted up to a limit. For trees that `copyPlain` made. */
export function countMembers(value: unknown, limit: number): number {
  if (typeof value !== "object" || value === null) return 0;
  const members = Object.values(value);
  let count = members.length;
  for (const member of members) {
    if (count >= limit) return count;
    count += countMembers(member, limit - count);
  }
  return count;
}

function copyMember(value: object, walk: Walk): unknown {
  if (Array.isArray(value)) {
    enter(value, value.length, walk);
    const copy = new Array(value.length);
    for (let index = 0; index < value.length; index++) {
      const member: unknown = value[index];
      copy[index] = typeof member === "object" && member !== null ? copyMember(member, walk) : member;
    }
    walk.ancestors.pop();
    return copy;
  }
  if (!isPlain(value, walk.flatten)) return value;
  // Spreading is the fastest way to copy a small object, and the only one that never runs a setter.
  const copy: Record<string, unknown> = { ...value };
  let size = 0;
  let hasLeftovers = false;
  enter(value, 0, walk);
  for (const key in copy) {
    size++;
    const member = copy[key];
    if (member === undefined || key === "__proto__") hasLeftovers = true;
    else if (typeof member === "object" && member !== null) copy[key] = copyMember(member, walk);
  }
  walk.ancestors.pop();
  walk.size += size;
  return hasLeftovers ? withoutLeftovers(copy) : copy;
}

function withoutLeftovers(copy: Record<string, unknown>): Record<string, unknown> {
  const clean: Record<string, unknown> = {};
  for (const key in copy) {
    if (key !== "__proto__" && copy[key] !== undefined) clean[key] = copy[key];
  }
  return clean;
}

function hasPrototypeKey(value: object, walk: Walk): boolean {
  const isArray = Array.isArray(value);
  if (!isArray && !isPlain(value, false)) return false;
  enter(value, isArray ? value.length : 0, walk);
  let found = false;
  if (isArray) {
    for (const member of value) {
      if (typeof member === "object" && member !== null && hasPrototypeKey(member, walk)) found = true;
    }
  } else {
    for (const key in value) {
      walk.size++;
      if (key === "__proto__") found = true;
      const member = (value as Record<string, unknown>)[key]; // Any object may be read by its own keys.
      if (typeof member === "object" && member !== null && hasPrototypeKey(member, walk)) found = true;
    }
  }
  walk.ancestors.pop();
  return found;
}

/** Plain in any realm: made by `{}`, by `Object.create(null)`, or, when flattening, by a class of the author's. */
function isPlain(value: object, flatten: boolean): boolean {
  const prototype = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return true;
  if (Object.getPrototypeOf(prototype) === null) return true;
  return flatten && Object.prototype.toString.call(value) === "[object Object]";
}

function enter(value: object, length: number, walk: Walk): void {
  const ancestors = walk.ancestors;
  for (let index = ancestors.length - 1; index >= 0; index--) {
    if (ancestors[index] === value) {
      throw refusal(walk, value, "a value without circular references", "a circular reference");
    }
  }
  if (ancestors.length >= maximumDepth) {
    const received = `more than ${maximumDepth} levels`;
    throw refusal(undefined, value, `at most ${maximumDepth} levels of nesting`, received);
  }
  walk.size += length;
  if (walk.size > maximumSize) {
    const limit = maximumSize.toLocaleString("en-US");
    throw refusal(undefined, value, `at most ${limit} members in all`, "a larger value");
  }
  ancestors.push(value);
}

function refusal(walk: Walk | undefined, value: object, expected: string, received: string): UnsafeValue {
  const path = walk === undefined ? "" : issuePath(pathTo([...walk.ancestors, value]));
  const where = path === "" ? "" : ` at \`${path}\``;
  return new UnsafeValue({
    path,
    expected,
    received,
    message: `Expected ${expected}, got ${received}${where}.`,
  });
}

/** The keys that lead through a chain of containers, found again from the containers themselves. */
function pathTo(chain: readonly object[]): (string | number)[] {
  return chain.slice(1).map((child, index) => {
    const parent = chain[index]!;
    if (Array.isArray(parent)) return parent.indexOf(child);
    return Object.entries(parent).find(([, member]) => member === child)?.[0] ?? "?";
  });
}
