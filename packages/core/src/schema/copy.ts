import { issuePath, UnsafeValue } from "./issue.ts";
import { isRecord, type JsonSchemaObject, listOf } from "./visit.ts";

/** Deeper than any real argument, and shallow enough for every validator's stack. */
const maximumDepth = 500;
/** Members of all objects and arrays together; a larger value is an attack or an unrolled shared structure. */
const maximumSize = 1_000_000;

/** Keys in one JSON text of a caller. Unlike list items, keys are looked at many times. */
const mostKeys = 100_000;
/** Shorter texts are parsed quickly, whatever they contain. */
const harmlessText = 64 * 1024;

/** Counts the members seen in one walk. Module state instead of an object: this runs on every call. */
let seen = 0;

/**
 * A copy that shares no object or array with the value, without `__proto__` keys and `undefined` members.
 * Dates, Maps, Buffers and the like are left as they are. Throws `UnsafeValue`.
 */
export function copyPlain(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  seen = 0;
  return copyMember(value, true, 0, value);
}

/**
 * The value itself when no plain object inside it has an own `__proto__` key, otherwise a copy without them.
 * Instances of classes are not entered: a validator may want them as they are. Throws `UnsafeValue`.
 */
export function withoutPrototypeKeys(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  seen = 0;
  if (isHarmless(value, 0)) return value;
  seen = 0;
  return copyMember(value, false, 0, value);
}

/** Whether the value needs no copy and no refusal. */
function isHarmless(value: object, depth: number): boolean {
  if (depth >= maximumDepth) return false;
  if (Array.isArray(value)) {
    seen += value.length;
    for (let index = 0; index < value.length && seen <= maximumSize; index++) {
      const member: unknown = value[index];
      if (typeof member === "object" && member !== null && !isHarmless(member, depth + 1)) return false;
    }
    return seen <= maximumSize;
  }
  // Reading `constructor` is faster than reading the prototype.
  if (value.constructor !== Object && !isPlainObject(value)) return true;
  for (const key in value) {
    if (key === "__proto__") return false;
    const member = (value as Record<string, unknown>)[key]; // Any object may be read by its own keys.
    if (typeof member === "object" && member !== null && !isHarmless(member, depth + 1)) return false;
    seen++;
  }
  return seen <= maximumSize;
}

/** Counts the members of a tree that `copyPlain` made, up to a limit. */
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

/**
 * Says what makes a JSON text too large to parse, or undefined. Looks at the text alone, because parsing a few
 * megabytes of brackets or keys blocks the process for seconds. Must be called before parsing JSON from others.
 */
export function tooMuchJson(text: string, limit = mostKeys): string | undefined {
  if (text.length <= harmlessText) return undefined;
  let depth = 0;
  let keys = 0;
  for (let index = 0; index < text.length; index++) {
    switch (text.charCodeAt(index)) {
      case 0x22: // A text: on to its closing quote.
        index = endOfText(text, index + 1);
        break;
      case 0x3a: // A colon follows every key.
        if (++keys > limit) return `more than ${limit.toLocaleString("en-US")} keys`;
        break;
      case 0x5b:
      case 0x7b: // A list or an object begins.
        if (++depth > maximumDepth) return `more than ${maximumDepth} levels of nesting`;
        break;
      case 0x5d:
      case 0x7d:
        depth--;
    }
  }
  return undefined;
}

/** The position of the quote that closes a text. */
function endOfText(text: string, from: number): number {
  for (let index = from; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x22) return index;
    if (code === 0x5c) index++;
  }
  return text.length;
}

/** `flatten`: copy instances of classes as plain objects; otherwise keep them. */
function copyMember(value: object, flatten: boolean, depth: number, root: object): unknown {
  if (depth >= maximumDepth) throw unsafe(root, "levels of nesting", maximumDepth, "more than 500 levels");
  if (Array.isArray(value)) {
    seen += value.length;
    if (seen > maximumSize) throw tooLarge(root);
    const copy: unknown[] = value.slice();
    for (let index = 0; index < copy.length; index++) {
      const member = copy[index];
      if (typeof member === "object" && member !== null)
        copy[index] = copyMember(member, flatten, depth + 1, root);
    }
    return copy;
  }
  const isPlain = isPlainObject(value);
  if (!isPlain && !(flatten && Object.prototype.toString.call(value) === "[object Object]")) return value;
  const source: Record<string, unknown> = isPlain ? value : { ...value };
  const copy: Record<string, unknown> = {};
  let size = 0;
  for (const key in source) {
    const member = source[key];
    size++;
    if (member === undefined || key === "__proto__") continue;
    const isContainer = typeof member === "object" && member !== null;
    copy[key] = isContainer ? copyMember(member, flatten, depth + 1, root) : member;
  }
  seen += size;
  if (seen > maximumSize) throw tooLarge(root);
  return copy;
}

/** Plain in any realm: made by `{}` or by `Object.create(null)`. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null;
}

function tooLarge(root: object): UnsafeValue {
  return unsafe(root, "members in all", maximumSize, "a larger value");
}

/** A circular value is endlessly deep, so a circle is looked for only when a value is too deep or too large. */
function unsafe(root: object, measure: string, limit: number, received: string): UnsafeValue {
  const circle = pathOfCircle(root);
  if (circle === undefined)
    return refusal("", `at most ${limit.toLocaleString("en-US")} ${measure}`, received);
  return refusal(issuePath(circle), "a value without circular references", "a circular reference");
}

/** The path from the root to a container that is its own ancestor, if there is one. */
function pathOfCircle(root: object): readonly unknown[] | undefined {
  const cleared = new Set<object>();
  const chain: object[] = [];
  const path: (string | number)[] = [];
  return leadsBack(root) ? path : undefined;

  function leadsBack(value: object): boolean {
    if (chain.includes(value)) return true;
    if (cleared.has(value) || chain.length > maximumDepth) return false;
    chain.push(value);
    for (const [key, member] of Object.entries(value)) {
      if (typeof member !== "object" || member === null) continue;
      path.push(Array.isArray(value) ? Number(key) : key);
      if (leadsBack(member)) return true;
      path.pop();
    }
    chain.pop();
    cleared.add(value);
    return false;
  }
}

function refusal(path: string, expected: string, received: string): UnsafeValue {
  const where = path === "" ? "" : ` at \`${path}\``;
  const message = `Expected ${expected}, got ${received}${where}.`;
  return new UnsafeValue({ path, expected, received, message });
}

export type Copier = (value: unknown) => unknown;

/** Larger schemas use the general copy; generated code would only fill memory. */
const deepest = 8;
const mostNodes = 200;

/**
 * Makes a function that copies values of the schema's shape two to four times faster than the general copy (a third of
 * a call with nested arguments). Anything unexpected (a missing or unknown key, a class instance, an unspecified part)
 * goes to the general copy. It validates nothing. Returns `copyPlain` when there is nothing to gain, or when code
 * cannot be generated.
 */
export function compileCopier(schema: JsonSchemaObject): Copier {
  const writer: Writer = { functions: [], nodes: 0 };
  const name = writeNode(schema, writer, 0);
  if (name === undefined) return copyPlain;
  try {
    const source = `"use strict";\n${writer.functions.join("\n")}\nreturn ${name};`;
    const copy = new Function("copyPlain", source)(copyPlain) as Copier; // The source is generated here; keys are quoted.
    return (value) => {
      try {
        return copy(value);
      } catch {
        return copyPlain(value); // It throws the same refusal, with the path from the root.
      }
    };
  } catch {
    return copyPlain;
  }
}

interface Writer {
  readonly functions: string[];
  nodes: number;
}

/** Writes the function for one part of the schema and returns its name; undefined when the part is not specified. */
function writeNode(schema: unknown, writer: Writer, depth: number): string | undefined {
  if (!isRecord(schema) || depth > deepest || writer.nodes >= mostNodes) return undefined;
  writer.nodes++;
  const { properties, items, required } = schema;
  if (isRecord(properties)) return writeObject(properties, listOf(required), writer, depth);
  if (isRecord(items)) return writeArray(items, writer, depth);
  return undefined;
}

function writeObject(
  properties: Record<string, unknown>,
  required: readonly unknown[],
  writer: Writer,
  depth: number,
): string | undefined {
  const keys = Object.keys(properties);
  // Inherited names would be found even when the value lacks them.
  if (keys.length === 0 || keys.some((key) => key in Object.prototype)) return undefined;
  const members = keys.map((key, index) => {
    const copier = writeNode(properties[key], writer, depth + 1);
    return { key: JSON.stringify(key), local: `m${index}`, copier, required: required.includes(key) };
  });
  const name = `copy${writer.functions.length}`;
  const always = members.filter((member) => member.required);
  const sometimes = members.filter((member) => !member.required);
  writer.functions.push(`function ${name}(value) {
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return copyPlain(value);
  ${members.map(({ key, local }) => `const ${local} = value[${key}];`).join(" ")}
  ${always.length === 0 ? "" : `if (${always.map(({ local }) => `${local} === undefined`).join(" || ")}) return copyPlain(value);`}
  let expected = ${always.length};
  const copy = { ${always.map((member) => `${member.key}: ${copied(member)}`).join(", ")} };
  ${sometimes.map((member) => `if (${member.local} !== undefined) { copy[${member.key}] = ${copied(member)}; expected++; }`).join("\n  ")}
  let found = 0;
  for (const key in value) found++;
  return found === expected ? copy : copyPlain(value);
}`);
  return name;
}

function writeArray(items: Record<string, unknown>, writer: Writer, depth: number): string {
  const copier = writeNode(items, writer, depth + 1);
  const name = `copy${writer.functions.length}`;
  writer.functions.push(`function ${name}(value) {
  if (!Array.isArray(value)) return copyPlain(value);
  const copy = value.slice();
  for (let index = 0; index < copy.length; index++) {
    const member = copy[index];
    if (typeof member === "object" && member !== null) copy[index] = ${copier ?? "copyPlain"}(member);
  }
  return copy;
}`);
  return name;
}

/** An unspecified member may still hold an object, which must be copied. */
function copied({ local, copier }: { local: string; copier: string | undefined }): string {
  return copier === undefined
    ? `typeof ${local} === "object" && ${local} !== null ? copyPlain(${local}) : ${local}`
    : `${copier}(${local})`;
}

/** A change to one member of a value, at any depth. */
export interface Edit {
  readonly path: readonly unknown[];
  /** `undefined` removes the member. */
  readonly value: unknown;
}

/**
 * Copies a value with some members changed. Copies only the containers on the paths; shares the rest. Every path must
 * lead through plain objects and arrays.
 */
export function editCopy(value: unknown, edits: readonly Edit[]): unknown {
  const root: Record<string, unknown> = { value };
  const copied = new Set<unknown>();
  for (const { path, value: member } of edits) {
    let container = root;
    let key = "value";
    for (const step of path) {
      const original = container[key];
      if (!copied.has(original)) {
        container[key] = Array.isArray(original) ? original.slice() : { ...(original as object) }; // See above.
        copied.add(container[key]);
      }
      container = container[key] as Record<string, unknown>; // Arrays and objects are both written by key.
      key = String(step);
    }
    if (member === undefined) delete container[key];
    else container[key] = member;
  }
  return root.value;
}
